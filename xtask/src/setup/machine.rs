//! Installs packages with Debian's apt, as root or through a passwordless sudo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::shell;

/// The machine's means to install packages.
#[derive(Debug)]
pub struct Machine {
    is_root: bool,
    /// sudo that asks for no password
    has_sudo: bool,
    has_apt: bool,
    /// `apt-get update` has been tried; its error, if it failed, is kept for the messages.
    updated: OnceLock<Option<String>>,
}

impl Machine {
    /// This machine, examined once.
    pub fn this() -> &'static Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| Machine {
            is_root: nix::unistd::geteuid().is_root() && owns_every_id(),
            has_sudo: !nix::unistd::geteuid().is_root() && sudo_without_password(),
            has_apt: find_command("apt-get").is_some() && find_command("dpkg").is_some(),
            updated: OnceLock::new(),
        })
    }

    /// Root of the machine itself, not of a user namespace.
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    pub(super) fn has_apt(&self) -> bool {
        self.has_apt
    }

    pub(super) fn can_apt_install(&self) -> bool {
        self.has_apt && (self.is_root || self.has_sudo)
    }

    /// The reason why nothing can be installed, for an error's parenthesis.
    pub(super) fn why_no_install(&self) -> &'static str {
        match (self.has_apt, self.is_root || self.has_sudo) {
            (false, _) => "this system has no apt-get",
            (true, false) => "not root, and sudo asks for a password or isn't there",
            (true, true) => "apt doesn't carry it",
        }
    }

    /// Installs Debian packages; removes none.
    pub(super) fn apt_install(&self, packages: &[String]) -> Result<()> {
        self.apt_update();
        if let Some(absent) = packages.iter().find(|package| !self.apt_carries(package)) {
            bail!("this release has no package {absent}");
        }
        let mut install = self.privileged("apt-get");
        install.args(["install", "--yes", "--no-install-recommends", "--no-remove"]);
        install.args(["-o", "DPkg::Lock::Timeout=120"]).args(packages);
        shell::output(&mut install).map(drop).map_err(|error| match self.updated.get() {
            Some(Some(update)) => {
                error.context(format!("`apt-get update` had failed before: {update}"))
            }
            _ => error,
        })
    }

    /// Refreshes apt's lists, once in this process, if that is allowed. A failure isn't fatal: one
    /// unreachable source doesn't affect the others.
    pub(super) fn apt_update(&self) {
        if !self.can_apt_install() {
            return;
        }
        self.updated.get_or_init(|| {
            atp_output::note!("setup: refreshing apt's package lists");
            let mut update = self.privileged("apt-get");
            update.args(["update", "-o", "DPkg::Lock::Timeout=120"]);
            shell::output(&mut update).err().map(|error| format!("{error:#}"))
        });
    }

    /// Whether apt knows a version of `package` that it could install.
    fn apt_carries(&self, package: &str) -> bool {
        let mut policy = Command::new("apt-cache");
        policy.args(["policy", package]).env("LC_ALL", "C");
        let is_there = |line: &str| {
            line.trim().strip_prefix("Candidate:").is_some_and(|version| version.trim() != "(none)")
        };
        shell::output(&mut policy).is_ok_and(|said| said.lines().any(is_there))
    }

    /// Downloads a package and unpacks it at `into`. It isn't installed, so this needs no root.
    pub(super) fn apt_unpack(&self, package: &str, into: &Path) -> Result<()> {
        let folder = tempfile::tempdir_in(into.parent().unwrap_or(into))?;
        let mut download = Command::new("apt-get");
        download.args(["download", "-o", "APT::Sandbox::User=root", package]);
        shell::output(download.current_dir(folder.path()))?;
        let deb = std::fs::read_dir(folder.path())?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
        let Some(deb) = deb else { bail!("apt-get downloaded no .deb for {package}") };
        let unpacked = folder.path().join("unpacked");
        shell::output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&unpacked))?;
        if into.exists() {
            std::fs::remove_dir_all(into)?;
        }
        std::fs::rename(&unpacked, into)
            .with_context(|| format!("can't move the unpacked package to {}", into.display()))
    }

    /// The command line with which a person installs `packages`.
    pub(super) fn apt_by_hand(&self, packages: &[String]) -> String {
        let sudo = if self.is_root { "" } else { "sudo " };
        format!("{sudo}apt-get install {}", packages.join(" "))
    }

    fn privileged(&self, program: &str) -> Command {
        let mut command = Command::new(if self.has_sudo { "sudo" } else { program });
        if self.has_sudo {
            command.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", program]);
        }
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        command
    }
}

/// A program on the PATH, or in the administrator's folders, which an ordinary user's PATH lacks.
pub fn find_command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Root inside a user namespace has euid 0 too, but only a few ids of its own.
fn owns_every_id() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| maps_every_id(&map))
}

fn maps_every_id(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn sudo_without_password() -> bool {
    find_command("sudo").is_some()
        && shell::output(Command::new("sudo").args(["-n", "true"])).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_every_id_tells_root_from_a_namespace_s_root() {
        assert!(maps_every_id("         0          0 4294967295\n"));
        assert!(!maps_every_id("         0       1000          1\n"));
    }

    #[test]
    fn find_command_finds_the_shell_and_not_the_absurd() {
        assert!(find_command("sh").is_some());
        assert!(find_command("no-such-program-here").is_none());
    }
}
