//! Datagrams to a mapped port: a job for each destination, if ATP answers there.

use crate::{
    address, datagram,
    map::Rule,
    shared::{Shared, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Error, Job};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The job with which a sender asks whether ATP answers. Receivers hand its message to nobody.
pub const PROBE_JOB: &str = "atp-run probe";
/// Messages that wait for the job's thread.
const QUEUE_MAX: usize = 8_192;
/// Pauses between probes of a destination that doesn't answer.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The pause after a library has refused messages: what it found seldom changes.
const REFUSED_PAUSE: Duration = Duration::from_secs(3_600);
/// How long a receiver may be silent before datagrams are sent plainly again.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);

/// The way that a datagram takes.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It is a message now.
    Taken,
    /// The kernel sends it.
    Plain,
    /// There is no room, and the caller doesn't wait.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Probing,
    Atp,
    Plain,
    Ended,
}

/// A destination of datagrams.
pub struct Destination {
    queue: SyncSender<Vec<u8>>,
    phase: Mutex<Phase>,
    changed: Condvar,
    is_ending: AtomicBool,
    /// How long the first datagram waits.
    probe: Duration,
    /// The address from which messages come.
    source: Option<IpAddr>,
}

impl Destination {
    pub fn start(shared: &'static Shared, to: SocketAddr, rule: Rule) -> Arc<Self> {
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let destination = Arc::new(Self {
            queue,
            phase: Mutex::new(Phase::Probing),
            changed: Condvar::new(),
            is_ending: AtomicBool::new(false),
            probe: rule.probe,
            source: address::source_to(to),
        });
        let worker = Worker { shared, destination: destination.clone(), rule, to, messages };
        let thread = thread::Builder::new().name("atp-run-sender".to_owned());
        if thread.spawn(move || worker.run()).is_err() {
            destination.set(Phase::Ended);
        }
        destination
    }

    /// Whether the receiver would see the address of the program's socket as that of the messages.
    pub fn is_from(&self, own: Option<IpAddr>) -> bool {
        let own = own.map(|own| own.to_canonical());
        own.is_none_or(|own| own.is_unspecified() || Some(own) == self.source)
    }

    /// Takes a message, if ATP answers at the destination.
    pub fn offer(&self, message: Vec<u8>, waits: bool) -> Verdict {
        if self.phase_after_probe(if waits { self.probe } else { Duration::ZERO }) != Phase::Atp {
            return Verdict::Plain;
        }
        match self.queue.try_send(message) {
            Ok(()) => Verdict::Taken,
            Err(TrySendError::Full(message)) if waits => match self.queue.send(message) {
                Ok(()) => Verdict::Taken,
                Err(_) => Verdict::Plain,
            },
            Err(TrySendError::Full(_)) => Verdict::Again,
            Err(TrySendError::Disconnected(_)) => Verdict::Plain,
        }
    }

    /// Waits for the first probe's outcome, for up to `timeout`.
    fn phase_after_probe(&self, timeout: Duration) -> Phase {
        let is_probing = |phase: &mut Phase| *phase == Phase::Probing;
        let waited = self.changed.wait_timeout_while(lock(&self.phase), timeout, is_probing);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn set(&self, phase: Phase) {
        *lock(&self.phase) = phase;
        self.changed.notify_all();
    }

    /// Asks the thread to end after the queued messages.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // An empty message wakes the thread; with a full queue it is awake.
        let _ = self.queue.try_send(Vec::new());
        self.changed.notify_all();
    }

    pub fn wait_for_end(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let is_running = |phase: &mut Phase| *phase != Phase::Ended;
        drop(self.changed.wait_timeout_while(lock(&self.phase), left, is_running));
    }
}

/// Whether ATP answers at `peer` within `timeout`.
pub fn answers(peer: SocketAddr, timeout: Duration) -> bool {
    let asked =
        Job::builder().id(PROBE_JOB).peer_timeout(timeout).connect(peer).and_then(|mut job| {
            job.send(b"")?;
            job.finish()
        });
    asked.is_ok()
}

/// The thread of a destination.
struct Worker {
    shared: &'static Shared,
    destination: Arc<Destination>,
    rule: Rule,
    to: SocketAddr,
    messages: Receiver<Vec<u8>>,
}

