//! Tests the daemon's thread for the network: it keeps programs and qdiscs in place, and the
//! control loop never waits for the kernel's lock.

use anyhow::{Context, Result, ensure};
use approxlib::control::Client;
use atp_datapath::{EGRESS, INGRESS};
use atp_tests::{
    chain::{FOREIGN, ForeignProgram, order},
    kernel_lock,
};
use aya::programs::TcAttachType;
use std::{
    net::UdpSocket,
    os::fd::AsFd,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use testbed::{
    DEVICE, Daemon, Family, Host, Load, PORT, Pair, Receiving, Sending, Signal, Snapshot, Star,
    Transfer, check_promise, missing, one_group, wait_for,
};

crate::trials! {
    network__qdisc_removed,
    network__qdisc_replaced,
    network__interface_returns,
}

crate::trials! {
    fn with_fq, if missing_for_fq:
    network__fq_is_used,
    network__mq_with_fq,
    network__mq_of_its_own,
}

crate::trials! {
    fn independent_of_pacing:
    network__program_put_ahead,
    network__xdp_on_request,
    network__speed_and_mtu,
}

/// A held lock stops every network of this machine.
pub fn alone() -> Vec<libtest_mimic::Trial> {
    let missing_for_lock = || missing().or_else(kernel_lock::missing);
    let trial = |name, test| crate::trial_alone(name, missing_for_lock, test);
    vec![
        trial("network__held_lock", network__held_lock),
        trial("network__held_lock_at_the_end", network__held_lock_at_the_end),
    ]
}

/// A load of 4 s at the port's 20 Mbit/s.
const LOAD: Load = Load::lines(10_000, 1_100);
const SHORT: Load = Load::lines(300, 500);
/// A rate at which every packet is acknowledged by itself.
const SLOW: [&str; 2] = ["--rate-max", "10mbit"];

/// The kernel's lock is held for longer than the programs wait for a heartbeat, while the rates of
/// a lane change. A daemon that waited for the lock would be found silent.
fn network__held_lock() -> Result<()> {
    const HELD: Duration = Duration::from_millis(900);
    // A daemon that waits for the lock gives one answer when it is free. A daemon that doesn't
    // misses five in this time if they take 180 ms on average. One takes 10 ms on average beside
    // two busy loops, pause included: the sum of five exceeds 900 ms, by an exponential
    // distribution of each, with probability e^-90 90^4 / 4! = 2e-33.
    const ANSWERS_MIN: u32 = 5;
    let star = Star::new(2)?;
    star.shape(1, "20mbit", 4)?;
    let [from, to] = &star.hosts[..] else { anyhow::bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "40mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let family = Family::V4;
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load: LOAD, msr: 0.8 };
    let (sending, receiving) = transfer.start()?;
    wait_for("the job to begin", || Ok((from_daemon.counter("ack_news")? > 50).then_some(())))?;
    let client = Client::connect(from_daemon.socket())?;
    let before = client.stats()?;
    let answers = thread::scope(|scope| -> Result<u32> {
        let holder = scope.spawn(|| star.router.enter(|| kernel_lock::hold("port0", HELD, || ())));
        let mut answers = 0;
        while !holder.is_finished() {
            client.stats()?;
            answers += u32::from(!holder.is_finished());
            thread::sleep(Duration::from_millis(10));
        }
        holder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(answers)
    })?;
    let after = client.stats()?;
    let (first, last) = (before.lanes.first(), after.lanes.first());
    let (first, last) = first.zip(last).context("the job was over too soon")?;
    ensure!(last.epochs_evaluated > first.epochs_evaluated, "no epoch was evaluated: {last:?}");
    ensure!(answers >= ANSWERS_MIN, "the daemon gave {answers} answers in {HELD:?}");
    let unattended = after.counters.get("unattended").copied();
    ensure!(unattended == Some(0), "the daemon was silent: {:?}", after.counters);
    transfer.finish(sending, receiving).map(drop)
}

/// The lock is held while a job ends, for longer than its sender waits for an answer. A receiver
/// that asked the kernel for what the lock protects would be silent.
fn network__held_lock_at_the_end() -> Result<()> {
    const HELD: Duration = Duration::from_secs(6);
    // 1.6 s at 10 Mbit/s: the receiver looks at its addresses once a second.
    const LOAD: Load = Load::lines(2_000, 1_000);
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&SLOW)?, pair.b.daemon(&[])?);
    let receiving = Receiving::start(&pair.b, &b, Family::V4, LOAD)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--msr", "0.9", "--timeout", "3s"];
    let sending = Sending::start(&pair.a, &a, to, LOAD, &options)?;
    wait_for("the job to begin", || Ok((a.counter("ack_news")? > 50).then_some(())))?;
    // The job goes on when the lock is held.
    sending.signal(Signal::SIGSTOP)?;
    let (held, is_held) = mpsc::channel();
    let report = thread::scope(|scope| {
        let hold = move || kernel_lock::hold(DEVICE, HELD, move || held.send(()).unwrap_or(()));
        let holder = scope.spawn(|| pair.a.namespace.enter(hold));
        // An error ends the holder, and the channel with it.
        is_held.recv().unwrap_or(());
        sending.signal(Signal::SIGCONT)?;
        let report = sending.finish();
        holder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        report
    })?;
    check_promise(&report, &receiving.finish()?, LOAD, 0.9)
}

