//! Tests the advice of a receiving host to the lanes that arrive: of its daemon, and of the library
//! without a daemon.

use anyhow::{Context, Result, ensure};
use approxlib::{
    Job,
    control::{Client, LaneStats, Snapshot},
};
use socket2::SockRef;
use std::{
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use testbed::{
    Daemon, Family, Host, Load, PORT, Pair, Process, Profile, Receiving, Sending, Signal, Star,
    Transfer, check_promise,
    faults::{Injection, Trouble, wired_star},
    wait_for,
};

crate::trials! {
    advice__of_a_lying_receiver,
}

crate::trials! {
    fn independent_of_pacing:
    advice__passes_from_the_library_to_the_daemon_and_back,
}

// Tests whose senders must fill a port. An emulated machine is too slow for that. What the port
// drops with advice, and how long jobs take, is left to the simulator (`atp-sim/tests/advice.rs`),
// and to `cargo xtask bench reality`: here it depends on what else the machine does.
crate::trials! {
    fn not_emulated:
    advice__to_four_senders,
    advice__to_lanes_of_different_msr,
    advice__of_a_wrong_line_rate,
    advice__of_a_late_receiver,
    advice__beside_foreign_packets,
    advice__holds_lanes_up_under_random_loss,
    loss__of_acks_is_no_loss_of_packets,
}

const SENDERS: u8 = 4;
const MSR: f64 = 0.8;
/// The load of each sender: 0.8 s at a quarter of 200 Mbit/s.
const LOAD: Load = Load::lines(3_600, 1_400);

/// The outcome of all jobs of a run.
#[derive(Debug)]
struct Outcome {
    dropped: f64,
    slowest_s: f64,
    /// All looks at the lanes of the senders.
    lanes: Vec<LaneStats>,
}

/// Four senders to one host, through a port of 200 Mbit/s with a queue of some packets.
fn run(rate_max: &str, options: &[&str]) -> Result<Outcome> {
    run_with(rate_max, options, [MSR; SENDERS as usize], Duration::ZERO)
}

/// As [`run`], with the senders' MSRs. The receiving processes stop for `late` between two looks.
fn run_with(
    rate_max: &str,
    options: &[&str],
    msrs: [f64; SENDERS as usize],
    late: Duration,
) -> Result<Outcome> {
    let star = Star::new(SENDERS + 1)?;
    star.shape(SENDERS, "200mbit", 8)?;
    let (to, from) = star.hosts.split_last().context("no host")?;
    let to_daemon = to.daemon(options)?;
    let follows: &[&str] = match options.contains(&"on") {
        true => &["--rate-max", rate_max, "--advice", "on"],
        false => &["--rate-max", rate_max, "--advice", "off"],
    };
    let daemons: Vec<Daemon> =
        from.iter().map(|host| host.daemon(follows)).collect::<Result<_>>()?;
    let start = |(at, (host, daemon)): (u16, (&Host, &Daemon))| {
        let address = SocketAddr::new(to.endpoint(Family::V4, PORT).ip(), PORT + at);
        let receiving = Receiving::start_at(to, &to_daemon, address, LOAD, &[])?;
        let msr = msrs[usize::from(at)].to_string();
        Ok((Sending::start(host, daemon, address, LOAD, &["--msr", &msr])?, receiving))
    };
    let begun = Instant::now();
    let mut jobs = (0..).zip(from.iter().zip(&daemons)).map(start).collect::<Result<Vec<_>>>()?;
    let clients = daemons.iter().map(|daemon| Client::connect(daemon.socket())?.snapshot());
    let mut snapshots = clients.collect::<Result<Vec<_>, _>>()?;
    let mut lanes = Vec::new();
    let is_running = |(sending, _): &mut (Sending, Receiving)| sending.is_running();
    while jobs.iter_mut().map(is_running).collect::<Result<Vec<_>>>()?.contains(&true) {
        ensure!(begun.elapsed() < Duration::from_secs(60), "the jobs take too long");
        lanes.extend(snapshots.iter_mut().flat_map(|snapshot| snapshot.read().lanes));
        if !late.is_zero() {
            jobs.iter().try_for_each(|(_, receiving)| receiving.signal(Signal::SIGSTOP))?;
            thread::sleep(late);
            jobs.iter().try_for_each(|(_, receiving)| receiving.signal(Signal::SIGCONT))?;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let (mut sent, mut arrived, mut slowest_s) = (0, 0, 0f64);
    for ((sending, receiving), msr) in jobs.into_iter().zip(msrs) {
        let report = sending.finish()?;
        check_promise(&report, &receiving.finish()?, LOAD, msr)?;
        ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
        sent += report.packets_sent;
        arrived += report.packets_arrived;
        slowest_s = slowest_s.max(report.elapsed_s);
    }
    Ok(Outcome { dropped: 1.0 - arrived as f64 / sent as f64, slowest_s, lanes })
}

/// The advice that lanes followed, in Mbit/s.
fn advice_mbit_per_s(outcome: &Outcome) -> Vec<u64> {
    let advice = outcome.lanes.iter().filter_map(|lane| lane.advice_bytes_per_s);
    advice.map(|bytes_per_s| bytes_per_s / 125_000).collect()
}

/// Lanes get advice, and none gets more than the line has.
fn ensure_advised(name: &str, line_mbit: u64, outcome: &Outcome) -> Result<()> {
    let Outcome { dropped, slowest_s, .. } = outcome;
    println!("{name}: dropped {dropped:.3}, slowest {slowest_s:.3} s");
    let advised = advice_mbit_per_s(outcome);
    ensure!(!advised.is_empty(), "{name}: no lane was advised");
    ensure!(advised.iter().all(|mbit| *mbit <= line_mbit), "{name}: {advised:?}");
    Ok(())
}

fn advice__to_four_senders() -> Result<()> {
    let without = run("200mbit", &["--rate-max", "200mbit", "--advice", "off"])?;
    let Outcome { dropped, slowest_s, .. } = without;
    println!("without: dropped {dropped:.3}, slowest {slowest_s:.3} s");
    ensure!(advice_mbit_per_s(&without).is_empty(), "advice from a host that gives none");
    let with = run("200mbit", &["--rate-max", "200mbit", "--advice", "on"])?;
    ensure_advised("with", 200, &with)
}

/// A host advises what it takes for its line, be it too little or too much.
fn advice__of_a_wrong_line_rate() -> Result<()> {
    for line_mbit in [100, 400] {
        let line = format!("{line_mbit}mbit");
        let outcome = run("200mbit", &["--rate-max", &line, "--advice", "on"])?;
        ensure_advised(&line, line_mbit, &outcome)?;
    }
    Ok(())
}

/// A host whose line seems to have 400 Gbit/s advises far more than Rmax.
fn advice__of_a_lying_receiver() -> Result<()> {
    let lies = run("40mbit", &["--rate-max", "400gbit", "--advice", "on"])?;
    let advised = advice_mbit_per_s(&lies);
    ensure!(advised.iter().any(|mbit| *mbit > 10_000), "no lie was received: {advised:?}");
    let fastest = lies.lanes.iter().map(|lane| lane.rate_bytes_per_s).max();
    ensure!(fastest.is_some_and(|rate| rate <= 5_000_000), "faster than Rmax: {fastest:?}");
    Ok(())
}

/// Each of the lanes reaches its own MSR.
fn advice__to_lanes_of_different_msr() -> Result<()> {
    const MSRS: [f64; 4] = [0.5, 0.7, 0.9, 0.95];
    let options = ["--rate-max", "200mbit", "--advice", "on"];
    ensure_advised("with", 200, &run_with("200mbit", &options, MSRS, Duration::ZERO)?)
}

/// A receiving process that gets no processor sends no receipts. Beyond 10 ms its advice expires,
/// and the law alone decides. Jobs complete.
fn advice__of_a_late_receiver() -> Result<()> {
    let options = ["--rate-max", "200mbit", "--advice", "on"];
    for late_ms in [1, 10, 100] {
        let late = Duration::from_millis(late_ms);
        let Outcome { dropped, slowest_s, .. } = run_with("200mbit", &options, [MSR; 4], late)?;
        println!("late by {late_ms} ms: dropped {dropped:.3}, slowest {slowest_s:.3} s");
    }
    Ok(())
}

/// UDP packets with an approximate DSCP arrive at the rate of the port, 100 Mbit/s. A job beside
/// them is advised half of the line. Were they subtracted as exact traffic is, little would remain.
fn advice__beside_foreign_packets() -> Result<()> {
    let star = Star::new(3)?;
    star.shape(2, "100mbit", 8)?;
    let [from, foreign, to] = &star.hosts[..] else { anyhow::bail!("not three hosts") };
    let options = ["--rate-max", "100mbit", "--profile", "default"];
    let (from_daemon, to_daemon) = (&from.daemon(&options)?, &to.daemon(&options)?);
    let (family, load) = (Family::V4, Load { messages: 2_000, ..LOAD });
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load, msr: 0.5 };
    let over = AtomicBool::new(false);
    let lanes = thread::scope(|scope| {
        let flood = scope.spawn(|| flood(foreign, to, &over));
        let lanes = lanes_of(&transfer);
        over.store(true, Ordering::Relaxed);
        let packets = flood.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        println!("{packets} foreign packets");
        lanes
    })?;
    let advised = lanes.iter().filter_map(|lane| lane.advice_bytes_per_s);
    let mut mbit: Vec<u64> = advised.map(|bytes_per_s| bytes_per_s / 125_000).collect();
    mbit.sort_unstable();
    println!("advice at {} looks: {mbit:?} Mbit/s", mbit.len());
    ensure!(mbit.get(mbit.len() / 2).is_some_and(|median| *median >= 40), "{mbit:?}");
    ensure!(mbit[0] < 80, "the foreign packets weren't seen: {mbit:?}");
    Ok(())
}

/// Sends packets to a port where nothing listens, 100 Mbit/s, until `over` is set. Returns their
/// number.
fn flood(from: &Host, to: &Host, over: &AtomicBool) -> Result<u64> {
    const PACKETS_PER_MS: u32 = 9;
    from.namespace.enter(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        SockRef::from(&socket).set_tos_v4(u32::from(Profile::default().dscp_of_queue(1)) << 2)?;
        let address = SocketAddr::new(to.endpoint(Family::V4, PORT).ip(), PORT + 1);
        let (begun, mut packets) = (Instant::now(), 0);
        while !over.load(Ordering::Relaxed) {
            let due = begun.elapsed().as_millis() as u64 * u64::from(PACKETS_PER_MS);
            // The port is closed, and the socket may report that.
            (packets..due).for_each(|_| drop(socket.send_to(&[0; 1_400], address)));
            packets = packets.max(due);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(packets)
    })
}

/// All looks at the sender's lanes during a transfer.
fn lanes_of(transfer: &Transfer<'_>) -> Result<Vec<LaneStats>> {
    let (mut sending, receiving) = transfer.start()?;
    let mut snapshot = Client::connect(transfer.from_daemon.socket())?.snapshot()?;
    let mut lanes = Vec::new();
    while sending.is_running()? {
        lanes.extend(snapshot.read().lanes);
        thread::sleep(Duration::from_millis(10));
    }
    transfer.finish(sending, receiving)?;
    Ok(lanes)
}

/// The lane of a job at 200 Mbit/s through a network that loses packets, every 10 ms. `back`: the
/// loss of ACKs and receipts.
fn lane_under_loss(msr: f64, back: f64, options: &[&str]) -> Result<Vec<LaneStats>> {
    let star = wired_star(2)?;
    let _injection =
        Injection::start(&star.router, &Trouble::loss(back), &Trouble::loss(RANDOM_LOSS))?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let options = [&["--rate-max", "200mbit"], options].concat();
    let (from_daemon, to_daemon) = (from.daemon(&options)?, to.daemon(&options)?);
    let transfer = Transfer {
        from,
        from_daemon: &from_daemon,
        to,
        to_daemon: &to_daemon,
        family: Family::V4,
        load: LOAD,
        msr,
    };
    lanes_of(&transfer)
}

/// The share of packets lost in [`lane_under_loss`].
const RANDOM_LOSS: f64 = 0.25;

/// Without advice these lanes are at their least rate, 6 Mbit/s, most of the time. The floor of an
/// advised one is an eighth, however late a busy machine measures the loss. Advice expires while
/// such a machine runs no receiver, so only the looks at advised lanes count, and a look may be at
/// a rate whose advice has just changed.
fn advice__holds_lanes_up_under_random_loss() -> Result<()> {
    for msr in [0.9, 1.0] {
        let lanes = lane_under_loss(msr, 0.0, &["--advice", "on"])?;
        let advised = |lane: &LaneStats| Some((lane.advice_bytes_per_s?, lane.rate_bytes_per_s));
        let looks: Vec<_> = lanes.iter().filter_map(advised).collect();
        let held_up = looks.iter().filter(|(advice, rate)| *rate >= advice / 9).count();
        let words = format!("MSR {msr}: held up at {held_up} of {} looks: {looks:?}", looks.len());
        println!("{words}");
        ensure!(held_up > looks.len() / 2, "{words}");
    }
    Ok(())
}

/// With lost ACKs among the losses, their mean would be 0.44. A single transfer's mean is 0.302,
/// with a standard deviation of 0.03 beside two busy loops, so the test takes six: the bound of
/// 0.37 is 5.5 standard deviations of their mean away, which a normal distribution exceeds in one
/// of fifty million runs.
fn loss__of_acks_is_no_loss_of_packets() -> Result<()> {
    let mut losses = Vec::new();
    for _ in 0..6 {
        let lanes = lane_under_loss(0.7, RANDOM_LOSS, &["--advice", "off"])?;
        losses.extend(lanes.iter().filter(|lane| lane.epochs_evaluated > 20).map(|lane| lane.loss));
    }
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    println!("mean loss {mean:.3} at {} looks", losses.len());
    ensure!((0.1..0.37).contains(&mean), "{mean} at {} looks", losses.len());
    Ok(())
}

/// The library advises the lane as long as no daemon serves the receiver, and only then: the daemon
/// gives no advice here. That the lane is advised also shows that the library reads the counters
/// of its own network namespace.
fn advice__passes_from_the_library_to_the_daemon_and_back() -> Result<()> {
    let pair = Pair::new()?;
    let from_daemon = pair.a.daemon(&["--rate-max", "40mbit"])?;
    let address = pair.b.endpoint(Family::V4, PORT);
    let mut command = pair.b.atp()?;
    command.env("ATP_SOCKET", pair.b.folder().join("atp.sock"));
    command.args(["recv", &address.to_string(), "--out", "/dev/null", "--line-rate", "40mbit"]);
    let mut receiver = Process::captured("the receiver", command)?;
    receiver.wait_until_it_says("receiving without a daemon")?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| send_until(&over, &pair.a, &from_daemon, address));
        let outcome = watch(&from_daemon, &pair.b, &mut receiver);
        over.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.and(sent)
    })
}

