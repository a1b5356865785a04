//! Runs jobs through a faulty network.

use crate::row::Row;
use anyhow::{Context, Result, bail, ensure};
use approxlib::Report;
use atp_common::wire::Kind;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use testbed::{
    Daemon, Family, Finished, Host, Load, PORT, Received, Receiving, Sending, Star, check_promise,
    faults::{Injection, Trouble, wired_star},
    wait_for,
    wire::{Capture, Checksum, Frame},
};

/// A job that takes longer counts as hung.
pub const LIMIT: Duration = Duration::from_secs(150);

/// A job from host 0 to host 1.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The IP version.
    pub family: Family,
    /// The messages.
    pub load: Load,
    /// The minimal share of messages that must arrive.
    pub msr: f64,
    /// The highest rate of the sender's lanes.
    pub rate: &'static str,
    /// The receiver's port.
    pub port: u16,
    /// The sender's `--timeout`, seconds: the time without an answer of the receiver after which it
    /// gives up. The receiver's timeout is 5 s longer.
    pub timeout_s: u32,
}

impl Plan {
    /// A job over IPv4, at 40 Mbit/s.
    pub const fn new(load: Load, msr: f64) -> Self {
        Self { family: Family::V4, load, msr, rate: "40mbit", port: PORT, timeout_s: 10 }
    }

    /// A job of at least 3 s, so that a fault can occur in its middle.
    pub const fn long() -> Self {
        Self { rate: "20mbit", ..Self::new(Load::pieces(10_000, 1_000), 0.8) }
    }

    /// A short job on another port.
    pub const fn short() -> Self {
        Self { port: PORT + 1, ..Self::new(Load::lines(500, 500), 0.8) }
    }
}

/// Runs a job through faults in both directions and fills in the row. The job must succeed.
pub fn through(row: &mut Row, trouble: &Trouble, plan: Plan) -> Result<Report> {
    row.set_injected(format!("both ways: {}", trouble.describe()));
    let (report, error) = run(row, trouble, trouble, plan)?;
    report.with_context(|| format!("the sender gave up: {error}"))
}

/// As [`through`], but the sender may also end with an error that says what is missing.
pub fn through_or_error(row: &mut Row, trouble: &Trouble, plan: Plan) -> Result<()> {
    row.set_injected(format!("both ways: {}", trouble.describe()));
    run(row, trouble, trouble, plan).map(drop)
}

/// Runs `jobs` jobs one after the other, each with a receiving program that ends with its job.
/// Every sender must succeed.
pub fn through_and_leave(row: &mut Row, trouble: &Trouble, jobs: u32, plan: Plan) -> Result<()> {
    let injected = format!("both ways: {}; each receiver leaves at once", trouble.describe());
    row.set_injected(injected);
    let star = wired_star(2)?;
    let injection = Injection::start(&star.router, trouble, trouble)?;
    row.set_injector(injection.injector());
    let [from, to] = two(&star)?;
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    for job in 1..=jobs {
        let endpoint = to.endpoint(plan.family, plan.port);
        let receiving =
            Receiving::start_at(to, &to_daemon, endpoint, plan.load, &["--timeout", "15s"])?;
        let sender = send(from, &from_daemon, to, plan)?.end_within(LIMIT)?;
        ensure!(
            sender.status.success(),
            "the sender of job {job} of {jobs} gave up: {}",
            last_line(&sender.stderr)
        );
        let report = parse_report(&sender)?;
        let received = receiving.finish()?;
        check_promise(&report, &received, plan.load, plan.msr)?;
        if job == jobs {
            row.complete("last job", &report, &received);
        }
    }
    row.count("jobs complete", u64::from(jobs));
    row.count_all(injection.counts()?);
    Ok(())
}

/// As [`through`], in one direction.
pub fn through_one_way(
    row: &mut Row,
    trouble: &Trouble,
    answers: bool,
    plan: Plan,
) -> Result<Report> {
    let nothing = Trouble::default();
    let (packets, back, there) = match answers {
        true => ("ACKs and receipts", trouble, &nothing),
        false => ("DATA", &nothing, trouble),
    };
    row.set_injected(format!("{packets} only: {}", trouble.describe()));
    let (report, error) = run(row, back, there, plan)?;
    report.with_context(|| format!("the sender gave up: {error}"))
}