/// Another program is put first at both hooks, and ends their chains.
fn network__program_put_ahead() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&SLOW)?, pair.b.daemon(&[])?);
    let names = |at| pair.a.namespace.enter(|| order(DEVICE, at));
    let foreign = pair.a.namespace.enter(|| ForeignProgram::attach(DEVICE))?;
    for (at, own) in [(TcAttachType::Ingress, INGRESS), (TcAttachType::Egress, EGRESS)] {
        let expected = [own.to_owned(), FOREIGN.to_owned()];
        wait_for("ATP's program to be first", || Ok((names(at)? == expected).then_some(())))?;
    }
    let (report, _) = short(&pair, &a, &b).run()?;
    ensure!(report.datapath == "ebpf" && a.counter("ack_news")? > 0, "{report:?}");
    ensure!(a.log().contains("attached them first again"), "{}", a.log());
    drop(foreign);
    a.stop()
}

/// The qdisc is removed while a lane is open, and comes back with the lane's class.
fn network__qdisc_removed() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&SLOW)?, pair.b.daemon(&[])?);
    let socket = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        socket.connect(pair.b.endpoint(Family::V4, PORT))?;
        Ok(socket)
    })?;
    let client = Client::connect(a.socket())?;
    let opened = client.sender_open(None, &one_group(500_000_000, 4), socket.as_fd())?;
    let is_complete = || -> Result<bool> {
        let classes = pair.a.namespace.run(&format!("tc class show dev {DEVICE}"))?;
        let has_class = opened.0.pacing == "fq" || classes.contains("rate 10Mbit");
        Ok(has_class && qdisc(&pair.a)?.contains(" a7a7: root"))
    };
    ensure!(is_complete()?, "the lane has no class: {}", qdisc(&pair.a)?);
    pair.a.namespace.run(&format!("tc qdisc del dev {DEVICE} root"))?;
    wait_for("the qdisc to return", || Ok(is_complete()?.then_some(())))?;
    ensure!(a.log().contains("installed it again"), "{}", a.log());
    drop((opened, client));
    let (report, _) = short(&pair, &a, &b).run()?;
    ensure!(report.datapath == "ebpf", "{report:?}");
    a.stop()?;
    before.expect_same(&pair.a)
}

