//! An honest job beside an attack, and what must hold after it.

use crate::{
    attack::{Attack, Ends},
    outcome::{Receiving, end_reported, kept},
    table::{Loss, Row, Time},
};
use anyhow::{Context, Result, ensure};
use approxlib::control::Client;
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};
use testbed::{Daemon, Family, Host, Load, PORT, Sending, Star, wait_for, wire::Claim};

/// A load of at least 1.3 s at [`RATE`].
const LOAD: Load = Load::lines(2_000, 1_000);
/// The load of the job after the attack, and of the one beside the attacked job.
const OTHER_LOAD: Load = Load::lines(200, 1_000);
const RATE: &str = "10mbit";
pub const MSR: f64 = 0.8;
const JOB: u32 = 77;
const OTHER_JOB: u32 = 78;
/// An attacker's knowledge of the job.
pub const CLAIM: Claim = Claim { job: JOB, cookie: 0, messages: LOAD.messages, slot: 0 };
/// The ports of the sending host, where an attacker must know the port before the job has one.
const KNOWN_PORTS: [u16; 2] = [40_000, 40_001];

/// Runs a job beside the attacker of a row, then a job without it. A row of several attacks that
/// fails names those that fail alone.
pub fn beside(row: &Row) -> Result<()> {
    let Err(error) = beside_all(*row) else { return Ok(()) };
    let mut told = Vec::new();
    for alone in row.of_each_kind().filter(|alone| alone.kinds != row.kinds) {
        if let Err(error) = beside_all(alone) {
            told.push(format!("{}: {error:#}", alone.kinds[0].name()));
        }
    }
    Err(error.context(format!("failures of a kind alone: {told:?}")))
}

fn beside_all(row: Row) -> Result<()> {
    let star = Star::new(3)?;
    let (from, to) = (&star.hosts[0], &star.hosts[1]);
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", RATE])?, to.daemon(&[])?);
    let hosts = Hosts { family: row.family, from, from_daemon, to, to_daemon };
    if row.time == Time::Before {
        let [first, last] = KNOWN_PORTS;
        from.namespace.set("net/ipv4/ip_local_port_range", &format!("{first} {last}"))?;
    }
    let limits = ["--job".to_owned(), JOB.to_string(), "--from".to_owned()];
    let limits = limits.into_iter().chain([from.address(row.family).to_string()]);
    let limits: Vec<_> = limits.filter(|_| row.limits).collect();
    let receiving = Receiving::start(&hosts, PORT, &limits)?;
    let (sending, receiving) = attacked(row, &star, &hosts, receiving)?;
    match row.loss {
        Loss::Speed => {
            let honest = kept(sending, receiving.end()?, LOAD)?;
            ensure!(honest.strangers == 0, "{} messages of the attacker", honest.strangers);
            println!("{}: {honest:?}", row.name());
        }
        Loss::Messages => {
            println!("{}: {:?}", row.name(), kept(sending, receiving.end()?, LOAD)?);
        }
        Loss::Job | Loss::Unnoticed => {
            let told = end_reported(sending, receiving.end()?, LOAD, row.loss)?;
            println!("{}: {told}", row.name());
        }
    }
    hosts.expect_nothing_left()?;
    hosts.expect_a_job(PORT + 1).context("the next job")?;
    hosts.expect_nothing_left()
}

/// Runs the job and the attack to their ends.
fn attacked(
    row: Row,
    star: &Star,
    hosts: &Hosts<'_>,
    mut receiving: Receiving,
) -> Result<(Sending, Receiving)> {
    let (is_over, sent) = (AtomicBool::new(false), AtomicU32::new(0));
    let (is_over, sent) = (&is_over, &sent);
    let attack = |ports: &[u16]| {
        let senders = ports.iter().map(|port| hosts.from.endpoint(row.family, *port)).collect();
        let receiver = hosts.to.endpoint(row.family, PORT);
        let ends = Ends { senders, receiver, claim: CLAIM };
        Attack { row, star, ends, is_over, sent }
    };
    thread::scope(|scope| {
        let mut attacker = None;
        let ended = (|| {
            if row.time == Time::Before {
                let running = attacker.insert(scope.spawn(|| attack(&KNOWN_PORTS).run()));
                wait_for("the attack to begin", || {
                    ensure!(!running.is_finished(), "the attack has ended");
                    Ok((sent.load(Ordering::Relaxed) > 0).then_some(()))
                })?;
            }
            let mut sending = hosts.send(PORT, JOB, LOAD)?;
            if row.time != Time::Before {
                let ports = hosts.ports_once_begun()?;
                attacker = Some(scope.spawn(move || attack(&ports).run()));
            }
            if row.needs_a_key() {
                hosts.expect_a_job(PORT + 2).context("the job beside")?;
            }
            wait_for("the sender's end", || Ok((!sending.is_running()?).then_some(())))?;
            if row.time == Time::GoesOn {
                wait_for("the receiver's end, while a stranger goes on", || {
                    Ok((!receiving.process.is_running()?).then_some(()))
                })?;
            }
            anyhow::Ok((sending, receiving))
        })();
        is_over.store(true, Ordering::Relaxed);
        let attacked = attacker.map(|attacker| {
            attacker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        // The job's failure comes first: it may have ended the attack early.
        let ended = ended?;
        attacked.context("there was no attack")??;
        ensure!(sent.load(Ordering::Relaxed) > 0, "no packet of the attacker left");
        Ok(ended)
    })
}

/// Two hosts with their daemons.
pub struct Hosts<'a> {
    pub family: Family,
    from: &'a Host,
    from_daemon: Daemon,
    pub to: &'a Host,
    pub to_daemon: Daemon,
}

impl Hosts<'_> {
    fn send(&self, port: u16, job: u32, load: Load) -> Result<Sending> {
        let to = self.to.endpoint(self.family, port);
        let (msr, job) = (MSR.to_string(), job.to_string());
        // As long as the receiver.
        let options = ["--msr", &msr, "--job", &job, "--timeout", "5s"];
        Sending::start(self.from, &self.from_daemon, to, load, &options)
    }

    /// The ports of the sender's sockets, once its packets arrive.
    fn ports_once_begun(&self) -> Result<Vec<u16>> {
        let client = Client::connect(self.to_daemon.socket())?;
        wait_for("the job to begin", || {
            Ok((client.stats()?.counters["data_arrived"] > 0).then_some(()))
        })?;
        let ports = self.from.ports_connected_to(PORT)?;
        ensure!(!ports.is_empty(), "the sender's socket is not in /proc/net/udp");
        Ok(ports)
    }

    /// Runs another job, which must keep its guarantee.
    fn expect_a_job(&self, port: u16) -> Result<()> {
        let receiving = Receiving::start(self, port, &[])?;
        let sending = self.send(port, OTHER_JOB, OTHER_LOAD)?;
        kept(sending, receiving.end()?, OTHER_LOAD).map(drop)
    }

    /// The daemons end the registrations of closed sockets within a second or so.
    fn expect_nothing_left(&self) -> Result<()> {
        for daemon in [&self.from_daemon, &self.to_daemon] {
            let client = Client::connect(daemon.socket())?;
            wait_for("the daemon to forget the jobs", || {
                let stats = client.stats()?;
                Ok((stats.lanes.is_empty() && stats.jobs.is_empty()).then_some(()))
            })?;
        }
        Ok(())
    }
}
