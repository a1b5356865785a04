//! A host's daemon.

use super::{DEVICE, Host, set_environment};
use crate::{
    namespace::Namespace,
    needs,
    process::{Process, Signal, stop_all},
    wait::{TIMEOUT, wait_for},
};
use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, HostStats};
use std::{
    cell::RefCell,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The time for daemons to restore their interfaces before they are killed.
const GRACE: Duration = Duration::from_secs(5);
/// The number of a daemon's last log lines in an error.
const LAST_LINES: usize = 3;

thread_local! {
    /// The logs of this thread's daemons, printed if its test fails.
    static LOGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes the logs of this thread's ended daemons.
pub fn take_logs() -> String {
    LOGS.take()
}

/// The command line of a daemon.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The daemon's binary.
    pub program: PathBuf,
    /// The compiled eBPF programs, if the binary doesn't carry them.
    pub object: Option<PathBuf>,
    /// Further options of `atp-user run`.
    pub options: Vec<OsString>,
}

impl Launch {
    /// The binary, programs and pacing that the environment names; the shipped profile, if the
    /// options name neither a profile nor a law.
    pub(super) fn from_environment(options: &[&str]) -> Result<Self> {
        let pacing = needs::backend().map(|backend| ["--pacing".into(), backend.into()]);
        let names = |option: &&str| options.contains(option);
        let profile = !["--profile", "--law"].iter().any(names);
        let profile = profile.then(|| ["--profile".into(), "default".into()]);
        Ok(Self {
            program: needs::program()?,
            object: Some(needs::object()?),
            options: [pacing, profile]
                .into_iter()
                .flatten()
                .flatten()
                .chain(options.iter().map(Into::into))
                .collect(),
        })
    }

    fn command(&self, host: &Host, socket: &Path, state: &Path) -> Command {
        let mut command = host.namespace.command(&self.program);
        set_environment(&mut command);
        command.args(["run", "--iface", DEVICE, "--socket"]).arg(socket);
        command.arg("--state-dir").arg(state);
        if let Some(object) = &self.object {
            command.arg("--object").arg(object);
        }
        command.args(&self.options);
        command
    }
}

/// A running daemon. Dropping this value kills the process; the kernel then removes its programs.
#[derive(Debug)]
pub struct Daemon {
    host: String,
    namespace: Namespace,
    program: PathBuf,
    process: Option<Process>,
    socket: PathBuf,
    state: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until its control socket answers.
    pub fn start(host: &Host, launch: &Launch) -> Result<Self> {
        let mut daemon = Self::spawn(host, launch)?;
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    /// Starts a daemon without waiting for it.
    pub(crate) fn spawn(host: &Host, launch: &Launch) -> Result<Self> {
        let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
        let command = launch.command(host, &socket, &state);
        // On SIGTERM a daemon restores its interface.
        let process = Process::captured_until("the daemon", command, Signal::SIGTERM)?;
        host.folder.note_daemon(&process)?;
        Ok(Self {
            host: host.name.clone(),
            namespace: host.namespace.clone(),
            program: launch.program.clone(),
            process: Some(process),
            socket,
            state,
        })
    }

    /// The command line of a daemon on the host's interface, with the environment's settings.
    pub fn command(host: &Host, socket: &Path, state: &Path, options: &[&str]) -> Result<Command> {
        Ok(Launch::from_environment(options)?.command(host, socket, state))
    }

    pub(crate) fn wait_until_it_answers(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        wait_for(&format!("the daemon of {} to answer", self.host), || {
            ensure!(
                process.is_running()?,
                "the daemon of {} ended: {}",
                self.host,
                last_lines(&process.stderr()?)
            );
            Ok(Client::connect(&self.socket).ok().map(drop))
        })
    }

    /// The daemon's process id; 0 once it has ended.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    /// The name of the daemon's host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The daemon's control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of the daemon's locks.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The daemon's log so far.
    pub fn log(&self) -> String {
        self.process.as_ref().and_then(|process| process.stderr().ok()).unwrap_or_default()
    }

    /// Runs an `atp-user` command (a line without quotes) on this daemon's socket and expects
    /// success.
    pub fn ask(&self, line: &str) -> Result<String> {
        let mut command = self.namespace.command(&self.program);
        set_environment(&mut command);
        command.args(line.split_whitespace()).arg("--socket").arg(&self.socket);
        Ok(Process::captured(line, command)?.success()?.stdout)
    }

    /// The output of `atp-user stats --once --json`.
    pub fn stats(&self) -> Result<HostStats> {
        let text = self.ask("stats --once --json")?;
        serde_json::from_str(&text).with_context(|| format!("not the statistics of a host: {text}"))
    }

    /// The event counter `name` of the datapath.
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.stats()?.counters.get(name).copied().with_context(|| format!("no counter {name}"))
    }

    /// Runs `atp-user stop` and expects the daemon to exit successfully.
    pub fn stop(mut self) -> Result<()> {
        self.ask("stop")?;
        self.expect_good_end()
    }

    /// Ends the daemon by a signal that it handles, and expects it to exit successfully.
    pub fn stop_by(mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.expect_good_end()
    }

    /// Asks all daemons to end at the same time, and kills those still running after `GRACE`.
    pub(crate) fn stop_all(daemons: &mut Vec<Self>) {
        let mut processes: Vec<&mut Process> =
            daemons.iter_mut().filter_map(|daemon| daemon.process.as_mut()).collect();
        stop_all(&mut processes, GRACE);
        daemons.clear();
    }

    fn expect_good_end(&mut self) -> Result<()> {
        let process = self.process.take().context("the daemon has ended")?;
        let finished = process.end(TIMEOUT)?;
        keep(&finished.stderr);
        ensure!(finished.status.success(), "{}: {}", finished.status, finished.stderr.trim());
        Ok(())
    }

    /// Sends the daemon a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("the daemon has ended")?.signal(signal)
    }

    /// Kills the daemon, as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    /// The files that the host's daemon left behind: its socket, and those in its state folder.
    pub fn leftovers(host: &Host) -> Result<Vec<PathBuf>> {
        let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
        let mut left: Vec<_> = socket.exists().then_some(socket).into_iter().collect();
        if state.exists() {
            for entry in fs::read_dir(state)? {
                left.push(entry?.path());
            }
        }
        Ok(left)
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            keep(&process.stderr().unwrap_or_default());
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.len() {
        0 => "it wrote nothing".to_owned(),
        written => lines[written.saturating_sub(LAST_LINES)..].join(" / "),
    }
}

fn keep(log: &str) {
    LOGS.with_borrow_mut(|logs| {
        logs.push_str("--- the log of a daemon:\n");
        logs.push_str(log);
    });
}
