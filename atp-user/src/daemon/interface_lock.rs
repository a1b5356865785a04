//! Locks an interface, so that it has one daemon. The kernel frees the lock when its holder ends.

use super::folder::Folder;
use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::MetadataExt,
};

/// The longest process number, in decimal digits.
const PROCESS_DIGITS_MAX: u64 = 10;

/// The lock on an interface of this network namespace.
#[derive(Debug)]
pub struct InterfaceLock {
    folder: Folder,
    name: String,
    file: Flock<File>,
}

impl InterfaceLock {
    /// Takes the lock for `interface`, as its daemon.
    pub fn take(folder: Folder, interface: &str) -> Result<Self> {
        let mut lock = Self::borrow(folder, interface)?;
        lock.file.set_len(0)?;
        write!(lock.file, "{}", std::process::id())?;
        Ok(lock)
    }

    /// Takes the lock for `interface` while a crashed daemon's remains are removed. Writes nothing,
    /// because the file is in the folder of the daemon's user.
    pub fn borrow(folder: Folder, interface: &str) -> Result<Self> {
        // Interfaces in two network namespaces can have the same name.
        let namespace =
            fs::metadata("/proc/self/ns/net").context("can't read the network namespace")?.ino();
        let name = format!("{namespace}-{interface}.lock");
        loop {
            match Flock::lock(folder.file(&name)?, FlockArg::LockExclusiveNonblock) {
                // The holder before removes the file that it had locked.
                Ok(file) if !folder.has(&name, &file)? => {}
                Ok(file) => return Ok(Self { folder, name, file }),
                Err((file, Errno::EWOULDBLOCK)) => bail!(
                    "a daemon already runs on the interface {interface}{}: stop it with `atp-user stop`, or choose another interface",
                    holder(file).map(|pid| format!(" (process {pid})")).unwrap_or_default()
                ),
                Err((_, error)) => {
                    let path = folder.at(&name);
                    return Err(error).with_context(|| format!("can't lock {}", path.display()));
                }
            }
        }
    }
}

/// The process that a lock's file names.
fn holder(file: File) -> Option<u32> {
    let mut text = String::new();
    file.take(PROCESS_DIGITS_MAX).read_to_string(&mut text).ok()?;
    text.parse().ok()
}

impl Drop for InterfaceLock {
    fn drop(&mut self) {
        // The lock is still held here, so the file is this daemon's.
        self.folder.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take__refuses_a_second_daemon_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = || Folder::create(dir.path()).unwrap();
        let first = InterfaceLock::take(folder(), "eth9").unwrap();
        let refusal = InterfaceLock::take(folder(), "eth9").err().unwrap().to_string();
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        InterfaceLock::take(folder(), "eth8").unwrap();
        drop(first);
        InterfaceLock::take(folder(), "eth9").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
