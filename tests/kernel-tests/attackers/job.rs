//! An honest job beside an attack, and what must hold after it.

use crate::{
    attack::Attack,
    table::{Loss, Row},
};
use anyhow::{Context, Result, ensure};
use approxlib::{Report, control::Client};
use std::{
    fs,
    net::SocketAddrV4,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use testbed::{
    Daemon, Family, Host, Load, PORT, Process, Sending, Star, TIMEOUT, wait_for,
    wire::{Claim, MARK},
};

/// A load of at least 1.3 s at [`RATE`].
const LOAD: Load = Load::lines(2_000, 1_000);
/// The load of the job after the attack.
const LOAD_AFTER: Load = Load::lines(200, 1_000);
const RATE: &str = "10mbit";
const MSR: f64 = 0.8;
const JOB: u32 = 77;

/// Runs a job beside the attacker of a row, then a job without it.
pub fn beside(row: &Row) -> Result<()> {
    let star = Star::new(3)?;
    let (from, to) = (&star.hosts[0], &star.hosts[1]);
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", RATE])?, to.daemon(&[])?);
    let hosts = Hosts { from, from_daemon, to, to_daemon };
    let receiving = Receiving::start(&hosts, PORT)?;
    let mut sending = hosts.send(PORT, LOAD)?;
    let is_over = AtomicBool::new(false);
    let client = Client::connect(hosts.to_daemon.socket())?;
    wait_for("the job to begin", || {
        Ok((client.stats()?.counters["data_arrived"] > 0).then_some(()))
    })?;
    let ports = from.ports_connected_to(PORT)?;
    let port = *ports.first().context("the sender's socket is not in /proc/net/udp")?;
    let (sent, ended) = thread::scope(|scope| {
        let attack = Attack {
            row,
            star: &star,
            sender: SocketAddrV4::new(from.ipv4, port),
            receiver: SocketAddrV4::new(to.ipv4, PORT),
            claim: Claim { job: JOB, cookie: 0, messages: LOAD.messages, slot: 0 },
        };
        let is_over = &is_over;
        let attacker = scope.spawn(move || attack.run(is_over));
        let ended = wait_for("the job's end", || Ok((!sending.is_running()?).then_some(())));
        is_over.store(true, Ordering::Relaxed);
        let sent = attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        anyhow::Ok((sent, ended))
    })?;
    ended?;
    // A busy machine sends fewer.
    println!("{}: {sent} packets", row.name());
    ensure!(sent > 0, "no packet of the attacker left");
    let outcome = match row.loss {
        Loss::Speed => kept(sending, receiving, LOAD).and_then(|honest| {
            ensure!(honest.strangers == 0, "{} messages of the attacker", honest.strangers);
            Ok(honest)
        }),
        Loss::Messages | Loss::Job => kept(sending, receiving, LOAD),
    };
    match (row.loss, outcome) {
        (Loss::Job, outcome) => println!("{}: {outcome:?}", row.name()),
        (_, outcome) => println!("{}: {:?}", row.name(), outcome?),
    }
    // The hosts are as before.
    let receiving = Receiving::start(&hosts, PORT + 1)?;
    kept(hosts.send(PORT + 1, LOAD_AFTER)?, receiving, LOAD_AFTER).context("the next job").map(drop)
}

/// Two hosts with their daemons.
struct Hosts<'a> {
    from: &'a Host,
    from_daemon: Daemon,
    to: &'a Host,
    to_daemon: Daemon,
}

impl Hosts<'_> {
    fn send(&self, port: u16, load: Load) -> Result<Sending> {
        let to = self.to.endpoint(Family::V4, port);
        let options = ["--msr", &MSR.to_string(), "--job", &JOB.to_string()];
        Sending::start(self.from, &self.from_daemon, to, load, &options)
    }
}

/// A receiver that also takes messages of strangers, as `atp-user recv` does without options.
struct Receiving {
    process: Process,
    out: PathBuf,
}

impl Receiving {
    fn start(hosts: &Hosts, port: u16) -> Result<Self> {
        let out = hosts.to.folder().join(format!("received-{port}"));
        let mut command = hosts.to.atp()?;
        command.args(["recv", &hosts.to.endpoint(Family::V4, port).to_string(), "--out"]);
        // Jobs that a stranger begins and doesn't end are awaited for so long.
        command.arg(&out).args(["--timeout", "5s"]).arg("--socket").arg(hosts.to_daemon.socket());
        let mut process = Process::captured("the receiver", command)?;
        process.wait_until_it_says("receiving")?;
        Ok(Self { process, out })
    }
}

/// The outcome of a job.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
struct Honest {
    delivered: u32,
    needed: u32,
    strangers: usize,
    elapsed_s: f64,
}

/// Waits for both ends. The receiver must have as many of the job's messages as the sender
/// reports and the job needs, each once and byte for byte.
fn kept(sending: Sending, receiving: Receiving, load: Load) -> Result<Honest> {
    let sender = sending.end()?;
    ensure!(sender.status.success(), "the sender: {}", sender.stderr.trim());
    let report: Report = serde_json::from_str(&sender.stdout).context("the report")?;
    let receiver = receiving.process.end(TIMEOUT)?;
    ensure!(receiver.status.success(), "the receiver: {}", receiver.stderr.trim());
    let bytes = fs::read(receiving.out)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let (strangers, honest): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with(MARK));
    let there = load.count_each(honest.into_iter())?;
    let [group] = &report.groups[..] else { anyhow::bail!("{} groups", report.groups.len()) };
    let (delivered, needed) = (group.delivered, group.needed);
    ensure!(needed == (MSR * f64::from(load.messages)).ceil() as u32, "{needed} are needed");
    ensure!(delivered >= needed && !report.canceled, "{delivered} of {needed} were delivered");
    ensure!(there >= delivered, "the receiver has {there} of {delivered} messages");
    let elapsed_s = report.elapsed_s;
    Ok(Honest { delivered, needed, strangers: strangers.len(), elapsed_s })
}
