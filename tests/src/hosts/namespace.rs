//! Network namespaces without names.

use anyhow::{Context, Result, bail};
use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::{
        prctl,
        signal::{SigHandler, Signal, signal},
    },
    unistd::{Gid, Uid, setgid, setgroups, setuid},
};
use std::{
    ffi::OsStr,
    fs::{self, File},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::Command,
    thread,
};

/// Debian has ip and tc where ordinary users don't look.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const NOBODY: u32 = 65_534;

/// A network namespace. It goes, with all that is in it, when this and the last process in it do.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// A new one, with nothing in it but its loopback, which is up.
    pub fn new() -> Result<Self> {
        // Only the new thread moves.
        let made = thread::spawn(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        });
        let namespace = Self(made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        namespace.run("ip link set lo up")?;
        // Addresses are ready at once, and nobody is asked whether they are taken.
        namespace.set("net/ipv6/conf/default/accept_dad", "0")?;
        Ok(namespace)
    }

    /// A path that names it, for `ip link ... netns PATH`.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// A command that will run in it. Only the network is another one: file systems and cgroups stay
    /// as they are. It dies with the thread that starts it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let fd = self.0.try_clone()?;
        let mut command = Command::new(program);
        command.env("PATH", PATH);
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                prctl::set_pdeathsig(Some(Signal::SIGKILL))?;
                // Tests may have been started to outlive their terminal.
                signal(Signal::SIGHUP, SigHandler::SigDfl)?;
                Ok(setns(&fd, CloneFlags::CLONE_NEWNET)?)
            });
        }
        Ok(command)
    }

    /// As [`Self::command`], run by the user and group `nobody`.
    pub fn command_of_nobody(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = self.command(program)?;
        // SAFETY: between fork and exec only system calls are made. Last, since entering a network
        // takes privileges; this also takes the wish to die with the parent away.
        unsafe {
            command.pre_exec(|| {
                setgroups(&[])?;
                setgid(Gid::from_raw(NOBODY))?;
                setuid(Uid::from_raw(NOBODY))?;
                Ok(prctl::set_pdeathsig(Some(Signal::SIGKILL))?)
            });
        }
        Ok(command)
    }

    /// Runs a command line without quotes in it and returns what it prints.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command line")?;
        let output =
            self.command(program)?.args(words).output().with_context(|| program.to_owned())?;
        if !output.status.success() {
            bail!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Does `work` in it, on a thread of its own. Sockets made there, and threads started there,
    /// stay in it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                setns(&self.0, CloneFlags::CLONE_NEWNET).context("entering a network namespace")?;
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Reads a file of this namespace below /proc.
    pub fn read(&self, path: &str) -> Result<String> {
        // /proc/net is that of the process, not of the thread.
        let path = path.replace("/proc/net/", "/proc/thread-self/net/");
        self.enter(|| fs::read_to_string(&path).context(path))
    }

    /// Sets a sysctl of this namespace: `net/ipv4/ip_forward`.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{name}");
        self.enter(|| fs::write(&path, value).context(path))
    }
}