/// Runs a job with faults of each direction. Also returns the last line of the sender's errors.
fn run(
    row: &mut Row,
    back: &Trouble,
    there: &Trouble,
    plan: Plan,
) -> Result<(Option<Report>, String)> {
    let star = wired_star(2)?;
    let injection = Injection::start(&star.router, back, there)?;
    row.set_injector(injection.injector());
    let [from, to] = two(&star)?;
    let (from_daemon, to_daemon) = (sender_daemon(from, plan.rate)?, to.daemon(&[])?);
    let tap = Capture::start(to)?;
    let running = Running::start(from, &from_daemon, to, &to_daemon, plan)?;
    let ended = running.end();
    row.count_if_any("packets overtaken", overtaken(tap.finish()?));
    row.count_all(injection.counts()?);
    count(row, "sender", &from_daemon, &["ack_stale", "ack_forged", "ack_unknown"])?;
    count(row, "receiver", &to_daemon, &["data_arrived", "malformed"])?;
    row.count_if_any("wrong checksums", from.checksum_errors()? + to.checksum_errors()?);
    let ended = ended?;
    let error = last_line(&ended.sender.stderr);
    Ok((ended.expect_end(row, "")?, error))
}

/// The number of DATA packets that arrived after a packet that was sent later. Duplicates and
/// packets with a wrong checksum do not count.
fn overtaken(frames: Vec<Frame>) -> u64 {
    let sound = |frame: &&Frame| frame.kind == Kind::Data && frame.checksum != Checksum::Wrong;
    let (mut largest, mut seen, mut overtaken) = (0, BTreeSet::new(), 0);
    for slot in frames.iter().filter(sound).map(|frame| frame.header.slot()) {
        overtaken += u64::from(seen.insert(slot) && slot < largest);
        largest = largest.max(slot);
    }
    overtaken
}

/// The first two hosts: sender and receiver.
pub fn two(star: &Star) -> Result<[&Host; 2]> {
    let [from, to, ..] = &star.hosts[..] else { bail!("not two hosts") };
    Ok([from, to])
}

/// Waits until ACKs arrive at a sender's daemon.
pub fn wait_until_it_runs(daemon: &Daemon) -> Result<()> {
    wait_for("the job to begin", || Ok((daemon.counter("ack_news")? > 100).then_some(())))
}

/// A daemon with short epochs. The lowest rate is one packet per epoch, and jobs must get through
/// even if nearly all packets are lost.
pub fn sender_daemon(host: &Host, rate: &str) -> Result<Daemon> {
    host.daemon(&["--rate-max", rate, "--epoch", "1ms"])
}

/// Adds a daemon's datapath counters to the row, except those that are zero.
pub fn count(row: &mut Row, side: &str, daemon: &Daemon, names: &[&str]) -> Result<()> {
    let counters = daemon.stats()?.counters;
    for name in names {
        let count = counters.get(*name).copied().with_context(|| format!("no counter {name}"))?;
        row.count_if_any(&format!("{name} at the {side}"), count);
    }
    Ok(())
}

/// A running job. Its receiver stays after the job's end, as a service would, until it is released.
#[derive(Debug)]
pub struct Running<'a> {
    /// The sender.
    pub sending: Sending,
    receiver: Staying<'a>,
    plan: Plan,
    started: Instant,
}

/// A job that has ended at its sender.
#[derive(Debug)]
pub struct Ended<'a> {
    sender: Finished,
    receiver: Staying<'a>,
    plan: Plan,
    after: Duration,
}

impl<'a> Running<'a> {
    /// Starts receiver and sender.
    pub fn start(
        from: &Host,
        from_daemon: &Daemon,
        to: &'a Host,
        to_daemon: &'a Daemon,
        plan: Plan,
    ) -> Result<Self> {
        let receiver = Staying::start(to, to_daemon, plan)?;
        let sending = send(from, from_daemon, to, plan)?;
        Ok(Self::of(sending, receiver, plan))
    }

    /// A job whose sender and receiver were started separately.
    pub fn of(sending: Sending, receiver: Staying<'a>, plan: Plan) -> Self {
        Self { sending, receiver, plan, started: Instant::now() }
    }

    /// Waits for the sender's end, a success or a failure.
    pub fn end(self) -> Result<Ended<'a>> {
        let Self { sending, receiver, plan, started } = self;
        let sender = sending.end_within(LIMIT)?;
        Ok(Ended { sender, receiver, plan, after: started.elapsed() })
    }
}

