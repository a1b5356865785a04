//! Network namespaces without names: each lives as long as its descriptor and the processes in it,
//! so a crash of the owner leaves none behind.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

/// The folders of the administrator's programs, which an ordinary user's PATH lacks.
const ADMIN_FOLDERS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The number of the user and the group `nobody`.
pub const NOBODY: u32 = 65_534;

/// A network namespace, shared by its clones. It ends with the last clone and the last process in
/// it.
#[derive(Clone, Debug)]
pub struct Namespace {
    descriptor: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes a namespace whose loopback is up.
    ///
    /// # Errors
    /// No CAP_SYS_ADMIN here, or no `ip`.
    pub fn new() -> Result<Namespace> {
        let namespace = Namespace::empty()?;
        namespace.run("ip link set lo up")?;
        // Skip duplicate address detection, so that addresses are usable at once.
        namespace.set("net/ipv6/conf/default/accept_dad", "0")?;
        Ok(namespace)
    }

    /// Makes a namespace with nothing in it but a loopback that is down.
    ///
    /// # Errors
    /// No CAP_SYS_ADMIN here.
    pub(crate) fn empty() -> Result<Namespace> {
        // A thread that ends right away enters the new namespace; the rest of the process stays.
        let made = thread::spawn(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).context("can't make a network namespace here")?;
            Ok(File::open("/proc/thread-self/ns/net").context("/proc is not mounted")?.into())
        });
        let made = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Namespace { descriptor: Arc::new(made?) })
    }

    /// The namespace as `ip link ... netns PATH` takes it, valid while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }

    /// A command that runs inside. The process dies with the thread that starts it.
    ///
    /// Only the network changes: mounts, and with them the cgroup tree, stay as they are (`ip netns
    /// exec` would hide the tree).
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let descriptor = Arc::clone(&self.descriptor);
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{ADMIN_FOLDERS}"));
        let enter = move || {
            prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
            // The owner may run under nohup, and its daemons must not inherit the ignored SIGHUP.
            // SAFETY: the default action replaces no handler that anyone relies on.
            unsafe { signal(Signal::SIGHUP, SigHandler::SigDfl)? };
            Ok(setns(descriptor.as_fd(), CloneFlags::CLONE_NEWNET)?)
        };
        // SAFETY: between fork and exec the closure makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Like [`Self::command`], run by the user and group `nobody`.
    pub fn command_of_nobody(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command(program);
        // SAFETY: between fork and exec only system calls are made. This closure runs after that of
        // `command`, because entering a network takes privileges. A change of user clears the
        // parent-death signal, so the closure sets it again.
        unsafe {
            command.pre_exec(|| {
                setgroups(&[])?;
                setgid(Gid::from_raw(NOBODY))?;
                setuid(Uid::from_raw(NOBODY))?;
                Ok(prctl::set_pdeathsig(Some(Signal::SIGKILL))?)
            });
        }
        command
    }

    /// Runs a command line without quotes, and returns its output.
    ///
    /// # Errors
    /// The program is missing or fails; the error holds the program's message.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let output = self
            .command(program)
            .args(words)
            .output()
            .with_context(|| format!("can't start `{program}`"))?;
        if !output.status.success() {
            bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs `work` on a thread inside. Sockets and threads made there stay inside.
    ///
    /// # Errors
    /// The error of `work`, or the kernel's refusal to enter.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(self.descriptor.as_fd(), CloneFlags::CLONE_NEWNET)
                    .context("can't enter a network namespace")?;
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Reads a file of this namespace below /proc.
    pub fn read(&self, path: &str) -> Result<String> {
        // /proc/net is the network of the process, not of the thread.
        let path = path.replace("/proc/net/", "/proc/thread-self/net/");
        self.enter(|| fs::read_to_string(&path).context(path))
    }

    /// Sets a sysctl of this namespace, for example `net/ipv4/ip_forward`.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.enter(|| {
            fs::write(format!("/proc/sys/{name}"), value).with_context(|| {
                format!(
                    "can't write /proc/sys/{name} (in a container /proc/sys must be writable: \
                     `--privileged`)"
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path__names_this_process_and_descriptor() {
        let descriptor: OwnedFd = File::open("/dev/null").unwrap().into();
        let number = descriptor.as_raw_fd();
        let path = Namespace { descriptor: Arc::new(descriptor) }.path();
        assert_eq!(path, format!("/proc/{}/fd/{number}", std::process::id()));
    }
}