fn watch(from_daemon: &Daemon, to: &Host, receiver: &mut Process) -> Result<()> {
    let mut snapshot = Client::connect(from_daemon.socket())?.snapshot()?;
    wait_for("the library's advice", || Ok(is_advised(&mut snapshot).filter(|is| *is)))?;
    let to_daemon = to.daemon(&["--advice", "off"])?;
    receiver.wait_until_it_says("registered with the ATP daemon")?;
    // So many packets later, the sender thread has read the library's last receipt with advice.
    let acked = |packets: u64| {
        let before = to_daemon.counter("ack_sent")?;
        wait_for("the daemon's ACKs", || {
            Ok((to_daemon.counter("ack_sent")? > before + packets).then_some(()))
        })
    };
    acked(2_000)?;
    wait_for("the end of advice", || Ok(is_advised(&mut snapshot).filter(|is| !is)))?;
    for _ in 0..20 {
        acked(100)?;
        ensure!(is_advised(&mut snapshot) != Some(true), "the library advises beside the daemon");
    }
    to_daemon.stop()?;
    wait_for("the library's advice again", || Ok(is_advised(&mut snapshot).filter(|is| *is)))?;
    Ok(())
}

/// Whether the host's lane has advice; `None` if there is no lane.
fn is_advised(snapshot: &mut Snapshot) -> Option<bool> {
    snapshot.read().lanes.first().map(|lane| lane.advice_bytes_per_s.is_some())
}

fn send_until(over: &AtomicBool, from: &Host, daemon: &Daemon, to: SocketAddr) -> Result<()> {
    from.namespace.enter(|| {
        let socket = Some(daemon.socket().to_owned());
        let mut job = Job::builder().msr(0.5).control_socket(socket).connect(to)?;
        while !over.load(Ordering::Relaxed) {
            job.send(&[7; 1_100])?;
        }
        Ok(())
    })
}
