//! Locks an interface, so that it has one daemon. The kernel frees the lock when its holder ends.

use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The lock on an interface of this network namespace.
pub struct InterfaceLock {
    path: PathBuf,
    _file: Flock<File>,
}

impl InterfaceLock {
    /// Takes the lock for `interface`, in `state_dir`.
    pub fn take(state_dir: &Path, interface: &str) -> Result<Self> {
        // Interfaces in two network namespaces can have the same name.
        let namespace =
            fs::metadata("/proc/self/ns/net").context("can't read the network namespace")?.ino();
        let path = state_dir.join(format!("{namespace}-{interface}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("can't open the lock {}: run as root", path.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                Ok(Self { path, _file: file })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).ok();
                bail!(
                    "a daemon already runs on the interface {interface} (process {pid}): stop it with `atp-user stop`, or choose another interface"
                )
            }
            Err((_, error)) => Err(error).with_context(|| format!("can't lock {}", path.display())),
        }
    }
}

impl Drop for InterfaceLock {
    fn drop(&mut self) {
        // The lock is still held here, so the file is this daemon's.
        fs::remove_file(&self.path).ok();
    }
}

/// Creates the folder for sockets and locks.
pub fn prepare_state_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| {
        format!(
            "can't create the folder {}: run as root, or choose another folder with --state-dir",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take__refuses_a_second_daemon_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let first = InterfaceLock::take(dir.path(), "eth9").unwrap();
        let refusal = InterfaceLock::take(dir.path(), "eth9").err().unwrap().to_string();
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        InterfaceLock::take(dir.path(), "eth8").unwrap();
        drop(first);
        InterfaceLock::take(dir.path(), "eth9").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
