//! The receiver thread. It owns the socket and the endpoint: the transport's state of every sender.
//!
//! [`ReceiverThread::run`] repeats one round: receive a batch, write receipts, send replies, give
//! events to the application, sleep. [`leave`] is its end, after the application has dropped the
//! receiver.

mod leave;

use super::{
    acknowledger::{Acknowledger, Advising},
    advice::OwnAdvice,
    advised_lanes::AdvisedLanes,
    arrival::Arrival,
    coalescing::Coalescing,
    event_queue::{EventQueue, NextStep},
    send_replies::send_replies,
};
use crate::{
    error::Error,
    udp::{GroBatch, Interest, SendBatch, UdpSocket, now_ns, wait},
};
use atp_proto::endpoint::{Buffer as _, Endpoint};
use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// The shortest sleep: keeps a timer that is always due from making this thread spin.
const SLEEP_NS_MIN: u64 = 20_000;
/// The interval of housekeeping: forgetting senders, and registering with a daemon that is back.
const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// Everything that the receiver thread owns.
pub struct ReceiverThread {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    endpoint: Endpoint<AdvisedLanes>,
    queue: Arc<EventQueue>,
    acknowledger: Acknowledger,
    /// Advice while no daemon serves this receiver.
    own_advice: OwnAdvice,
    buffers: Buffers,
    housekeeping_due_ns: u64,
    coalescing: Coalescing,
    /// Whether this process acknowledges the packets that came last.
    acknowledged_here: bool,
    /// How long to wait, after the end, for senders that may not know of their job's end.
    linger: Duration,
}

/// Memory that is reused in every round.
struct Buffers {
    receive: GroBatch,
    send: SendBatch,
    /// Memory of messages that the application has recycled.
    memory: Vec<Vec<u8>>,
}

impl Buffers {
    fn new() -> Self {
        Self { receive: GroBatch::new(), send: SendBatch::new(), memory: Vec::new() }
    }
}

impl ReceiverThread {
    /// Starts the thread (`atp-receiver`).
    pub fn start(
        socket: Arc<UdpSocket>,
        local: SocketAddr,
        endpoint: Endpoint<AdvisedLanes>,
        queue: Arc<EventQueue>,
        (acknowledger, own_advice): (Acknowledger, OwnAdvice),
        linger: Duration,
    ) -> io::Result<JoinHandle<()>> {
        let this = Self {
            socket,
            local,
            endpoint,
            queue,
            acknowledger,
            own_advice,
            buffers: Buffers::new(),
            housekeeping_due_ns: now_ns(),
            coalescing: Coalescing::default(),
            acknowledged_here: true,
            linger,
        };
        thread::Builder::new().name("atp-receiver".into()).spawn(|| this.run())
    }

    /// Runs until the application drops the receiver or the socket fails.
    fn run(mut self) {
        let queue = self.queue.clone();
        // The default timer slack of 50 us is half of a coalescing pause.
        let _ = nix::sys::prctl::set_timerslack(1_000);
        // Its drop wakes the application also if this thread panics.
        let mut guard = ThreadEndGuard { queue: &queue, failure: None };
        guard.failure = self.run_rounds().err();
    }

    fn run_rounds(&mut self) -> Result<(), Error> {
        let mut next = NextStep::default();
        while !next.stop {
            let now_ns = now_ns();
            let received = if next.full { 0 } else { self.receive(now_ns)? };
            self.coalescing.observe(now_ns, received);
            let is_drained = !next.full && !self.buffers.receive.is_full();
            self.advise(now_ns, is_drained);
            self.endpoint.handle_timeout(now_ns);
            self.send_replies();
            if now_ns >= self.housekeeping_due_ns {
                self.housekeeping(now_ns);
            }
            let Buffers { receive, memory, .. } = &mut self.buffers;
            let stats = self.endpoint.stats();
            next = self.queue.put(self.endpoint.take_events(), memory, stats);
            receive.refill(memory);
            if next.has_requests {
                for request in self.queue.take_requests() {
                    self.endpoint.request(now_ns, &request);
                }
            }
            if let Some(asked) = next.progress_asked {
                self.queue.set_progress(asked, self.endpoint.progress().collect());
            }
            let more = next.has_requests || received > 0 && self.buffers.receive.is_full();
            if !more && !next.stop {
                self.sleep(now_ns, next.full)?;
            }
        }
        self.leave();
        Ok(())
    }

