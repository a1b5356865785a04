//! A running broker.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use testbed::{Process, Signal};

use crate::jvm::{Jvm, Program, STARTED};
use crate::port::ReservedPort;
use crate::properties::Addresses;

/// The limit for a start and for a stop. Each takes some seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(180);
/// The interval of looks at a broker that starts.
const POLL: Duration = Duration::from_millis(50);
/// The lines of a log that an error shows.
const SHOWN_LINES_MAX: usize = 40;
/// The exit status of a JVM that ended in order after SIGTERM.
const TERMINATED: i32 = 128 + Signal::SIGTERM as i32;

/// A broker of Kafka. It is killed when this value is dropped, and when the thread ends that
/// started it.
#[derive(Debug)]
pub struct Broker {
    /// `None` while it is stopped. It ends before its folder is removed.
    process: Option<Process>,
    place: Place,
}

/// The parts of a broker that outlive its process.
#[derive(Debug)]
pub(crate) struct Place {
    pub jvm: Jvm,
    pub addresses: Addresses,
    pub folder: PathBuf,
    pub _ports: Vec<ReservedPort>,
    pub _temporary: Option<TempDir>,
}

impl Place {
    /// Gives a new folder the cluster's identity, and its users that log in by SCRAM.
    pub fn format(&self, scram_users: &[String]) -> Result<()> {
        if self.folder.join("data/meta.properties").exists() {
            return Ok(());
        }
        let finished = self.jvm.start(Program::Format { scram_users }, &self.folder)?.end(LIMIT)?;
        ensure!(
            finished.status.success(),
            "Kafka can't use the folder {} ({}): {}",
            self.folder.display(),
            finished.status,
            end_of(&format!("{}{}", finished.stdout, finished.stderr))
        );
        Ok(())
    }
}

impl Broker {
    /// Starts the process.
    pub(crate) fn launch(place: Place) -> Result<Broker> {
        let mut broker = Broker { process: None, place };
        broker.launch_again()?;
        Ok(broker)
    }

    fn launch_again(&mut self) -> Result<()> {
        self.process = Some(self.place.jvm.start(Program::Serve, &self.place.folder)?);
        Ok(())
    }

    pub(crate) fn wait_until_started(&mut self) -> Result<()> {
        let name = self.name();
        let process = self.process.as_mut().context("the broker isn't running")?;
        let deadline = Instant::now() + LIMIT;
        loop {
            // Before the log is read: its last words say why it ended.
            let is_running = process.is_running()?;
            let log = process.stderr()?;
            if log.contains(STARTED) {
                return Ok(());
            }
            if !is_running || Instant::now() > deadline {
                let trouble = if is_running { "doesn't answer" } else { "ended at its start" };
                bail!("{name} {trouble}; the end of its log:\n{}", end_of(&log));
            }
            thread::sleep(POLL);
        }
    }

    /// The address for clients, `IP:PORT`.
    pub fn bootstrap(&self) -> String {
        self.place.addresses.broker.to_string()
    }

    /// The address of a listener that [`crate::Builder::listener`] named, `IP:PORT`.
    ///
    /// # Errors
    /// There is no such listener.
    pub fn listener(&self, name: &str) -> Result<String> {
        let mut more = self.place.addresses.more.iter();
        let found = more.find(|(listener, _)| listener.name == name);
        let found = found.with_context(|| format!("{} has no listener {name}", self.name()))?;
        Ok(found.1.to_string())
    }

    /// The folder of its configuration and data.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// The id of its process; `None` while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The warnings and errors since it was started; empty while it is stopped.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn log(&self) -> Result<String> {
        self.process.as_ref().map_or_else(|| Ok(String::new()), Process::stderr)
    }

    /// Stops it in order, and waits until it has ended. Nothing happens if it is stopped.
    ///
    /// # Errors
    /// It ended before, or in another way, or not in time; then it is killed.
    pub fn stop(&mut self) -> Result<()> {
        let Some(process) = self.process.take() else { return Ok(()) };
        process.signal(Signal::SIGTERM)?;
        let finished = process.end(LIMIT)?;
        ensure!(
            finished.status.code() == Some(TERMINATED),
            "{} ended with {}; the end of its log:\n{}",
            self.name(),
            finished.status,
            end_of(&finished.stderr)
        );
        Ok(())
    }

    /// Kills it, as a crash does, and waits until it has ended. Its data stay.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Stops it if it runs, starts it with the same data and address, and waits until it answers.
    /// It dies with the calling thread. A killed broker waits until the session of its former life
    /// has ended, after `broker.session.timeout.ms`: 9 s by default.
    ///
    /// # Errors
    /// It doesn't stop, or doesn't start: the error has its log.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch_again()?;
        self.wait_until_started()
    }

    fn name(&self) -> String {
        format!("the broker at {}", self.place.addresses.broker)
    }
}

/// The last lines of a log.
fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.trim_end().lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of__is_the_last_lines() {
        assert_eq!(end_of("a\nb\n"), "a\nb");
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        let end = end_of(&long);
        assert!(end.starts_with("60\n") && end.ends_with("\n99"), "{end}");
    }
}
