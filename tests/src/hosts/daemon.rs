//! A host's daemon.

use super::{DEVICE, Host, PATIENCE, Process, needs, wait_for};
use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, HostStats};
use nix::sys::signal::Signal;
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

thread_local! {
    /// What the daemons of this thread's test said, to be shown if it fails.
    static LOGS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Takes what ended daemons of this thread have said.
pub fn take_logs() -> String {
    LOGS.take()
}

/// A running daemon; killed when dropped, which leaves the kernel to take its programs down.
#[derive(Debug)]
pub struct Daemon<'a> {
    host: &'a Host,
    process: Option<Process>,
    socket: PathBuf,
    state: PathBuf,
}

impl<'a> Daemon<'a> {
    /// Starts it and waits until its control socket answers.
    pub(super) fn start(host: &'a Host, options: &[&str]) -> Result<Self> {
        let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
        let process = Process::spawn("the daemon", Self::command(host, &socket, &state, options)?)?;
        let mut daemon = Self { host, process: Some(process), socket, state };
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    /// The command line of a daemon on the host's interface, with the pacing that this run is about.
    pub fn command(host: &Host, socket: &Path, state: &Path, options: &[&str]) -> Result<Command> {
        let mut command = host.atp()?;
        command.args(["run", "--iface", DEVICE, "--socket"]).arg(socket);
        command.arg("--state-dir").arg(state).arg("--object").arg(needs::object()?);
        if let Some(backend) = needs::backend() {
            command.args(["--pacing", &backend]);
        }
        command.args(options);
        Ok(command)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        wait_for("the daemon to answer", || {
            ensure!(process.is_running()?, "the daemon ended: {}", process.stderr()?.trim());
            Ok(Client::connect(&self.socket).ok().map(drop))
        })
    }

    /// Its control socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The folder of its locks.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// `atp-user`'s command `line` (without quotes in it), with this daemon's socket added, run to
    /// its successful end.
    pub fn ask(&self, line: &str) -> Result<String> {
        let mut command = self.host.atp()?;
        command.args(line.split_whitespace()).arg("--socket").arg(&self.socket);
        Ok(Process::spawn(line, command)?.success()?.stdout)
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

    /// Ends it by a signal that it heeds.
    pub fn stop_by(mut self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        self.expect_good_end()
    }

    fn expect_good_end(&mut self) -> Result<()> {
        let process = self.process.take().context("it has ended")?;
        let finished = process.end(PATIENCE)?;
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

    /// What it left behind: its socket, and whatever is in its folder.
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

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

fn keep(words: &str) {
    LOGS.with_borrow_mut(|logs| {
        logs.push_str("--- a daemon said:\n");
        logs.push_str(words);
    });
}
