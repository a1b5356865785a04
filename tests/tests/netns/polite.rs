//! Tests fairness in a shared queue: lanes with the law `polite` (TFRC) take no more than a TCP
//! flow, and exact lanes react to a switch's marks.
//!
//! Two hosts send to a third through a port of 20 Mbit/s with one FIFO queue: a job from one, a TCP
//! connection from the other. If the kernel has netem, acknowledgments return 20 ms later, as on a
//! wide-area path. Without it the round trip consists of the queue's delay.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use testbed::{
    DEVICE, Family, Host, Load, Namespace, PORT, Pair, Process, Receiving, Sending, Star, Transfer,
    emulated, missing, qdisc_exists, wait_for,
};

pub fn trials() -> Vec<libtest_mimic::Trial> {
    vec![
        crate::trial("yield__without_a_profile", missing, yield__without_a_profile),
        crate::trial("polite__beside_bbr", missing_for_bbr, polite__beside_bbr),
        crate::trial("exact__gives_way_to_marks", missing_for_red, exact__gives_way_to_marks),
    ]
}

/// It needs five starts of daemons. An emulated machine would take minutes, and is too slow for the
/// comparison.
pub fn not_emulated() -> Vec<libtest_mimic::Trial> {
    vec![
        crate::trial("polite__beside_cubic", missing_for_cubic, polite__beside_cubic),
        crate::trial("yield__beside_cubic", missing_for_cubic, yield__beside_cubic),
    ]
}

const PORT_RATE: &str = "20mbit";
/// The port's queue: 30 ms at the port's rate.
const QUEUE_PACKETS: u32 = 50;
const RETURN_DELAY: &str = "20ms";
/// Twice what the port carries during the test on an idle machine: on one at a load of 16, a job of
/// half as much was over before the measurement in 3 of 17 runs.
const LOAD: Load = Load::lines(80_000, 1_100);
/// The time in which both find their rates.
const WARM_UP: Duration = Duration::from_secs(4);
/// The time of the measurement.
const MEASURED: Duration = Duration::from_secs(8);
const TCP_PORT: u16 = 5_001;
/// A rate that an emulated machine beside other work exceeds: it sent 5,000 packets at less than
/// 20 Mbit/s.
const MARKING_RATE: &str = "2mbit";
/// RED that marks every packet behind more than 20 queued ones, and drops none before 260.
const MARKING: &str = "red limit 400000 min 30000 max 30001 avpkt 1500 burst 20 probability 1 \
                       bandwidth 2mbit ecn";

fn missing_for_cubic() -> Option<String> {
    missing().or_else(|| missing_tcp("cubic"))
}

/// BBR's window follows the least RTT, which is almost zero without a delay.
fn missing_for_bbr() -> Option<String> {
    missing().or_else(|| missing_tcp("bbr")).or_else(|| match qdisc_exists("netem") {
        Ok(true) => None,
        _ => Some("needs sch_netem".to_owned()),
    })
}

fn missing_for_red() -> Option<String> {
    // RED requires all of its options, so the test for it needs them too.
    let has_red = || Namespace::new()?.run(&format!("tc qdisc add dev lo root {MARKING}"));
    missing().or_else(|| has_red().is_err().then(|| "needs sch_red".to_owned()))
}

fn missing_tcp(name: &str) -> Option<String> {
    tcp_socket(name).err().map(|_| format!("needs tcp_{name}"))
}

fn yield__without_a_profile() -> Result<()> {
    let pair = Pair::new()?;
    let (socket, state) = (pair.a.folder().join("atp.sock"), pair.a.folder().join("state"));
    let mut command = pair.a.atp()?;
    command.args(["run", "--iface", DEVICE, "--socket"]).arg(socket).arg("--state-dir").arg(state);
    command.arg("--object").arg(testbed::object()?);
    let mut daemon = Process::captured("a daemon without options", command)?;
    daemon.wait_until_it_says("ready")?;
    let log = daemon.stderr()?;
    let line = log.lines().find(|line| line.contains("assuming a network with one queue"));
    ensure!(line.is_some_and(|line| line.contains("yield")), "{log}");
    daemon.signal(Signal::SIGTERM)?;
    daemon.success().map(drop)
}

