//! `atp-user recv` on one host, `atp-user send` on another.

use crate::{
    host::{Daemon, Family, Host},
    load::Load,
    process::{Finished, Process, Signal},
    wait::TIMEOUT,
};
use anyhow::{Context, Result, ensure};
use approxlib::{Report, control::GroupOpen};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The port that receivers listen on.
pub const PORT: u16 = 4747;

/// A receiver in the background.
#[derive(Debug)]
pub struct Receiving {
    process: Process,
    out: PathBuf,
    load: Load,
}

/// A finished receiver's counts.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Messages in the file, all complete and different.
    pub messages: u32,
    /// The receiver's own count of delivered messages.
    pub delivered: u64,
}

impl Receiving {
    /// Sends a signal to the receiving process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits until the receiver has written `words` to standard error.
    pub fn wait_until_it_says(&mut self, words: &str) -> Result<()> {
        self.process.wait_until_it_says(words)
    }

    /// Starts a receiver and waits until it listens.
    pub fn start(host: &Host, daemon: &Daemon, family: Family, load: Load) -> Result<Self> {
        Self::start_at(host, daemon, host.endpoint(family, PORT), load, &[])
    }

    /// Like [`Self::start`], at another address and with further options of `atp-user recv`.
    pub fn start_at(
        host: &Host,
        daemon: &Daemon,
        address: SocketAddr,
        load: Load,
        options: &[&str],
    ) -> Result<Self> {
        let out = file_of_its_own(host, "received-")?;
        let mut command = host.atp()?;
        command.args(["recv", &address.to_string(), "--json", "--out"]).arg(&out);
        command.arg("--socket").arg(daemon.socket()).args(options);
        if !load.lines {
            command.arg("--raw");
        }
        let mut process = Process::captured("the receiver", command)?;
        process.wait_until_it_says("receiving")?;
        Ok(Self { process, out, load })
    }

    /// Waits for the receiver's end, successful or not, and counts the messages in its file.
    pub fn end(self, limit: Duration) -> Result<u32> {
        let Self { process, out, load } = self;
        process.end(limit)?;
        complete_messages(&out, load)
    }

    /// Kills the receiver, as a crash would, and counts the messages in its file.
    pub fn kill(self) -> Result<u32> {
        let Self { process, out, load } = self;
        drop(process);
        complete_messages(&out, load)
    }

    /// Expects the receiver to end successfully, and checks its file.
    pub fn finish(self) -> Result<Received> {
        let finished = self.process.success()?;
        let reports: serde_json::Value = serde_json::from_str(&finished.stdout)?;
        let senders = reports.as_array().with_context(|| format!("no list: {reports}"))?;
        let counts = senders.iter().map(|report| report["summary"]["delivered"].as_u64());
        let delivered =
            counts.sum::<Option<u64>>().with_context(|| format!("no counts in {reports}"))?;
        Ok(Received { messages: self.load.count(&fs::read(&self.out)?)?, delivered })
    }
}

/// Counts the messages that a receiver wrote, without an incomplete last one.
fn complete_messages(out: &Path, load: Load) -> Result<u32> {
    let bytes = fs::read(out)?;
    let end = if load.lines {
        bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
    } else {
        bytes.len() / load.bytes * load.bytes
    };
    load.count(&bytes[..end])
}

/// A sender in the background.
#[derive(Debug)]
pub struct Sending(Process);

impl Sending {
    /// Starts a sender; `options` are further options of `atp-user send`.
    pub fn start(
        host: &Host,
        daemon: &Daemon,
        to: SocketAddr,
        load: Load,
        options: &[&str],
    ) -> Result<Self> {
        Self::start_with(Self::command(host, daemon, to, load, options)?)
    }

    /// Starts a sender from its command line, for example one that a cgroup adopted.
    pub fn start_with(command: Command) -> Result<Self> {
        Ok(Self(Process::captured("the sender", command)?))
    }

