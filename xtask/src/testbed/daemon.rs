//! A daemon in each host.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use super::host::{Host, INTERFACE};
use super::process::{Process, Signal, stop_all};
use super::scratch::Scratch;

/// Loading and attaching takes a fraction of a second on an idle machine.
const READY_MAX: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);
/// How many lines of a daemon's log go into an error.
const LAST_WORDS: usize = 3;

/// What the daemons of a testbed have in common.
pub(super) struct Launch<'a> {
    pub binary: &'a Path,
    pub profile: Option<&'a Path>,
    pub extra: &'a [String],
    pub rate_bits_per_s: u64,
    pub scratch: &'a Scratch,
}

impl Launch<'_> {
    pub fn start(&self, host: &Host) -> Result<Process> {
        let folder = folder(self.scratch, host);
        fs::create_dir_all(&folder)?;
        let mut command = host.command(self.binary);
        command.args(["run", "--iface", INTERFACE]).arg("--socket").arg(self.socket(host));
        command.arg("--state-dir").arg(&folder);
        command.arg("--rate-max").arg(format!("{}bit", self.rate_bits_per_s));
        if let Some(profile) = self.profile {
            command.arg("--profile").arg(profile);
        }
        command.args(self.extra);
        let log = File::create(log_path(self.scratch, host))?;
        // The log ends up in error messages.
        command.env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Asked to end, a daemon leaves its interface as found.
        let process = Process::spawn(command, Signal::SIGTERM)?;
        self.scratch.note_daemon(&process)?;
        Ok(process)
    }

    pub fn wait_until_ready(&self, host: &Host, process: &mut Process) -> Result<()> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            if answers(&self.socket(host)) {
                return Ok(());
            }
            let name = &host.name;
            if let Some(status) = process.child().try_wait()? {
                bail!("the daemon of {name} ended ({status}): {}", self.last_words(host));
            }
            if Instant::now() >= deadline {
                let seconds = READY_MAX.as_secs();
                let said = self.last_words(host);
                bail!("the daemon of {name} did not answer within {seconds} s: {said}");
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The control socket of a host's daemon.
    pub fn socket(&self, host: &Host) -> PathBuf {
        folder(self.scratch, host).join("atp.sock")
    }

    fn last_words(&self, host: &Host) -> String {
        let log = log(self.scratch, host);
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines.len() {
            0 => "it said nothing".to_owned(),
            said => lines[said.saturating_sub(LAST_WORDS)..].join(" / "),
        }
    }
}

/// Ends daemons, all at the same time.
pub(super) fn stop(daemons: &mut Vec<Process>) {
    stop_all(daemons, GRACE);
    daemons.clear();
}

pub(super) fn log(scratch: &Scratch, host: &Host) -> String {
    fs::read_to_string(log_path(scratch, host)).unwrap_or_default()
}

fn answers(path: &Path) -> bool {
    let attempt = || -> Result<()> {
        let kind = SockType::SeqPacket;
        let socket = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(())
    };
    attempt().is_ok()
}

fn folder(scratch: &Scratch, host: &Host) -> PathBuf {
    scratch.path().join(&host.name)
}

fn log_path(scratch: &Scratch, host: &Host) -> PathBuf {
    folder(scratch, host).join("daemon.log")
}