    fn receive(&mut self, now_ns: u64) -> Result<usize, Error> {
        let received = match self.buffers.receive.receive(&self.socket) {
            Ok(received) => received,
            // An ICMP error for a packet sent earlier: no failure of this socket.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => 0,
            Err(source) => {
                return Err(Error::Socket { doing: "receiving at", address: self.local, source });
            }
        };
        let advising = self.acknowledger.advising(&mut self.own_advice);
        self.endpoint.set_gives_advice(advising.gives_advice());
        let mut arrival = Arrival { advising, interface: 0, acknowledges: false };
        for mut buffer in self.buffers.receive.buffers() {
            arrival.interface = buffer.interface();
            arrival.acknowledges =
                self.acknowledger.is_here(arrival.interface, buffer.ends().source);
            self.acknowledged_here = arrival.acknowledges;
            self.endpoint.on_buffer(now_ns, &mut buffer, &mut arrival);
        }
        Ok(received)
    }

    fn send_replies(&mut self) {
        send_replies(self.endpoint.replies(), &self.socket, &mut self.buffers.send);
    }

    /// Computes this library's advice, unless the daemon gives it. `is_drained`: whether no packet
    /// waits in the socket.
    fn advise(&mut self, now_ns: u64, is_drained: bool) {
        let Self { acknowledger, own_advice, endpoint, socket, .. } = self;
        if let Advising::Here(own) = acknowledger.advising(own_advice) {
            own.tick(now_ns, endpoint, is_drained, || socket.dropped_packets());
        }
    }

    fn housekeeping(&mut self, now_ns: u64) {
        self.housekeeping_due_ns = now_ns + HOUSEKEEPING_NS;
        self.endpoint.expire(now_ns);
        self.acknowledger.refresh();
        self.own_advice.refresh(&mut self.endpoint);
        if let Some(daemon) = self.acknowledger.take_registration() {
            self.endpoint.end_advice();
            self.own_advice.end();
            tracing::info!(
                daemon = %daemon.display(),
                "registered with the ATP daemon: its programs acknowledge from now on"
            );
        }
    }

    fn sleep(&mut self, now_ns: u64, full: bool) -> Result<(), Error> {
        // The daemon's programs acknowledge at once, so reading can wait for more packets. One
        // wakeup per packet would cost more than reading it.
        if let Some(pause_ns) = self.coalescing.pause_ns()
            && !self.acknowledged_here
            && !full
        {
            thread::sleep(Duration::from_nanos(pause_ns));
            return Ok(());
        }
        let due_ns = self.endpoint.poll_timeout().unwrap_or(u64::MAX);
        let until_ns = due_ns.min(self.housekeeping_due_ns);
        let interest = Interest {
            socket: self.socket.as_fd(),
            readable: !full,
            writable: false,
            wake: self.queue.wake(),
            control: self.acknowledger.control(),
        };
        let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns).max(SLEEP_NS_MIN));
        let ready = wait(&interest, timeout).map_err(Error::Thread)?;
        if ready.woken {
            self.queue.clear_wake();
        }
        if ready.error {
            self.socket.take_errors();
        }
        if ready.hung_up {
            self.fall_back_to_userspace();
        }
        Ok(())
    }

    /// Acknowledges in this process: the daemon has gone, and its programs with it.
    fn fall_back_to_userspace(&mut self) {
        tracing::warn!(
            local = %self.local,
            "the ATP daemon closed the connection: acknowledging in userspace until it is back"
        );
        self.endpoint.end_advice();
        if let Some(path) = self.acknowledger.path() {
            let later = Acknowledger::register_later(path.to_owned(), &self.socket);
            self.acknowledger = later.unwrap_or_else(|error| {
                tracing::warn!(
                    %error,
                    "starting a thread to find the ATP daemon again failed: acknowledging in \
                     userspace until this receiver is restarted"
                );
                Acknowledger::USERSPACE
            });
        }
    }
}

struct ThreadEndGuard<'a> {
    queue: &'a EventQueue,
    failure: Option<Error>,
}

impl Drop for ThreadEndGuard<'_> {
    fn drop(&mut self) {
        self.queue.set_thread_gone(self.failure.take());
    }
}
