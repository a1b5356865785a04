//! Workers and daemons as child processes: started inside a namespace, listened to, and gone when
//! their handle goes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use approxlib::control::Client;
use serde::de::DeserializeOwned;

use super::namespace::End;
use testbed::{Identity, Launch, Process, Signal};

const DAEMON_START_MAX: Duration = Duration::from_secs(10);
const DAEMON_STOP_MAX: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// A process of `bench worker`.
pub struct Worker {
    process: Process,
    lines: BufReader<ChildStdout>,
    role: &'static str,
}

impl Worker {
    /// Starts this program again, inside.
    pub fn start(
        inside: &End,
        cpu: Option<usize>,
        role: &'static str,
        args: &[String],
    ) -> Result<Self> {
        let mut command = inside.command(std::env::current_exe()?);
        command.args(["bench", "worker"]);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        command.arg(role).args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, Signal::SIGKILL)?;
        let lines = process.child().stdout.take().context("its output was piped")?;
        Ok(Self { process, lines: BufReader::new(lines), role })
    }

    /// The worker's next line.
    pub fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.process.child().wait()?;
            bail!("{} ended without a result ({status})", self.role);
        }
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.role))
    }
}

/// An `atp-user run`.
pub struct Daemon {
    process: Process,
    identity: Identity,
    /// Its control socket.
    pub socket: PathBuf,
}

impl Daemon {
    /// Starts a daemon on the namespace's interface; its socket and log are in `dir`.
    pub fn start(
        launch: &Launch,
        inside: &End,
        dir: &Path,
        rate_max: &str,
        profile: &Path,
    ) -> Result<Self> {
        let socket = dir.join(format!("{}.sock", inside.interface));
        let log = dir.join(format!("{}.log", inside.interface));
        let mut command = inside.command(&launch.program);
        command.args(["run", "--iface", inside.interface, "--rate-max", rate_max]);
        command.arg("--profile").arg(profile);
        if let Some(object) = &launch.object {
            command.arg("--object").arg(object);
        }
        command.arg("--socket").arg(&socket).arg("--state-dir").arg(dir.join(inside.interface));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        // Asked to end, a daemon leaves its interface as found.
        let process = Process::spawn(command, Signal::SIGTERM)?;
        let identity = process.identity().context("the daemon ended at once")?;
        let mut daemon = Self { process, identity, socket };
        daemon.wait_until_ready(&log)?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<()> {
        let started = Instant::now();
        while Client::connect(&self.socket).is_err() {
            let ended = self.process.child().try_wait()?.is_some();
            if ended || started.elapsed() > DAEMON_START_MAX {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                bail!("the daemon didn't start:\n{}", said.trim());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.identity.pid
    }
}

/// A daemon is asked to leave, so that a benchmark also shows whether it can.
impl Drop for Daemon {
    fn drop(&mut self) {
        self.identity.signal(Signal::SIGTERM);
        let asked = Instant::now();
        while matches!(self.process.child().try_wait(), Ok(None)) {
            if asked.elapsed() > DAEMON_STOP_MAX {
                eprintln!("a daemon doesn't stop within {DAEMON_STOP_MAX:?}; killing it");
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}
