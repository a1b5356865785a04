//! Tests jobs beside long TCP flows, under the law `yield` and, for the tests of `polite`, others.
//!
//! Two hosts send to a third through a port of 20 Mbit/s: TCP flows from one, a job from the other.
//! The round trip consists of the queue's delay. Beside BBR, acknowledgments return 20 ms later,
//! as on a wide-area path.

use anyhow::{Context, Result, bail, ensure};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use testbed::{
    Family, Host, Load, PORT, Receiving, Sending, Star, faults::DelayLine, missing, wait_for,
};

/// An emulated machine would not fill the port.
pub fn not_emulated() -> Vec<libtest_mimic::Trial> {
    let (cubic, bbr) = (missing_for_cubic, missing_for_bbr);
    vec![
        crate::trial("yield__beside_cubic", cubic, || expect_shares("cubic", 1)),
        crate::trial("yield__beside_four_reno", missing, || expect_shares("reno", 4)),
        crate::trial("yield__beside_bbr", bbr, || expect_shares("bbr", 1)),
    ]
}

/// The port's rate.
const PORT_MBIT: u32 = 20;
/// The port's queue: 30 ms at the port's rate.
const QUEUE_PACKETS: u32 = 50;
const RETURN_DELAY: Duration = Duration::from_millis(20);
/// Twice what the port carries during the test on an idle machine: on one at a load of 16, a job of
/// half as much was over before the measurement in 3 of 17 runs.
const LOAD: Load = Load::lines(80_000, 1_100);
/// The time in which all find their rates.
const WARM_UP: Duration = Duration::from_secs(4);
/// The time of the measurement.
const MEASURED: Duration = Duration::from_secs(8);
/// The longest time between two counters: a four-hundredth of the measurement.
const READING: Duration = Duration::from_millis(20);
/// The payload's part of a TCP packet with timestamps, as the port counts bytes.
const TCP_PAYLOAD: f64 = 1_448.0 / 1_514.0;

pub fn missing_for_cubic() -> Option<String> {
    missing().or_else(|| missing_tcp("cubic"))
}

pub fn missing_for_bbr() -> Option<String> {
    missing().or_else(|| missing_tcp("bbr"))
}

fn missing_tcp(name: &str) -> Option<String> {
    tcp_socket(name).err().map(|_| format!("needs tcp_{name}"))
}

/// Lanes that yield keep some of the line beside flows that never let the queue empty. The flows
/// lose no more than the job carries: together they fill the line, as the flows do alone.
fn expect_shares(tcp: &str, flows: u16) -> Result<()> {
    let job = shares_beside(tcp, flows, "yield")?;
    // The least window, one packet, is a share of 0.02 where 50 packets wait, and 0.012 beside BBR.
    // The shares of a job were 0.25 to 0.56 beside one flow (BBR: 0.05 to 0.13), and 0.07 to 0.34
    // beside four; 0.09 beside CUBIC at a load of 50. The bounds above are five standard deviations
    // (0.08) away. The sum was 0.91 at least, with a standard deviation of 0.02; a machine that
    // stands still for seconds carries less.
    let most = if flows == 1 { 0.85 } else { 0.6 };
    ensure!((0.006..=most).contains(&job.own), "the job took {:.3} of the line", job.own);
    ensure!(job.all() > 0.4, "the line was idle: {job:?}");
    Ok(())
}

/// Shares of the port's rate that it carried.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The job.
    pub own: f64,
    /// All flows together.
    pub tcp: f64,
}

impl Shares {
    pub fn all(&self) -> f64 {
        self.own + self.tcp
    }
}

/// Measures a job under this law beside this number of flows.
pub fn shares_beside(tcp: &str, flows: u16, law: &str) -> Result<Shares> {
    let star = Star::new(3)?;
    star.shape(2, &format!("{PORT_MBIT}mbit"), QUEUE_PACKETS)?;
    // BBR's window follows the least RTT, which is almost zero without a delay.
    let _late = if tcp == "bbr" { delay_acknowledgments(&star)? } else { Vec::new() };
    let [from, other, to] = &star.hosts[..] else { bail!("not three hosts") };
    // The host's own port is not the bottleneck.
    let from_daemon = from.daemon(&["--rate-max", "100mbit", "--law", law])?;
    let to_daemon = to.daemon(&[])?;
    let address = to.endpoint(Family::V4, PORT);
    let _receiving = Receiving::start_at(to, &to_daemon, address, LOAD, &[])?;
    let running = Flows::start(other, to, tcp, flows)?;
    let mut sending = Sending::start(from, &from_daemon, address, LOAD, &["--msr", "0.8"])?;
    let shares = shares(&star, &running)?;
    ensure!(sending.is_running()?, "the job ended too soon: {:?}", sending.end()?);
    running.end()?;
    let Shares { own, tcp: rest } = shares;
    println!("{law} beside {flows} of {tcp}: {own:.3} of the line, the flows {rest:.3}");
    Ok(shares)
}