impl Worker {
    fn run(self) {
        pass_calls_of_this_thread();
        let mut pause = PAUSE_MIN;
        while !self.is_ending() {
            if answers(self.peer(), self.rule.probe) {
                pause = PAUSE_MIN;
                self.destination.set(Phase::Atp);
                if let Err(error) = self.send_windows() {
                    let to = self.to;
                    match error {
                        Error::Ended | Error::EndedByReceiver => {
                            pause = REFUSED_PAUSE;
                            warn(format_args!(
                                "datagrams to {to} are sent plainly: a router on the path translates \
                                 addresses, or the receiver runs another version of atp-run"
                            ));
                        }
                        error => {
                            if let Error::Short(shortfall) = &error {
                                self.shared.counts.add(&shortfall.report.groups);
                            }
                            warn(format_args!("datagrams to {to} are sent plainly: {error}"));
                        }
                    }
                }
            }
            self.destination.set(Phase::Plain);
            self.send_queued_plainly();
            if !self.is_ending() {
                self.sleep(pause);
                pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            }
        }
        self.destination.set(Phase::Ended);
    }

    fn is_ending(&self) -> bool {
        self.destination.is_ending.load(Ordering::Relaxed)
    }

    fn sleep(&self, pause: Duration) {
        let waits = |_: &mut Phase| !self.is_ending();
        let phase = lock(&self.destination.phase);
        drop(self.destination.changed.wait_timeout_while(phase, pause, waits));
    }

    /// Where the destination's messages go.
    fn peer(&self) -> SocketAddr {
        let mut peer = self.to;
        peer.set_port(self.rule.atp_port);
        peer
    }

    /// Sends what the program had queued for a job that has failed. Later datagrams would
    /// otherwise overtake it by minutes.
    fn send_queued_plainly(&self) {
        self.send_plainly(self.messages.try_iter());
    }

    fn send_plainly(&self, messages: impl Iterator<Item = Vec<u8>>) {
        let any: IpAddr = match self.to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut socket = None;
        for message in messages {
            // The empty message that wakes this thread is none.
            let Some(datagram) = datagram::bytes(&message) else { continue };
            if socket.is_none() {
                socket = UdpSocket::bind((any, 0)).ok();
            }
            // A plain datagram may be lost.
            drop(socket.as_ref().map(|socket| socket.send_to(datagram, self.to)));
        }
    }

    fn send_windows(&self) -> Result<(), Error> {
        let builder = Job::builder().msr(self.rule.msr).peer_timeout(PEER_TIMEOUT);
        let mut job = builder.connect(self.peer())?;
        // The current address: a host may get another one.
        let source = address::source_to(self.to);
        loop {
            let sent = self.send_window(&mut job, source)?;
            if self.is_ending() {
                let report = job.finish()?;
                self.shared.counts.add(&report.groups);
                return Ok(());
            }
            if sent > 0 {
                let report = job.end_window()?;
                self.shared.counts.add(&report.groups);
                if job.try_outcome()?.is_some() {
                    return Err(Error::EndedByReceiver);
                }
            }
        }
    }

    /// Sends the datagrams of one window, which begins with its first datagram.
    fn send_window(&self, job: &mut Job, source: Option<IpAddr>) -> Result<u64, Error> {
        let (mut sent, mut deadline) = (0, None);
        loop {
            let left = match deadline {
                None if self.is_ending() => Duration::ZERO,
                None => Duration::from_secs(3_600),
                Some(deadline) if !self.is_ending() => {
                    Instant::saturating_duration_since(&deadline, Instant::now())
                }
                Some(_) => Duration::ZERO,
            };
            match self.messages.recv_timeout(left) {
                Ok(message) if message.is_empty() => {}
                Ok(mut message) => {
                    if let Some(source) = source {
                        datagram::set_source(&mut message, source);
                    }
                    if let Err(error) = job.send(&message) {
                        self.send_plainly([message].into_iter());
                        return Err(error);
                    }
                    sent += 1;
                    deadline.get_or_insert_with(|| Instant::now() + self.rule.window);
                }
                Err(RecvTimeoutError::Timeout) if sent > 0 || self.is_ending() => return Ok(sent),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(sent),
            }
            // A busy program would hold a window open.
            if deadline.is_some_and(|at| Instant::now() >= at) && !self.is_ending() {
                return Ok(sent);
            }
        }
    }
}
