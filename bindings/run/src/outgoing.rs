//! Datagrams to a mapped port: a job for each destination, if ATP answers there.

use crate::{
    address, datagram,
    map::Rule,
    shared::{Shared, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Error, Job};
use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{Arc, Condvar, Mutex, PoisonError},
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
/// The pauses after a library has refused messages. Another process's claim of a port may end soon;
/// a router that translates addresses stays.
const REFUSED_PAUSE_MIN: Duration = Duration::from_secs(60);
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(3_600);
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
    /// The next datagram asks whether ATP answers, and waits.
    Unknown,
    Probing,
    Atp,
    /// A datagram after `again` asks, and doesn't wait.
    Plain {
        again: Instant,
    },
}

/// A destination of datagrams. It has a thread while it probes, or while a stream is open.
pub struct Destination {
    shared: &'static Shared,
    to: SocketAddr,
    rule: Rule,
    state: Mutex<State>,
    /// The phase has changed, there is room in the queue, or the thread has ended.
    changed: Condvar,
    /// The first message is in the queue, or the stream is to end.
    asked: Condvar,
    /// The address from which messages come.
    source: Option<IpAddr>,
}

struct State {
    phase: Phase,
    is_working: bool,
    /// The thread ends after the queued messages, and takes no more.
    is_ending: bool,
    /// Messages that wait for the job's thread.
    queue: VecDeque<Vec<u8>>,
    /// The pause before the next probe, if the present one isn't answered.
    pause: Duration,
    /// The pause before the next one, if the library refuses messages again.
    refused_pause: Duration,
    used: Instant,
}

impl Destination {
    pub fn new(shared: &'static Shared, to: SocketAddr, rule: Rule) -> Arc<Self> {
        let state = State {
            phase: Phase::Unknown,
            is_working: false,
            is_ending: false,
            queue: VecDeque::new(),
            pause: PAUSE_MIN,
            refused_pause: REFUSED_PAUSE_MIN,
            used: Instant::now(),
        };
        Arc::new(Self {
            shared,
            to,
            rule,
            state: Mutex::new(state),
            changed: Condvar::new(),
            asked: Condvar::new(),
            source: address::source_to(to),
        })
    }

    /// Whether the receiver would see the address of the program's socket as that of the messages.
    pub fn is_from(&self, own: Option<IpAddr>) -> bool {
        let own = own.map(|own| own.to_canonical());
        own.is_none_or(|own| own.is_unspecified() || Some(own) == self.source)
    }

    /// Whether a datagram now has to ask whether ATP answers.
    pub fn needs_thread(&self) -> bool {
        let state = lock(&self.state);
        let is_due = match state.phase {
            Phase::Unknown => true,
            Phase::Plain { again } => Instant::now() >= again,
            Phase::Probing | Phase::Atp => false,
        };
        is_due && !state.is_working
    }

    /// Starts the thread, unless another one was faster. Keeps `place` until the thread has ended.
    pub fn start(self: &Arc<Self>, place: impl Send + 'static) {
        let mut state = lock(&self.state);
        if state.is_working {
            return;
        }
        state.is_working = true;
        if state.phase == Phase::Unknown {
            state.phase = Phase::Probing;
        }
        drop(state);
        let worker = Worker { destination: self.clone() };
        let run = move || {
            pass_calls_of_this_thread();
            worker.run();
            drop(place);
        };
        let thread = thread::Builder::new().name("atp-run-sender".to_owned());
        if thread.spawn(run).is_err() {
            self.rest(Phase::Plain { again: Instant::now() + PAUSE_MAX });
        }
    }

    /// There is no place for a thread: later datagrams are plain, and one after a pause asks.
    pub fn put_off(&self) {
        let mut state = lock(&self.state);
        if !state.is_working {
            state.phase = Phase::Plain { again: Instant::now() + PAUSE_MIN };
        }
    }

    pub fn is_working(&self) -> bool {
        lock(&self.state).is_working
    }

    pub fn is_probing(&self) -> bool {
        lock(&self.state).phase == Phase::Probing
    }

    /// When the last datagram was sent.
    pub fn used(&self) -> Instant {
        lock(&self.state).used
    }

    /// Waits for the first probe's outcome, for the time of the rule at most; whether it is there.
    pub fn wait_for_probe(&self) -> bool {
        let is_probing = |state: &mut State| state.phase == Phase::Probing;
        let waited =
            self.changed.wait_timeout_while(lock(&self.state), self.rule.probe, is_probing);
        waited.unwrap_or_else(PoisonError::into_inner).0.phase == Phase::Atp
    }

