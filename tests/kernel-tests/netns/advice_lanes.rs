//! Tests advice to jobs of many lanes: jobs of several groups, each with a lane of its own.

use anyhow::{Context, Result, ensure};
use approxlib::{
    Event, Group, Job, Receiver, Report,
    control::{Client, LaneStats},
};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use testbed::{Daemon, Family, Host, PORT, Star, TIMEOUT};

crate::trials! {
    if missing_for_fq:
    advice__to_many_lanes_under_fq,
}

// An emulated machine is too slow to fill a port of 200 Mbit/s.
crate::trials! {
    fn not_emulated:
    advice__to_jobs_of_many_lanes,
}

const MSR: f64 = 0.8;
/// A host is advised for this many lanes of one sender.
const ADVISED_MAX: usize = 64;
/// Messages of each job for each Mbit/s of the port: 0.6 s at half of it.
const MESSAGES: u32 = 30;

#[derive(Debug)]
struct Outcome {
    dropped: f64,
    /// The job of many lanes, then the one beside it.
    elapsed_s: [f64; 2],
    /// Lanes of the first job that were advised at any look.
    advised: usize,
}

/// A job of `lanes` lanes and a job of one lane, equally long, to one host through a port with a
/// queue of some packets.
fn run(mbit_per_s: u32, lanes: u8, advice: &str) -> Result<Outcome> {
    let star = Star::new(3)?;
    let rate = format!("{mbit_per_s}mbit");
    star.shape(2, &rate, 8)?;
    let [many, one, to] = &star.hosts[..] else { anyhow::bail!("not three hosts") };
    let options = ["--rate-max", &rate, "--advice", advice];
    let daemons = [many, one, to].map(|host| host.daemon(&options));
    let [many_daemon, one_daemon, to_daemon] = daemons;
    let (many_daemon, one_daemon, to_daemon) = (many_daemon?, one_daemon?, to_daemon?);
    let address = |at| SocketAddr::new(to.endpoint(Family::V4, PORT).ip(), PORT + at);
    let receivers = [bind(to, &to_daemon, address(0))?, bind(to, &to_daemon, address(1))?];
    let mut snapshot = Client::connect(many_daemon.socket())?.snapshot()?;
    thread::scope(|scope| {
        let receiving = receivers.map(|receiver| scope.spawn(|| drain(receiver)));
        let start = |host, daemon: &Daemon, at, groups| {
            let socket = daemon.socket().to_owned();
            let messages = MESSAGES * mbit_per_s;
            scope.spawn(move || send(host, socket, address(at), groups, messages))
        };
        let sending = [start(many, &many_daemon, 0, lanes), start(one, &one_daemon, 1, 1)];
        let (begun, mut advised) = (Instant::now(), BTreeSet::new());
        while !sending.iter().all(thread::ScopedJoinHandle::is_finished) {
            ensure!(begun.elapsed() < Duration::from_secs(60), "the jobs take too long");
            let lanes = snapshot.read().lanes;
            let is_advised = |lane: &&LaneStats| lane.advice_bytes_per_s.is_some();
            advised.extend(lanes.iter().filter(is_advised).map(|lane| lane.group.group));
            thread::sleep(Duration::from_millis(5));
        }
        let (mut sent, mut arrived, mut elapsed_s) = (0, 0, [0.0; 2]);
        for (sending, elapsed_s) in sending.into_iter().zip(&mut elapsed_s) {
            let report = joined(sending)?;
            ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
            for group in &report.groups {
                ensure!(group.delivered >= group.needed, "{group:?}");
            }
            (sent, arrived) = (sent + report.packets_sent, arrived + report.packets_arrived);
            *elapsed_s = report.elapsed_s;
        }
        receiving.into_iter().try_for_each(joined)?;
        let dropped = 1.0 - arrived as f64 / sent as f64;
        Ok(Outcome { dropped, elapsed_s, advised: advised.len() })
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn bind(host: &Host, daemon: &Daemon, address: SocketAddr) -> Result<Receiver> {
    host.namespace.enter(|| {
        let socket = Some(daemon.socket().to_owned());
        Ok(Receiver::builder().control_socket(socket).bind(address)?)
    })
}

/// Sends the messages in turn to each group.
fn send(host: &Host, socket: PathBuf, to: SocketAddr, groups: u8, messages: u32) -> Result<Report> {
    host.namespace.enter(|| {
        let each = messages / u32::from(groups);
        let all = (0..groups).map(|id| Group::new(id).msr(MSR).messages(each));
        let mut job = Job::builder().groups(all).control_socket(Some(socket)).connect(to)?;
        for _ in 0..each {
            (0..groups).try_for_each(|group| job.send_in(group, &[7; 1_300]).map(drop))?;
        }
        Ok(job.finish()?)
    })
}

fn drain(mut receiver: Receiver) -> Result<()> {
    while !matches!(
        receiver.recv(Some(TIMEOUT))?.context("nothing came")?,
        Event::Finished { summary, .. } if summary.complete
    ) {}
    Ok(())
}

fn advice__to_jobs_of_many_lanes() -> Result<()> {
    run_both(200, 8)?;
    // Lanes beyond the most that one sender gets advice for count as unadvised. Their least
    // rates overload the port.
    run(200, 100, "on").map(drop)
}

/// While all 13 lanes want more, each gets a thirteenth of the line. That is below an eighth, so
/// their gaps are uneven.
fn advice__to_many_lanes_under_fq() -> Result<()> {
    run_both(20, 12)
}

/// Runs the jobs without and with advice.
fn run_both(mbit_per_s: u32, lanes: u8) -> Result<()> {
    let without = run(mbit_per_s, lanes, "off")?;
    let with = run(mbit_per_s, lanes, "on")?;
    for (name, outcome) in [("without", &without), ("with", &with)] {
        let Outcome { dropped, elapsed_s: [many_s, one_s], advised } = outcome;
        println!(
            "{lanes} lanes beside one, {name}: dropped {dropped:.3}, {many_s:.3} s and \
             {one_s:.3} s, {advised} advised"
        );
    }
    let is_expected = (1..=usize::from(lanes).min(ADVISED_MAX)).contains(&with.advised);
    ensure!(without.advised == 0 && is_expected, "{} and {}", without.advised, with.advised);
    Ok(())
}