/// Someone replaces the qdisc. The daemon says so once, and doesn't fight.
fn network__qdisc_replaced() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    short(&pair, &a, &b).run()?;
    pair.a.namespace.run(&format!("tc qdisc replace dev {DEVICE} root handle 7: pfifo"))?;
    wait_for_status(&a, "not covered")?;
    // The thread looks once a second.
    thread::sleep(Duration::from_millis(2_500));
    ensure!(qdisc(&pair.a)?.contains("qdisc pfifo 7: root"), "the daemon fights");
    let log = a.log();
    let reports = log.lines().filter(|line| line.contains("this interface is not covered"));
    let reports: Vec<_> = reports.collect();
    ensure!(reports.len() == 1 && reports[0].contains("pfifo 7:"), "{reports:?}");
    pair.a.namespace.run(&format!("tc qdisc del dev {DEVICE} root"))?;
    wait_for_status(&a, "tc")?;
    short(&pair, &a, &b).run()?;
    ensure!(qdisc(&pair.a)?.contains(" a7a7: root"), "{}", qdisc(&pair.a)?);
    a.stop()
}

fn network__interface_returns() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&SLOW)?, pair.b.daemon(&[])?);
    short(&pair, &a, &b).run()?;
    let sent_before = b.counter("ack_sent")?;
    pair.a.namespace.run(&format!("ip link delete {DEVICE}"))?;
    wait_for_status(&a, "gone")?;
    wait_for_status(&b, "gone")?;
    pair.connect()?;
    wait_for_status(&a, "tc")?;
    wait_for_status(&b, "tc")?;
    let (report, _) = short(&pair, &a, &b).run()?;
    ensure!(report.datapath == "ebpf", "{report:?}");
    ensure!(b.counter("ack_sent")? > sent_before, "the receiver's programs are not attached");
    a.stop()?;
    b.stop()
}

fn network__xdp_on_request() -> Result<()> {
    let pair = Pair::new()?;
    for (mode, expected) in [("native", "native"), ("auto", "tc"), ("off", "tc")] {
        let (a, b) = (pair.a.daemon(&["--xdp", mode])?, pair.b.daemon(&[])?);
        let interfaces = a.stats()?.interfaces;
        ensure!(interfaces[DEVICE] == expected, "--xdp {mode}: {interfaces:?}");
        let why = a.log().lines().find(|line| line.contains("chose the hook")).map(str::to_owned);
        ensure!(why.is_some_and(|line| line.contains("driver=\"veth\"")), "{}", a.log());
        short(&pair, &a, &b).run()?;
        a.stop()?;
        b.stop()?;
    }
    Ok(())
}

/// New lanes follow the slowest interface's speed. A tap's can be set.
fn network__speed_and_mtu() -> Result<()> {
    let pair = Pair::new()?;
    pair.a.namespace.run("ip tuntap add dev tap0 mode tap")?;
    pair.a.namespace.run("ethtool -s tap0 speed 1000 duplex full")?;
    let (a, b) = (pair.a.daemon(&["--iface", "tap0"])?, pair.b.daemon(&[])?);
    ensure!(a.stats()?.interfaces["tap0"] == "native", "{:?}", a.stats()?.interfaces);
    pair.a.namespace.run("ethtool -s tap0 speed 10 duplex full")?;
    pair.a.namespace.run("ip link set tap0 mtu 1400")?;
    for line in ["the speed changed", "the MTU changed"] {
        wait_for(line, || Ok(a.log().contains(line).then_some(())))?;
    }
    // The control loop reads the speed once a second.
    wait_for("a new lane of the new speed", || {
        let socket = pair.a.namespace.enter(|| {
            let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
            socket.connect(pair.b.endpoint(Family::V4, PORT))?;
            Ok(socket)
        })?;
        let client = Client::connect(a.socket())?;
        client.sender_open(None, &one_group(500_000_000, 4), socket.as_fd())?;
        let lanes = a.stats()?.lanes;
        let lane = lanes.last().context("no lane")?;
        Ok((lane.rate_bytes_per_s <= 1_250_000).then_some(()))
    })?;
    short(&pair, &a, &b).run()?;
    a.stop()
}

