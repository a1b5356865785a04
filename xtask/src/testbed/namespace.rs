//! Network namespaces without names: each lives as long as its descriptor and the processes in it,
//! so a crash of the owner leaves none behind.

use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace of our own.
#[derive(Debug)]
pub struct NetNs {
    descriptor: Arc<OwnedFd>,
}

impl NetNs {
    /// Makes a namespace with nothing in it but a loopback that is down.
    ///
    /// # Errors
    /// No CAP_SYS_ADMIN here.
    pub fn new() -> Result<NetNs> {
        // A namespace belongs to a thread: one that ends right away leaves this process as it is.
        let made = thread::spawn(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).context("a network namespace can't be made here")?;
            Ok(File::open("/proc/thread-self/ns/net").context("/proc is not mounted")?.into())
        });
        let descriptor = made.join().map_err(|_| anyhow!("the namespace's thread panicked"))??;
        Ok(NetNs { descriptor: Arc::new(descriptor) })
    }

    #[cfg(test)]
    pub(super) fn from_descriptor(descriptor: OwnedFd) -> NetNs {
        NetNs { descriptor: Arc::new(descriptor) }
    }

    /// Runs `work` on a thread inside the namespace.
    ///
    /// # Errors
    /// Those of `work`, and the kernel's refusal to enter.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(self.descriptor.as_fd(), CloneFlags::CLONE_NEWNET)
                    .context("the namespace can't be entered")?;
                work()
            });
            inside.join().map_err(|_| anyhow!("the thread inside the namespace panicked"))?
        })
    }

    /// Makes `command` start inside the namespace. Only the network changes: mounts, and with them
    /// the cgroup tree, stay (`ip netns exec` would hide it).
    pub fn enter(&self, command: &mut Command) {
        let descriptor = self.descriptor.clone();
        let join = move || Ok(setns(descriptor.as_fd(), CloneFlags::CLONE_NEWNET)?);
        // SAFETY: between fork and exec the closure makes one system call, and allocates nothing.
        unsafe { command.pre_exec(join) };
    }

    /// The namespace as `ip link .. netns PATH` takes it, valid while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }
}

/// Sets a sysctl of the calling thread's network namespace.
pub(super) fn sysctl(name: &str, value: &str) -> Result<()> {
    fs::write(format!("/proc/sys/{name}"), value).with_context(|| {
        format!(
            "/proc/sys/{name} can't be written (in a container /proc/sys must be writable: \
             `--privileged`)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path__names_this_process_and_descriptor() {
        let descriptor: OwnedFd = File::open("/dev/null").unwrap().into();
        let number = descriptor.as_raw_fd();
        let path = NetNs::from_descriptor(descriptor).path();
        assert_eq!(path, format!("/proc/{}/fd/{number}", std::process::id()));
    }
}
