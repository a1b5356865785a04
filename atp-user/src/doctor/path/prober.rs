//! Sends trains of probes, and asks the answerer how they arrived.

use super::wire::{self, Arrival, Head, Message, Report};
use anyhow::{Context, Result, bail};
use approxlib::ScopedIp;
use nix::sys::socket::{
    setsockopt,
    sockopt::{Ipv4Tos, Ipv6TClass, Priority},
};
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// Questions before the answerer counts as silent, and the wait for each answer.
const ATTEMPTS: u32 = 5;
const ANSWER_WAIT: Duration = Duration::from_millis(300);
/// A train has arrived when no packet came for this long. The prober looks so often at most.
const SETTLE: Duration = Duration::from_millis(150);
const SETTLE_ROUNDS: u32 = 20;
/// A sender that is this late doesn't catch up: a burst would measure its own host.
const LATE_MAX: Duration = Duration::from_millis(5);

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When, after the train's beginning.
    pub at: Duration,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// When, nanoseconds of the sender's clock.
    pub at_ns: u64,
}

/// A train as both ends saw it.
#[derive(Clone, Debug, Default)]
pub struct Train {
    /// The packets, by number.
    pub sent: Vec<Sent>,
    /// How they arrived, by number; the first arrival of duplicates.
    pub arrived: BTreeMap<u32, Arrival>,
    /// Packets that the answerer's socket dropped, all trains together.
    pub dropped: u32,
}

/// A session with an answerer.
pub struct Prober {
    socket: UdpSocket,
    peer: SocketAddr,
    token: u64,
    session: u32,
}

impl Prober {
    /// Begins a session. Fails if nothing answers.
    pub fn connect(peer: SocketAddr, token: u64) -> Result<Self> {
        let peer = ScopedIp::from(peer).at(peer.port());
        let any = if peer.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(any).context("can't open a UDP socket")?;
        socket.connect(peer).with_context(|| format!("no route to {peer}"))?;
        socket.set_read_timeout(Some(ANSWER_WAIT))?;
        let prober = Self { socket, peer, token, session: rand::random() };
        prober.ask(0, 0)?;
        Ok(prober)
    }

    /// Sends packets of `bytes` each, and returns how they arrived.
    pub fn train(&self, train: u8, plan: &[Planned], bytes: usize) -> Result<Train> {
        let sent = self.send(train, plan, bytes)?;
        self.settle(train)?;
        let (mut arrived, mut seen) = (BTreeMap::new(), 0);
        loop {
            let report = self.ask(train, seen)?;
            seen += report.arrivals.len() as u32;
            for arrival in &report.arrivals {
                // A number that was never sent is a lie.
                if (arrival.number as usize) < sent.len() {
                    arrived.entry(arrival.number).or_insert(*arrival);
                }
            }
            if seen >= report.total || report.arrivals.is_empty() {
                return Ok(Train { sent, arrived, dropped: report.dropped });
            }
        }
    }

    /// Waits until no more packets of a train arrive.
    fn settle(&self, train: u8) -> Result<()> {
        let mut total = 0;
        for _ in 0..SETTLE_ROUNDS {
            thread::sleep(SETTLE);
            let now = self.ask(train, 0)?.total;
            if now == total {
                break;
            }
            total = now;
        }
        Ok(())
    }

    fn send(&self, train: u8, plan: &[Planned], bytes: usize) -> Result<Vec<Sent>> {
        let mut sent = Vec::with_capacity(plan.len());
        let mut class = None;
        let mut start = Instant::now();
        for (number, planned) in plan.iter().enumerate() {
            if class != Some(planned.traffic_class) {
                self.set_class(planned.traffic_class)?;
                class = Some(planned.traffic_class);
            }
            let due = start + planned.at;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let late = Instant::now().saturating_duration_since(due);
            if late > LATE_MAX {
                start += late;
            }
            let message = wire::probe(self.head(train, number as u32), bytes);
            let at_ns = now_ns();
            // A full queue of this host is a loss like any other.
            let _ = self.socket.send(&message);
            sent.push(Sent { traffic_class: planned.traffic_class, at_ns });
        }
        self.set_class(0)?;
        Ok(sent)
    }

    /// Sets DSCP and ECN bits. Priority 0 keeps this host's qdisc from ordering by DSCP.
    fn set_class(&self, class: u8) -> Result<()> {
        let class = i32::from(class);
        let set = match self.peer.is_ipv6() {
            false => setsockopt(&self.socket, Ipv4Tos, &class),
            true => setsockopt(&self.socket, Ipv6TClass, &class),
        };
        set.and_then(|()| setsockopt(&self.socket, Priority, &0))
            .context("can't set the DSCP of probes")
    }

    fn ask(&self, train: u8, first: u32) -> Result<Report> {
        let head = self.head(train, first);
        for _ in 0..ATTEMPTS {
            // An ICMP error of an earlier packet makes a send fail once.
            let _ = self.socket.send(&wire::question(head));
            let deadline = Instant::now() + ANSWER_WAIT;
            if let Some(report) = self.answer(head, deadline)? {
                return Ok(report);
            }
        }
        bail!(
            "no answer from {}: run `atp-user doctor --answer {}` there, give its token with --token, and let UDP through",
            self.peer,
            super::from_another_host(self.peer)
        )
    }

    /// The answer to a question, if it comes before the deadline. Other datagrams are ignored.
    fn answer(&self, head: Head, deadline: Instant) -> Result<Option<Report>> {
        let mut bytes = [0; wire::MESSAGE_BYTES_MAX + 1];
        while Instant::now() < deadline {
            match self.socket.recv(&mut bytes) {
                Ok(len) => match wire::parse(&bytes[..len]) {
                    Some(Message::Report(of, report)) if of == head => return Ok(Some(report)),
                    _ => {}
                },
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    thread::sleep(deadline.saturating_duration_since(Instant::now()));
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("can't receive reports"),
            }
        }
        Ok(None)
    }

    const fn head(&self, train: u8, number: u32) -> Head {
        Head { token: self.token, session: self.session, train, number }
    }
}

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