    /// Takes a message, if ATP answers at the destination.
    pub fn offer(&self, message: Vec<u8>, waits: bool) -> Verdict {
        let mut state = lock(&self.state);
        state.used = Instant::now();
        while state.phase == Phase::Atp && !state.is_ending {
            if state.queue.len() < QUEUE_MAX {
                state.queue.push_back(message);
                // The thread waits for the first one only.
                if state.queue.len() == 1 {
                    self.asked.notify_one();
                }
                return Verdict::Taken;
            }
            if !waits {
                return Verdict::Again;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Verdict::Plain
    }

    fn set(&self, phase: Phase) {
        lock(&self.state).phase = phase;
        self.changed.notify_all();
    }

    /// The thread ends.
    fn rest(&self, phase: Phase) {
        let mut state = lock(&self.state);
        state.phase = phase;
        (state.is_working, state.is_ending) = (false, false);
        drop(state);
        self.changed.notify_all();
    }

    /// Asks the thread to end after the queued messages; whether that is new.
    pub fn end(&self) -> bool {
        let mut state = lock(&self.state);
        let is_new = state.is_working && !state.is_ending;
        state.is_ending |= state.is_working;
        drop(state);
        self.asked.notify_one();
        self.changed.notify_all();
        is_new
    }

    pub fn wait_for_end(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let is_working = |state: &mut State| state.is_working;
        drop(self.changed.wait_timeout_while(lock(&self.state), left, is_working));
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
    destination: Arc<Destination>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The program's threads would wait for room.
        if thread::panicking() {
            self.rest(PAUSE_MAX);
        }
    }
}

/// A queue's next message, or why there is none.
enum Next {
    Message(Vec<u8>),
    Late,
    Ending,
}

impl Worker {
    fn run(&self) {
        let destination = &*self.destination;
        if !answers(self.peer(), destination.rule.probe) {
            let mut state = lock(&destination.state);
            let pause = state.pause;
            state.pause = (pause * 2).min(PAUSE_MAX);
            drop(state);
            return self.rest(pause);
        }
        lock(&destination.state).pause = PAUSE_MIN;
        destination.set(Phase::Atp);
        match self.send_windows() {
            // Other destinations need the thread, or the process ends.
            Ok(()) => destination.rest(Phase::Unknown),
            Err(error) => {
                let refused = matches!(error, Error::Ended | Error::EndedByReceiver);
                self.complain(error);
                self.rest(if refused { self.refused_pause() } else { PAUSE_MIN });
            }
        }
    }

    /// The pause after another refusal.
    fn refused_pause(&self) -> Duration {
        let mut state = lock(&self.destination.state);
        let pause = state.refused_pause;
        state.refused_pause = (pause * 2).min(REFUSED_PAUSE_MAX);
        pause
    }

    /// Ends the thread. Later datagrams are plain, and one after `pause` asks again.
    fn rest(&self, pause: Duration) {
        let plain = Phase::Plain { again: Instant::now() + pause };
        self.destination.set(plain);
        self.send_queued_plainly();
        self.destination.rest(plain);
    }

    fn complain(&self, error: Error) {
        let to = self.destination.to;
        match error {
            Error::Ended | Error::EndedByReceiver => warn(format_args!(
                "datagrams to {to} are sent plainly: a router on the path translates addresses, \
                 the receiver runs another version of atp-run, or another process has claimed a \
                 port of this one"
            )),
            error => {
                if let Error::Short(shortfall) = &error {
                    self.destination.shared.counts.add(&shortfall.report.groups);
                }
                warn(format_args!("datagrams to {to} are sent plainly: {error}"));
            }
        }
    }

    fn is_ending(&self) -> bool {
        lock(&self.destination.state).is_ending
    }

    /// The next message of the queue. Waits for it until `deadline`.
    fn next(&self, deadline: Option<Instant>) -> Next {
        let destination = &*self.destination;
        let mut state = lock(&destination.state);
        loop {
            if let Some(message) = state.queue.pop_front() {
                if state.queue.len() == QUEUE_MAX - 1 {
                    destination.changed.notify_all();
                }
                return Next::Message(message);
            }
            if state.is_ending {
                return Next::Ending;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Next::Late,
                Some(left) => {
                    let waited = destination.asked.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => destination.asked.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Where the destination's messages go.
    fn peer(&self) -> SocketAddr {
        let mut peer = self.destination.to;
        peer.set_port(self.destination.rule.atp_port);
        peer
    }

    /// Sends what the program had queued for a job that has failed. Later datagrams would
    /// otherwise overtake it by minutes.
    fn send_queued_plainly(&self) {
        let queued = std::mem::take(&mut lock(&self.destination.state).queue);
        self.send_plainly(queued.into_iter());
    }

    fn send_plainly(&self, messages: impl Iterator<Item = Vec<u8>>) {
        let to = self.destination.to;
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut socket = None;
        for message in messages {
            let Some(datagram) = datagram::bytes(&message) else { continue };
            if socket.is_none() {
                socket = UdpSocket::bind((any, 0)).ok();
            }
            // A plain datagram may be lost.
            drop(socket.as_ref().map(|socket| socket.send_to(datagram, to)));
        }
    }

    fn send_windows(&self) -> Result<(), Error> {
        let destination = &*self.destination;
        let builder = Job::builder().msr(destination.rule.msr).peer_timeout(PEER_TIMEOUT);
        let mut job = builder.connect(self.peer())?;
        // The current address: a host may get another one.
        let source = address::source_to(destination.to);
        loop {
            let sent = self.send_window(&mut job, source)?;
            if self.is_ending() {
                let report = job.finish()?;
                destination.shared.counts.add(&report.groups);
                return Ok(());
            }
            if sent > 0 {
                let report = job.end_window()?;
                destination.shared.counts.add(&report.groups);
                if job.try_outcome()?.is_some() {
                    return Err(Error::EndedByReceiver);
                }
            }
        }
    }

    /// Sends the datagrams of one window, which begins with its first datagram; their number.
    fn send_window(&self, job: &mut Job, source: Option<IpAddr>) -> Result<u64, Error> {
        let (mut sent, mut deadline) = (0, None);
        loop {
            match self.next(deadline) {
                Next::Message(mut message) => {
                    if let Some(source) = source {
                        datagram::set_source(&mut message, source);
                    }
                    if let Err(error) = job.send(&message) {
                        self.send_plainly([message].into_iter());
                        return Err(error);
                    }
                    sent += 1;
                    deadline.get_or_insert_with(|| Instant::now() + self.destination.rule.window);
                }
                Next::Late | Next::Ending => return Ok(sent),
            }
            // A busy program would hold a window open.
            if deadline.is_some_and(|at| Instant::now() >= at) && !self.is_ending() {
                return Ok(sent);
            }
        }
    }
}