/// A configured fq paces, keeps its settings, and stays.
fn network__fq_is_used() -> Result<()> {
    let pair = Pair::new()?;
    pair.a.namespace.run(&format!("tc qdisc add dev {DEVICE} root handle 1: fq flow_limit 100"))?;
    let before = Snapshot::take(&pair.a)?;
    let (a, b) = (pair.a.daemon(&SLOW)?, pair.b.daemon(&[])?);
    let (report, _) = short(&pair, &a, &b).run()?;
    ensure!(report.pacing == "fq" && report.datapath == "ebpf", "{report:?}");
    let log = a.log();
    for words in ["using the fq that is configured here", "flow_limit of 100 "] {
        ensure!(log.contains(words), "{words:?} is not in: {log}");
    }
    a.stop()?;
    before.expect_same(&pair.a)
}

const QUEUES: u16 = 4;

/// A configured mq with an fq per queue paces, and stays.
fn network__mq_with_fq() -> Result<()> {
    let pair = Pair::with_queues(QUEUES)?;
    pair.a.namespace.run(&format!("tc qdisc add dev {DEVICE} root handle 1: mq"))?;
    for queue in 1..=QUEUES {
        let place = format!("dev {DEVICE} parent 1:{queue:x}");
        pair.a.namespace.run(&format!("tc qdisc replace {place} fq flow_limit 20000"))?;
    }
    let before = Snapshot::take(&pair.a)?;
    keeps_its_rate(&pair)?;
    before.expect_same(&pair.a)?;
    // With another qdisc in one queue, some packets would not be paced.
    pair.a.namespace.run(&format!("tc qdisc replace dev {DEVICE} parent 1:2 pfifo"))?;
    ensure!(pair.a.daemon(&[]).is_err(), "the daemon accepted a queue without fq");
    Ok(())
}

/// A device with several queues gets mq with an fq per queue.
fn network__mq_of_its_own() -> Result<()> {
    let pair = Pair::with_queues(QUEUES)?;
    let before = Snapshot::take(&pair.a)?;
    keeps_its_rate(&pair)?;
    before.expect_same(&pair.a)
}

/// Runs a job whose lane has a rate, and measures that rate.
fn keeps_its_rate(pair: &Pair) -> Result<()> {
    const RATE_BYTES_PER_S: f64 = 500_000.0;
    let (a, b) = (pair.a.daemon(&["--rate-max", "4mbit"])?, pair.b.daemon(&[])?);
    let fqs = qdisc(&pair.a)?.lines().filter(|line| line.starts_with("qdisc fq ")).count();
    ensure!(fqs == usize::from(QUEUES), "{}", qdisc(&pair.a)?);
    let job = Transfer { load: Load::lines(3_000, 1_000), ..short(pair, &a, &b) };
    let (sending, receiving) = job.start()?;
    wait_for("the job to begin", || Ok((pair.a.sent_bytes()? > 100_000).then_some(())))?;
    // In this order, delays of the test make the share smaller only.
    let (since, before) = (Instant::now(), pair.a.sent_bytes()?);
    thread::sleep(Duration::from_secs(2));
    let (after, elapsed) = (pair.a.sent_bytes()?, since.elapsed());
    let (report, _) = job.finish(sending, receiving)?;
    ensure!(report.pacing == "fq" && report.datapath == "ebpf", "{report:?}");
    let used = (after - before) as f64 / elapsed.as_secs_f64() / RATE_BYTES_PER_S;
    // Queues that don't pace would send much more. A busy or emulated machine sends less.
    ensure!((0.1..=1.15).contains(&used), "{used:.3} of the rate was used");
    a.stop()
}

fn short<'a>(pair: &'a Pair, a: &'a Daemon, b: &'a Daemon) -> Transfer<'a> {
    let (from, to) = (&pair.a, &pair.b);
    let family = Family::V4;
    Transfer { from, from_daemon: a, to, to_daemon: b, family, load: SHORT, msr: 0.8 }
}

fn qdisc(host: &Host) -> Result<String> {
    host.namespace.run(&format!("tc qdisc show dev {DEVICE}"))
}

fn wait_for_status(daemon: &Daemon, status: &str) -> Result<()> {
    wait_for(&format!("{DEVICE} to be {status:?}"), || {
        let interfaces = daemon.stats()?.interfaces;
        Ok((interfaces.get(DEVICE).map(String::as_str) == Some(status)).then_some(()))
    })
}