/// Delays the packets to both senders, on kernels without netem too.
fn delay_acknowledgments(star: &Star) -> Result<Vec<DelayLine>> {
    let [first, second, to] = &star.hosts[..] else { bail!("not three hosts") };
    // The lines take packets as they are on a wire.
    to.offload("tx off tso off gso off")?;
    let delay = |(port, host): (&str, &Host)| {
        let line = DelayLine::start(&star.router, port, (RETURN_DELAY, RETURN_DELAY))?;
        let (entrance, to) = (line.entrance(), host.ipv4);
        let links: serde_json::Value =
            serde_json::from_str(&host.namespace.run("ip -j link show dev eth0")?)?;
        let at = links[0]["address"].as_str().context("no address")?;
        let neighbor = format!("ip neighbour add {to} lladdr {at} dev {entrance} nud permanent");
        star.router.run(&neighbor)?;
        star.router.run(&format!("ip route add {to}/32 dev {entrance}"))?;
        Ok(line)
    };
    [("port0", first), ("port1", second)].into_iter().map(delay).collect()
}

/// The shares once all have found their rates. What isn't TCP is the sender's own.
fn shares(star: &Star, flows: &Flows) -> Result<Shares> {
    let carried = || wait_for("a moment to read counters", || read_counters(star, flows));
    thread::sleep(WARM_UP);
    let (since, all_before, tcp_before) = carried()?;
    thread::sleep(MEASURED);
    let (now, all, tcp) = carried()?;
    let line_bytes = f64::from(PORT_MBIT) * 1e6 / 8.0 * (now - since).as_secs_f64();
    let (all, tcp) = ((all - all_before) / line_bytes, (tcp - tcp_before) / line_bytes);
    Ok(Shares { own: all - tcp, tcp })
}

/// The time, and all bytes and TCP's until then; `None` if the machine held this thread up.
fn read_counters(star: &Star, flows: &Flows) -> Result<Option<(Instant, f64, f64)>> {
    let (at, tcp_bytes) = (Instant::now(), flows.line_bytes());
    let table = star.router.read("/proc/net/dev")?;
    let words = table.lines().find_map(|line| line.trim().strip_prefix("port2:"));
    // Eight columns about reception come first.
    let sent = words.and_then(|words| words.split_whitespace().nth(8));
    let all_bytes = sent.context("no byte counter")?.parse()?;
    Ok((at.elapsed() < READING).then_some((at, all_bytes, tcp_bytes)))
}

/// TCP connections that send until this value is dropped.
struct Flows {
    over: Arc<AtomicBool>,
    received_bytes: Arc<AtomicU64>,
    writers: Vec<JoinHandle<Result<()>>>,
}

impl Flows {
    /// Waits until they have sent something.
    fn start(from: &Host, to: &Host, congestion_control: &str, count: u16) -> Result<Self> {
        from.offload("tso off gso off")?;
        let (over, received_bytes) = (Arc::default(), Arc::default());
        let mut flows = Self { over, received_bytes, writers: Vec::new() };
        let any_port = to.endpoint(Family::V4, 0);
        let listener = to.namespace.enter(|| Ok(TcpListener::bind(any_port)?))?;
        let address = listener.local_addr()?.into();
        for _ in 0..count {
            let sending = from.namespace.enter(|| {
                let socket = tcp_socket(congestion_control)?;
                socket.connect(&address)?;
                Ok(TcpStream::from(socket))
            })?;
            let (receiving, _) = listener.accept()?;
            let received_bytes = Arc::clone(&flows.received_bytes);
            // It ends with its connection.
            thread::spawn(move || read(receiving, &received_bytes));
            let over = Arc::clone(&flows.over);
            flows.writers.push(thread::spawn(move || write(sending, &over)));
        }
        wait_for("the flows", || Ok((flows.line_bytes() > 1e5).then_some(())))?;
        Ok(flows)
    }

    /// Bytes that arrived, headers included.
    fn line_bytes(&self) -> f64 {
        self.received_bytes.load(Ordering::Relaxed) as f64 / TCP_PAYLOAD
    }

    fn end(mut self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        self.writers.drain(..).try_for_each(|writer| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn read(mut from: TcpStream, received_bytes: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn write(mut to: TcpStream, over: &AtomicBool) -> Result<()> {
    to.set_write_timeout(Some(Duration::from_secs(30)))?;
    // Closing discards the buffered data.
    SockRef::from(&to).set_linger(Some(Duration::ZERO))?;
    let piece = vec![0; 16 << 10];
    while !over.load(Ordering::Relaxed) {
        to.write_all(&piece).context("writing to TCP")?;
    }
    Ok(())
}

fn tcp_socket(congestion_control: &str) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion_control.as_bytes())?;
    Ok(socket)
}
