//! Folders for sockets, state and messages. A folder's name holds its owner, so that the next
//! testbed can clean up after an owner that was killed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result};
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::identity::Identity;
use crate::process::{Process, Signal};

const PREFIX: &str = "atp-testbed-";
/// The prefix of the files that name running daemons.
const DAEMON_PREFIX: &str = "daemon-";
/// The time for a daemon without an owner to detach its programs.
const GRACE: Duration = Duration::from_secs(2);

/// A folder, removed when this value is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Makes the folder, after removing folders whose owners are dead.
    pub fn new() -> Result<Scratch> {
        Ok(Scratch { folder: own_folder(PREFIX)? })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Records a daemon: if this process is killed, the next testbed ends the daemon.
    pub fn note_daemon(&self, process: &Process) -> Result<()> {
        let Some(identity) = process.identity() else { return Ok(()) };
        fs::write(self.path().join(format!("{DAEMON_PREFIX}{}", identity.name())), "")?;
        Ok(())
    }
}

/// Makes a folder `PREFIX-PID-START-RANDOM` for this process, after removing those of dead
/// processes.
///
/// # Errors
/// The folder can't be made in the folder for temporary files.
pub fn own_folder(prefix: &str) -> Result<TempDir> {
    let parent = std::env::temp_dir();
    remove_leftovers(&parent, prefix);
    let prefix = format!("{prefix}{}-", Identity::this()?.name());
    tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(&parent)
        .with_context(|| format!("no folder can be made in {}", parent.display()))
}

/// Cleans up after dead owners: ends their daemons and removes their folders.
fn remove_leftovers(parent: &Path, prefix: &str) {
    for folder in entries(parent) {
        let Some(owner) = file_name(&folder).and_then(|name| owner_of(name, prefix)) else {
            continue;
        };
        if owner.is_alive() || !is_ours(&folder) {
            continue;
        }
        end_daemons(&folder);
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Guards against other users, who can make such a folder in /tmp and name any process in it.
fn is_ours(folder: &Path) -> bool {
    let meta = fs::symlink_metadata(folder);
    meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

fn end_daemons(folder: &Path) {
    let names = entries(folder);
    let daemons: Vec<Identity> = names
        .iter()
        .filter_map(|path| file_name(path)?.strip_prefix(DAEMON_PREFIX))
        .filter_map(Identity::from_name)
        .filter(|daemon| daemon.is_alive())
        .collect();
    if daemons.is_empty() {
        return;
    }
    daemons.iter().for_each(|daemon| daemon.signal(Signal::SIGTERM));
    thread::sleep(GRACE);
    daemons.iter().for_each(|daemon| daemon.signal(Signal::SIGKILL));
}

/// The owner in `PREFIX-PID-START-RANDOM`.
fn owner_of(name: &str, prefix: &str) -> Option<Identity> {
    let (owner, _) = name.strip_prefix(prefix)?.rsplit_once('-')?;
    Identity::from_name(owner)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn owner_of__reads_own_names_only() {
        let owner = Identity { pid: 12, started: 345 };
        assert_eq!(owner_of("atp-testbed-12-345-aBc123", PREFIX), Some(owner));
        for other in ["atp-testbed-12-345", "atp-testbed-x-y-z", "tmp-12-345-a", ""] {
            assert_eq!(owner_of(other, PREFIX), None, "{other}");
        }
    }

    #[test]
    fn remove_leftovers__spares_the_living() {
        let parent = tempfile::tempdir().unwrap();
        let this = Identity::this().unwrap();
        let dead = Identity { started: this.started + 1, ..this };
        let mine = parent.path().join(format!("{PREFIX}{}-aaaaaa", this.name()));
        let left = parent.path().join(format!("{PREFIX}{}-bbbbbb", dead.name()));
        let foreign = parent.path().join("something-else");
        for folder in [&mine, &left, &foreign] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(left.join("atp.sock"), "").unwrap();
        remove_leftovers(parent.path(), PREFIX);
        assert!(mine.exists() && foreign.exists() && !left.exists());
    }

    #[test]
    fn remove_leftovers__spares_what_others_made() {
        if !geteuid().is_root() {
            return;
        }
        let parent = tempfile::tempdir().unwrap();
        let this = Identity::this().unwrap();
        let dead = Identity { started: this.started + 1, ..this };
        let planted = parent.path().join(format!("{PREFIX}{}-dddddd", dead.name()));
        fs::create_dir(&planted).unwrap();
        fs::write(planted.join(format!("{DAEMON_PREFIX}{}", this.name())), "").unwrap();
        std::os::unix::fs::chown(&planted, Some(65_534), None).unwrap();
        remove_leftovers(parent.path(), PREFIX);
        assert!(planted.exists());
    }

    #[test]
    fn remove_leftovers__ends_daemons_of_the_dead() {
        let parent = tempfile::tempdir().unwrap();
        let this = Identity::this().unwrap();
        let dead = Identity { started: this.started + 1, ..this };
        let left = parent.path().join(format!("{PREFIX}{}-cccccc", dead.name()));
        fs::create_dir(&left).unwrap();
        let mut command = Command::new("sleep");
        command.arg("30");
        let mut daemon = Process::spawn(command, Signal::SIGKILL).unwrap();
        let name = daemon.identity().unwrap().name();
        fs::write(left.join(format!("{DAEMON_PREFIX}{name}")), "").unwrap();
        remove_leftovers(parent.path(), PREFIX);
        assert!(daemon.child().wait().unwrap().code().is_none(), "ended by a signal");
        assert!(!left.exists());
    }
}
