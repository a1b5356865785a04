//! Both ends of a job after an attack, and what they must say.

use crate::{
    job::{Hosts, MSR},
    table::Loss,
};
use anyhow::{Context, Result, bail, ensure};
use approxlib::Report;
use std::{fs, path::PathBuf};
use testbed::{Finished, Load, Process, Sending, TIMEOUT, wire::MARK};

/// A receiver that also takes messages of strangers, as `atp-user recv` does without options.
pub struct Receiving {
    pub process: Process,
    out: PathBuf,
}

/// An ended receiver.
pub struct Received {
    finished: Finished,
    out: PathBuf,
}

/// The outcome of a job.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
pub struct Honest {
    delivered: u32,
    needed: u32,
    /// Messages of the attacker.
    pub strangers: usize,
    elapsed_s: f64,
}

impl Receiving {
    pub fn start(hosts: &Hosts<'_>, port: u16, options: &[String]) -> Result<Self> {
        let out = hosts.to.folder().join(format!("received-{port}"));
        let mut command = hosts.to.atp()?;
        command.args(["recv", &hosts.to.endpoint(hosts.family, port).to_string(), "--out"]);
        // Jobs that a stranger begins and doesn't end are awaited for so long.
        command
            .arg(&out)
            .args(["--timeout", "5s"])
            .args(options)
            .arg("--socket")
            .arg(hosts.to_daemon.socket());
        let mut process = Process::captured("the receiver", command)?;
        process.wait_until_it_says("receiving")?;
        Ok(Self { process, out })
    }

    pub fn end(self) -> Result<Received> {
        Ok(Received { finished: ended("the receiver", self.process.end(TIMEOUT)?)?, out: self.out })
    }
}

impl Received {
    /// The number of the job's messages, each once and byte for byte, and of the attacker's.
    fn messages(&self, load: Load) -> Result<(u32, usize)> {
        let bytes = fs::read(&self.out)?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let (strangers, honest): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with(MARK));
        Ok((load.count_each(honest.into_iter())?, strangers.len()))
    }
}

/// The receiver must have as many of the job's messages as the sender reports and the job needs.
pub fn kept(sending: Sending, received: Received, load: Load) -> Result<Honest> {
    let sender = sending.end()?;
    ensure!(sender.status.success(), "the sender: {}", sender.stderr.trim());
    let report: Report = serde_json::from_str(&sender.stdout).context("the report")?;
    let finished = &received.finished;
    ensure!(finished.status.success(), "the receiver: {}", finished.stderr.trim());
    let (there, strangers) = received.messages(load)?;
    let (delivered, needed) = promised(&report, load)?;
    ensure!(delivered >= needed && !report.canceled, "{delivered} of {needed} were delivered");
    ensure!(there >= delivered, "the receiver has {there} of {delivered} messages");
    Ok(Honest { delivered, needed, strangers, elapsed_s: report.elapsed_s })
}

/// The delivered and the needed messages. The report may not need fewer than the MSR says.
fn promised(report: &Report, load: Load) -> Result<(u32, u32)> {
    let [group] = &report.groups[..] else { bail!("{} groups", report.groups.len()) };
    let needed = needed(load);
    ensure!(group.needed == needed, "{} are needed, not {needed}", group.needed);
    Ok((group.delivered, needed))
}

fn needed(load: Load) -> u32 {
    (MSR * f64::from(load.messages)).ceil() as u32
}

/// Both ends of an attacked job end by themselves, and messages that were written are the job's or
/// the attacker's. A sender whose job fell short says so, unless the loss may be unnoticed.
pub fn end_reported(
    sending: Sending,
    received: Received,
    load: Load,
    loss: Loss,
) -> Result<String> {
    let sender = ended("the sender", sending.end()?)?;
    let (there, strangers) = received.messages(load)?;
    let receiver = error_of(&received.finished);
    let receiver = format!("the receiver has {there} messages, and {strangers} others{receiver}");
    if !sender.status.success() {
        return Ok(format!("the sender failed{}; {receiver}", error_of(&sender)));
    }
    let report: Report = serde_json::from_str(&sender.stdout).context("the report")?;
    let is_short = match promised(&report, load) {
        Ok((delivered, needed)) => delivered < needed || report.canceled,
        // A request lowered the MSR, down to an end.
        Err(_) => report.ended_by_receiver || report.requests > 0,
    };
    let holds = there >= needed(load);
    ensure!(
        is_short || holds || loss == Loss::Unnoticed,
        "the sender took its job for complete, and {receiver}: {report:?}"
    );
    Ok(format!(
        "the sender took its job for {}; {receiver}",
        match is_short {
            true => "short",
            false => "complete",
        }
    ))
}

/// A process that ended by itself, and without a panic: with success, or with one clear error.
fn ended(name: &str, finished: Finished) -> Result<Finished> {
    let code = finished.status.code();
    let told = !error_of(&finished).is_empty();
    ensure!(code == Some(0) || (code == Some(1) && told), "{name} crashed: {finished:?}");
    Ok(finished)
}

/// The error that a program wrote.
fn error_of(finished: &Finished) -> String {
    let error = finished.stderr.lines().find(|line| line.starts_with("error: "));
    error.map(|error| format!(" ({error})")).unwrap_or_default()
}
