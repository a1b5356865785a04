//! `atp-user recv` on one host, `atp-user send` on another.

use crate::{
    host::{Daemon, Family, Host},
    load::Load,
    process::{Finished, Process},
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

/// Where receivers listen.
pub const PORT: u16 = 4747;

/// A receiver in the background.
#[derive(Debug)]
pub struct Receiving {
    process: Process,
    out: PathBuf,
    load: Load,
}

/// The messages that a receiver got.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Messages, all complete and different.
    pub messages: u32,
    /// The receiver's own count.
    pub delivered: u64,
}

impl Receiving {
    /// Starts it and waits until it listens.
    pub fn start(host: &Host, daemon: &Daemon, family: Family, load: Load) -> Result<Self> {
        Self::start_at(host, daemon, host.endpoint(family, PORT), load, &[])
    }

    /// As above, at another address and with further options of `atp-user recv`.
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

    /// Waits for its end, successful or not, and counts the messages in its file.
    pub fn end(self, limit: Duration) -> Result<u32> {
        let Self { process, out, load } = self;
        process.end(limit)?;
        complete_messages(&out, load)
    }

    /// Ends it as a crash would, and counts the messages in its file.
    pub fn kill(self) -> Result<u32> {
        let Self { process, out, load } = self;
        drop(process);
        complete_messages(&out, load)
    }

    /// Waits for its successful end and checks its file.
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

/// Counts the messages that a receiver wrote, without a last one that is incomplete.
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
    /// Starts it; `options` are further options of `atp-user send`.
    pub fn start(
        host: &Host,
        daemon: &Daemon,
        to: SocketAddr,
        load: Load,
        options: &[&str],
    ) -> Result<Self> {
        Self::start_with(Self::command(host, daemon, to, load, options)?)
    }

    /// As above, in a cgroup.
    pub fn start_with(command: Command) -> Result<Self> {
        Ok(Self(Process::captured("the sender", command)?))
    }

    /// The sender's command line, and the file that it sends.
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

    /// Whether it still runs.
    pub fn is_running(&mut self) -> Result<bool> {
        self.0.is_running()
    }

    /// Waits for its successful end.
    pub fn finish(self) -> Result<Report> {
        let finished = self.0.success()?;
        serde_json::from_str(&finished.stdout)
            .with_context(|| format!("not a report: {}", finished.stdout))
    }

    /// Waits for its end, successful or not.
    pub fn end(self) -> Result<Finished> {
        self.end_within(TIMEOUT)
    }

    /// As [`Self::end`], with a limit of one's own.
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
    /// Its daemon.
    pub from_daemon: &'a Daemon,
    /// The receiving host.
    pub to: &'a Host,
    /// Its daemon.
    pub to_daemon: &'a Daemon,
    /// The family of the addresses.
    pub family: Family,
    /// The messages.
    pub load: Load,
    /// The share that must arrive.
    pub msr: f64,
}

impl Transfer<'_> {
    /// Starts receiver and sender.
    pub fn start(&self) -> Result<(Sending, Receiving)> {
        let receiving = Receiving::start(self.to, self.to_daemon, self.family, self.load)?;
        let to = self.to.endpoint(self.family, PORT);
        let msr = self.msr.to_string();
        let sending = Sending::start(self.from, self.from_daemon, to, self.load, &["--msr", &msr])?;
        Ok((sending, receiving))
    }

    /// Runs it to its end and checks its promise.
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

/// Checks N, the messages needed of it, and that the receiver has as many.
pub fn check_promise(report: &Report, received: &Received, load: Load, msr: f64) -> Result<()> {
    let [group] = report.groups[..] else { anyhow::bail!("{} groups", report.groups.len()) };
    let needed = (msr * f64::from(load.messages)).ceil() as u32;
    ensure!(group.messages == load.messages, "N is {}", group.messages);
    ensure!(group.needed == needed, "{} are needed, not {needed}", group.needed);
    ensure!(
        group.delivered >= needed,
        "{} of the {needed} needed messages were delivered",
        group.delivered
    );
    // The receiver may have got more than the sender had heard of at its end.
    let Received { messages, delivered } = *received;
    ensure!(messages >= group.delivered, "{messages} of {} are there", group.delivered);
    ensure!(u64::from(messages) == delivered, "{messages} are there, {delivered} were counted");
    Ok(())
}

/// The request to the daemon of a socket with one group.
pub fn one_group(msr_parts_per_billion: u32, messages: u32) -> [GroupOpen; 1] {
    [GroupOpen { group: 0, msr_parts_per_billion, messages }]
}