/// The paper's law relies on the switch's queues to protect other traffic. It must take a larger
/// share here, or this queue would be no test of the polite law.
fn polite__beside_cubic() -> Result<()> {
    let polite = share_beside("cubic", "polite")?;
    let paper = share_beside("cubic", "paper")?;
    expect_fair(polite)?;
    // Beside two busy loops and builds (a load of 18) 2.4 times as much, with a standard deviation
    // of 0.2: the bound is six of them away, which a normal distribution passes in one of a
    // thousand million runs.
    ensure!(paper > 1.2 * polite, "the paper's law took {paper:.2}, the polite one {polite:.2}");
    Ok(())
}

/// Lanes that yield keep some of the line beside a flow that never lets the queue empty.
fn yield__beside_cubic() -> Result<()> {
    let share = share_beside("cubic", "yield")?;
    // The paper's law takes 2.0 here. In 20 runs beside two busy loops it was never above 1.3.
    ensure!((0.02..=1.7).contains(&share), "the job used {share:.2} of its fair share");
    Ok(())
}

fn polite__beside_bbr() -> Result<()> {
    expect_fair(share_beside("bbr", "polite")?)
}

/// The share beside CUBIC is 0.71 at a load of 18, with a standard deviation of 0.05: both bounds
/// are ten of them away.
fn expect_fair(share: f64) -> Result<()> {
    let least = if emulated() { 0.0 } else { 0.2 };
    ensure!((least..=1.3).contains(&share), "the job used {share:.2} of its fair share");
    Ok(())
}

/// An exact lane finds the port's rate by a switch's marks, without losses.
fn exact__gives_way_to_marks() -> Result<()> {
    let star = Star::new(2)?;
    star.shape(1, MARKING_RATE, QUEUE_PACKETS)?;
    star.router.run(&format!("tc qdisc replace dev port1 parent 1:1 {MARKING}"))?;
    let [from, to] = &star.hosts[..] else { bail!("not two hosts") };
    let (from_daemon, to_daemon) = (from.daemon(&["--rate-max", "100mbit"])?, to.daemon(&[])?);
    let (from_daemon, to_daemon) = (&from_daemon, &to_daemon);
    let (family, load) = (Family::V4, Load { messages: 1_000, ..LOAD });
    let transfer = Transfer { from, from_daemon, to, to_daemon, family, load, msr: 1.0 };
    let (report, _) = transfer.run()?;
    let qdiscs = star.router.run("tc -s -j qdisc show dev port1")?;
    let qdiscs: serde_json::Value = serde_json::from_str(&qdiscs)?;
    let red = qdiscs.as_array().and_then(|all| all.iter().find(|qdisc| qdisc["kind"] == "red"));
    let red = red.context("no RED")?;
    println!("{} packets sent, {} marked", report.packets_sent, red["marked"]);
    // `early` counts the packets that RED dropped because it could not mark them. Overflows of the
    // queue are not counted: an emulated machine reacts slowly to marks.
    let (marked, early) = (red["marked"].as_u64(), red["early"].as_u64());
    let (marked, early) = marked.zip(early).with_context(|| format!("no counters: {red}"))?;
    ensure!(marked > 0, "nothing was marked: {red}");
    // DATA can be marked. A FIN belongs to no lane and cannot. It is repeated until one passes, at
    // growing intervals, while the queue empties in 1.6 s.
    ensure!(early <= 20, "the port dropped packets instead of marking them: {red}");
    Ok(())
}