impl Ended<'_> {
    /// Checks that the job was reported complete and that the promise was kept.
    pub fn expect_complete(self, row: &mut Row, name: &str) -> Result<Report> {
        let error = last_line(&self.sender.stderr);
        self.expect_end(row, name)?.with_context(|| format!("the sender gave up: {error}"))
    }

    /// Checks that the job ended with an error that says what is missing and contains `words`.
    pub fn expect_error(self, row: &mut Row, name: &str, words: &str) -> Result<()> {
        let error = last_line(&self.sender.stderr);
        let report = self.expect_end(row, name)?;
        ensure!(report.is_none(), "reported complete: {report:?}");
        ensure!(error.contains(words), "the error lacks {words:?}: {error}");
        Ok(())
    }

    /// Checks that the job kept its promise (returns its report), or ended with an error that says
    /// what is missing (returns `None`).
    pub fn expect_end(self, row: &mut Row, name: &str) -> Result<Option<Report>> {
        let Self { sender, receiver, plan, after } = self;
        if !sender.status.success() {
            gave_up(row, name, plan, receiver.end()?, &sender, after)?;
            return Ok(None);
        }
        let report = parse_report(&sender)?;
        let received = receiver.finish()?;
        row.complete(name, &report, &received);
        check_promise(&report, &received, plan.load, plan.msr)?;
        Ok(Some(report))
    }
}

/// Checks that a sender's error says what is missing.
fn gave_up(
    row: &mut Row,
    name: &str,
    plan: Plan,
    delivered: u32,
    sender: &Finished,
    after: Duration,
) -> Result<()> {
    let error = last_line(&sender.stderr);
    row.ended(name, plan.load, plan.msr, delivered, &error, after);
    let says = |words| error.contains(words);
    ensure!(
        says("needed messages delivered") || says("all that is needed was delivered"),
        "the error does not say what is missing: {error}"
    );
    let needed = (plan.msr * f64::from(plan.load.messages)).ceil() as u32;
    ensure!(
        says("needed messages delivered") || delivered >= needed,
        "the receiver has {delivered} of {needed}: {error}"
    );
    Ok(())
}

fn parse_report(sender: &Finished) -> Result<Report> {
    serde_json::from_str(&sender.stdout).with_context(|| format!("not a report: {}", sender.stdout))
}

/// A receiver that continues after a job.
#[derive(Debug)]
pub struct Staying<'a> {
    receiving: Receiving,
    host: &'a Host,
    daemon: &'a Daemon,
    plan: Plan,
}

impl<'a> Staying<'a> {
    /// Starts the receiver.
    pub fn start(host: &'a Host, daemon: &'a Daemon, plan: Plan) -> Result<Self> {
        let with_last = Load { messages: plan.load.messages + 1, ..plan.load };
        let address = host.endpoint(plan.family, plan.port);
        // The receiver gets nothing while answers are lost and the sender still tries.
        let timeout = format!("{}s", 2 * plan.timeout_s + 5);
        let options = ["--senders", "2", "--timeout", &timeout];
        let receiving = Receiving::start_at(host, daemon, address, with_last, &options)?;
        Ok(Self { receiving, host, daemon, plan })
    }

    /// Waits until the receiver ends, by its timeout or otherwise, and counts its messages.
    pub fn end(self) -> Result<u32> {
        self.receiving.end(LIMIT)
    }

    /// Releases the receiver by a job of one message on its own host, and returns what it received
    /// from the other host.
    pub fn finish(self) -> Result<Received> {
        let Self { receiving, host, daemon, plan } = self;
        let last = Load { first: plan.load.numbers().end, messages: 1, ..plan.load };
        send(host, daemon, host, Plan { load: last, msr: 1.0, ..plan })?.finish()?;
        let Received { messages, delivered } = receiving.finish()?;
        ensure!(messages >= 1 && delivered >= 1, "the releasing message is missing");
        Ok(Received { messages: messages - 1, delivered: delivered - 1 })
    }
}

/// Starts a sender.
pub fn send(from: &Host, from_daemon: &Daemon, to: &Host, plan: Plan) -> Result<Sending> {
    let (msr, timeout) = (plan.msr.to_string(), format!("{}s", plan.timeout_s));
    let options = ["--msr", &msr, "--timeout", &timeout];
    Sending::start(from, from_daemon, to.endpoint(plan.family, plan.port), plan.load, &options)
}

/// The last line of a program's output: its error.
pub fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or("no error message").trim_start_matches("error: ").to_owned()
}
