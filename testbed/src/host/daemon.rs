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

/// The time that daemons get to leave their interfaces as found.
const GRACE: Duration = Duration::from_secs(5);
/// How many lines of a daemon's log go into an error.
const LAST_LINES: usize = 3;

thread_local! {
    /// The logs of this thread's daemons, shown if its test fails.
    static LOGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes the logs of this thread's daemons that have ended.
pub fn take_logs() -> String {
    LOGS.take()
}

/// How to start a daemon.
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
    /// The binary, programs and pacing that the environment names.
    pub(super) fn from_environment(options: &[&str]) -> Result<Self> {
        let pacing = needs::backend().map(|backend| ["--pacing".into(), backend.into()]);
        Ok(Self {
            program: needs::program()?,
            object: Some(needs::object()?),
            options: pacing.into_iter().flatten().chain(options.iter().map(Into::into)).collect(),
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

/// A running daemon. Dropping it kills it, and the kernel then removes its programs.
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
    /// Starts it and waits until its control socket answers.
    pub fn start(host: &Host, launch: &Launch) -> Result<Self> {
        let mut daemon = Self::spawn(host, launch)?;
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    /// Starts it.
    pub(crate) fn spawn(host: &Host, launch: &Launch) -> Result<Self> {
        let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
        let command = launch.command(host, &socket, &state);
        // Asked to end, a daemon leaves its interface as found.
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

    /// The command line of a daemon on the host's interface, as the environment wants it.
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

    /// Its process id; 0 once it has ended.
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::id)
    }

    /// The name of its host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of its locks.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        self.process.as_ref().and_then(|process| process.stderr().ok()).unwrap_or_default()
    }

    /// Runs a command of `atp-user` (a line without quotes) on this daemon's socket, to its
    /// successful end.
    pub fn ask(&self, line: &str) -> Result<String> {
        let mut command = self.namespace.command(&self.program);
        set_environment(&mut command);
        command.args(line.split_whitespace()).arg("--socket").arg(&self.socket);
        Ok(Process::captured(line, command)?.success()?.stdout)
    }

    /// `atp-user stats --once --json`
    pub fn stats(&self) -> Result<HostStats> {
        let text = self.ask("stats --once --json")?;
        serde_json::from_str(&text).with_context(|| format!("not the statistics of a host: {text}"))
    }

    /// One event counter of the datapath.
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.stats()?.counters.get(name).copied().with_context(|| format!("no counter {name}"))
    }

    /// `atp-user stop`, and the daemon's own successful end.
    pub fn stop(mut self) -> Result<()> {
        self.ask("stop")?;
        self.expect_good_end()
    }

    /// Ends it by a signal that it handles.
    pub fn stop_by(mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.expect_good_end()
    }

    /// Asks daemons to end, all at the same time, and kills those that don't.
    pub(crate) fn stop_all(daemons: &mut Vec<Self>) {
        let mut processes: Vec<&mut Process> =
            daemons.iter_mut().filter_map(|daemon| daemon.process.as_mut()).collect();
        stop_all(&mut processes, GRACE);
        daemons.clear();
    }

    fn expect_good_end(&mut self) -> Result<()> {
        let process = self.process.take().context("it has ended")?;
        let finished = process.end(TIMEOUT)?;
        keep(&finished.stderr);
        ensure!(finished.status.success(), "{}: {}", finished.status, finished.stderr.trim());
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("it has ended")?.signal(signal)
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.end();
    }

    /// The files that it left behind: its socket, and the content of its folder.
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