/// The rate of a job beside one TCP connection, relative to half of their sum.
fn share_beside(tcp: &str, law: &str) -> Result<f64> {
    let star = Star::new(3)?;
    star.shape(2, PORT_RATE, QUEUE_PACKETS)?;
    if qdisc_exists("netem")? {
        for port in ["port0", "port1"] {
            let delay = format!("netem limit 10000 delay {RETURN_DELAY}");
            star.router.run(&format!("tc qdisc add dev {port} root {delay}"))?;
        }
    }
    let [approximate, exact, to] = &star.hosts[..] else { bail!("not three hosts") };
    // The host's own port is not the bottleneck.
    let from_daemon = approximate.daemon(&["--rate-max", "100mbit", "--law", law])?;
    let to_daemon = to.daemon(&[])?;
    let address = to.endpoint(Family::V4, PORT);
    let receiving = Receiving::start_at(to, &to_daemon, address, LOAD, &[])?;
    exact.offload("tso off gso off")?;
    let over = AtomicBool::new(false);
    let shares = thread::scope(|scope| {
        let flow = scope.spawn(|| tcp_flow(exact, to, tcp, &over));
        let measured = || -> Result<[f64; 2]> {
            wait_for("the TCP connection", || Ok((exact.sent_bytes()? > 100_000).then_some(())))?;
            let options = ["--msr", "0.8"];
            let mut sending = Sending::start(approximate, &from_daemon, address, LOAD, &options)?;
            thread::sleep(WARM_UP);
            let (before, since) = (sent_bytes([approximate, exact])?, Instant::now());
            thread::sleep(MEASURED);
            let (after, elapsed) = (sent_bytes([approximate, exact])?, since.elapsed());
            ensure!(sending.is_running()?, "the job ended too soon: {:?}", sending.end()?);
            let rate = |index: usize| (after[index] - before[index]) as f64 / elapsed.as_secs_f64();
            Ok([rate(0), rate(1)])
        };
        let rates = measured();
        over.store(true, Ordering::Relaxed);
        let flow = flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        rates.and_then(|rates| flow.map(|()| rates))
    });
    drop(receiving);
    let [own, other] = shares?;
    let both = own + other;
    ensure!(emulated() || both > 1_000_000.0, "the port was half idle: {both} bytes/s");
    let share = own / (both / 2.0);
    println!("{law} beside {tcp}: {share:.2} of a fair share of {:.1} Mbit/s", both * 8e-6);
    Ok(share)
}

fn sent_bytes(hosts: [&Host; 2]) -> Result<[u64; 2]> {
    Ok([hosts[0].sent_bytes()?, hosts[1].sent_bytes()?])
}

/// Sends over one TCP connection until `over` is set.
fn tcp_flow(from: &Host, to: &Host, congestion_control: &str, over: &AtomicBool) -> Result<()> {
    let address = to.endpoint(Family::V4, TCP_PORT);
    let listener = to.namespace.enter(|| Ok(TcpListener::bind(address)?))?;
    let mut sending = from.namespace.enter(|| connect(address, congestion_control))?;
    let (mut receiving, _) = listener.accept()?;
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while receiving.read(&mut buffer)? > 0 {}
            anyhow::Ok(())
        });
        let piece = vec![0; 16 << 10];
        let mut outcome = Ok(());
        while !over.load(Ordering::Relaxed) && outcome.is_ok() {
            outcome = sending.write_all(&piece).context("writing to TCP");
        }
        // Discards the buffered data.
        SockRef::from(&sending).set_linger(Some(Duration::ZERO))?;
        drop(sending);
        // The reader's error is expected: the connection was aborted.
        let _ = reader.join();
        outcome
    })
}

fn connect(address: SocketAddr, congestion_control: &str) -> Result<TcpStream> {
    let socket = tcp_socket(congestion_control)?;
    socket.connect(&address.into())?;
    let stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

fn tcp_socket(congestion_control: &str) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion_control.as_bytes())?;
    Ok(socket)
}