    /// Writes the messages to a file, and returns the command line of their sender.
    pub fn command(
        host: &Host,
        daemon: &Daemon,
        to: SocketAddr,
        load: Load,
        options: &[&str],
    ) -> Result<Command> {
        let file = file_of_its_own(host, "messages-")?;
        load.write(&file)?;
        let mut command = host.atp()?;
        command.args(["send", &to.to_string(), "--json", "--file"]).arg(file);
        command.arg("--socket").arg(daemon.socket()).args(options);
        if !load.lines {
            command.args(["--bytes", &load.bytes.to_string()]);
        }
        Ok(command)
    }

    /// Sends a signal to the sending process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.0.signal(signal)
    }

    /// Whether the sender still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        self.0.is_running()
    }

    /// Expects the sender to end successfully, and returns its report.
    pub fn finish(self) -> Result<Report> {
        let finished = self.0.success()?;
        serde_json::from_str(&finished.stdout)
            .with_context(|| format!("not a report: {}", finished.stdout))
    }

    /// Waits for the sender's end, successful or not.
    pub fn end(self) -> Result<Finished> {
        self.end_within(TIMEOUT)
    }

    /// Like [`Self::end`], with the caller's limit.
    pub fn end_within(self, limit: Duration) -> Result<Finished> {
        self.0.end(limit)
    }
}

/// Makes an empty file in the host's folder that no other sender or receiver uses.
fn file_of_its_own(host: &Host, prefix: &str) -> Result<PathBuf> {
    let file = tempfile::Builder::new().prefix(prefix).tempfile_in(host.folder())?;
    Ok(file.into_temp_path().keep()?)
}

/// A job from one host to another, both with their daemons.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// The sending host.
    pub from: &'a Host,
    /// The sending host's daemon.
    pub from_daemon: &'a Daemon,
    /// The receiving host.
    pub to: &'a Host,
    /// The receiving host's daemon.
    pub to_daemon: &'a Daemon,
    /// The family of the receiver's address.
    pub family: Family,
    /// The messages.
    pub load: Load,
    /// The MSR: the share of messages that must arrive.
    pub msr: f64,
}

impl Transfer<'_> {
    /// Starts the receiver, then the sender.
    pub fn start(&self) -> Result<(Sending, Receiving)> {
        let receiving = Receiving::start(self.to, self.to_daemon, self.family, self.load)?;
        let to = self.to.endpoint(self.family, PORT);
        let msr = self.msr.to_string();
        let sending = Sending::start(self.from, self.from_daemon, to, self.load, &["--msr", &msr])?;
        Ok((sending, receiving))
    }

    /// Runs the job to its end and checks its promise.
    pub fn run(&self) -> Result<(Report, Received)> {
        let (sending, receiving) = self.start()?;
        self.finish(sending, receiving)
    }

    /// Waits for the end of a job that [`Self::start`] began, and checks its promise.
    pub fn finish(&self, sending: Sending, receiving: Receiving) -> Result<(Report, Received)> {
        let report = sending.finish()?;
        let received = receiving.finish()?;
        check_promise(&report, &received, self.load, self.msr)?;
        ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
        Ok((report, received))
    }
}

/// Checks N, the number of needed messages, and that the receiver has at least that number.
pub fn check_promise(report: &Report, received: &Received, load: Load, msr: f64) -> Result<()> {
    let [group] = &report.groups[..] else { anyhow::bail!("{} groups", report.groups.len()) };
    let needed = (msr * f64::from(load.messages)).ceil() as u32;
    ensure!(group.messages == load.messages, "N is {}", group.messages);
    ensure!(group.needed == needed, "{} are needed, not {needed}", group.needed);
    ensure!(
        group.delivered >= needed,
        "{} of the {needed} needed messages were delivered",
        group.delivered
    );
    // The receiver may have more messages than it had reported when the sender ended.
    let Received { messages, delivered } = *received;
    ensure!(messages >= group.delivered, "{messages} of {} are there", group.delivered);
    ensure!(u64::from(messages) == delivered, "{messages} are there, {delivered} were counted");
    Ok(())
}

/// The daemon's request for a socket with one group.
pub fn one_group(msr_parts_per_billion: u32, messages: u32) -> [GroupOpen; 1] {
    [GroupOpen { group: 0, msr_parts_per_billion, messages, ..GroupOpen::default() }]
}
