//! The sender thread of a job. It owns the socket and the transport's state, and sleeps while there
//! is nothing to do.
//!
//! [`SenderThread::run`] repeats one round: receive, take in new messages and commands, tick the
//! datapath, send, report, sleep. A [`Job`] decides what the messages and commands do, and when
//! windows begin and end. The steps of a round lie in the child modules:
//!
//! - `transmit` sends control packets and data, and `packing` assembles packed packets;
//! - `closed_port` slows down while nothing listens at the peer;
//! - `switching` moves the flow between the daemon's datapath and userspace;
//! - `reporting` publishes progress and detects the end of the job;
//! - `store` holds the bytes of messages that may still have to be sent.

mod closed_port;
mod packing;
mod reporting;
mod store;
mod switching;
mod transmit;

use super::{
    buffer_pool::BufferPool,
    data::Data,
    shared::{NewMessage, Outcome, Released, Shared},
};
use crate::{
    datapath::Datapath,
    error::ShortCause,
    report::Timeline,
    udp::{BATCH, Interest, ReceiveBatch, SendBatch, SocketErrors, UdpSocket, now_ns, wait},
};
use atp_common::wire::{self, HEADER_LEN, Header, Kind, PROBE_LEN};
use atp_proto::{
    Packet, Sender,
    flow::{Job, LaneSettings},
};
use closed_port::ClosedPort;
use packing::PackedPackets;
use std::{
    net::SocketAddr,
    os::fd::AsFd,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};
use store::Store;
use switching::Switching;

/// Batches received before the thread sends again.
const READS_PER_ROUND: usize = 8;
/// The shortest sleep: keeps a timer that is always due from making this thread spin.
const SLEEP_NS_MIN: u64 = 20_000;
/// The longest pacing pause in which the thread doesn't wake for acknowledgments. It reads them
/// together after the pause.
const SHORT_PAUSE_NS: u64 = 250_000;
/// The interval at which the thread polls for acknowledgments that don't wake it.
const ACK_POLL_NS: u64 = 500_000;
/// The interval at which the rate laws run while packets are in flight.
const LAW_NS: u64 = 1_000_000;
/// The longest sleep of an idle job.
const IDLE_NS: u64 = 1_000_000_000;
/// The interval at which a busy thread publishes the job's progress.
const PROGRESS_NS: u64 = 50_000_000;
/// A busy thread polls its descriptors at least this often, to notice that the daemon has gone.
const POLL_NS_MAX: u64 = 10_000_000;
/// Room for the longest control packet.
const CONTROL_BYTES: usize = 1_280;

/// The inputs of a new sender thread, from the builder.
pub struct Setup {
    pub socket: UdpSocket,
    pub peer: SocketAddr,
    pub sender: Sender,
    pub datapath: Datapath,
    /// Settings for going on without the daemon.
    pub fallback: LaneSettings,
    /// The daemon that serves the flow, or may serve it later.
    pub daemon: Option<PathBuf>,
    pub shared: Arc<Shared>,
    pub window_deadline: Option<Duration>,
}

/// Everything that the sender thread owns.
pub struct SenderThread {
    /// Shared with the thread that registers it.
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    job: Job<Data>,
    datapath: Datapath,
    fallback: LaneSettings,
    switching: Switching,
    shared: Arc<Shared>,
    timeline: Timeline,
    buffers: Buffers,
    socket_errors: SocketErrors,
    closed_port: ClosedPort,
    /// When the first message came.
    started_ns: Option<u64>,
    /// Messages released since the last exchange with the application.
    released: Released,
    /// Since when this host has refused every packet, and the error number.
    refused_by_host: Option<(u64, i32)>,
    /// Whether the log says that the receiver has no room.
    no_room_logged: bool,
    /// When to publish the progress, if the thread doesn't sleep before.
    progress_due_ns: u64,
    /// When to poll the descriptors, if the thread doesn't sleep before.
    poll_due_ns: u64,
}

/// Memory that is reused in every round.
struct Buffers {
    store: Store,
    new_messages: Vec<NewMessage>,
    /// Memory of released messages.
    pool: BufferPool,
    packets: Vec<Packet>,
    packed: PackedPackets,
    /// The probe that leaves before `packets`, and its group.
    probe: Option<(u8, [u8; PROBE_LEN])>,
    /// This host refused a GSO buffer: every packet leaves alone.
    gso_unsupported: bool,
    send: SendBatch,
    receive: ReceiveBatch,
    control: Box<[u8; CONTROL_BYTES]>,
    /// Length of the control packet in `control` that the socket had no room for.
    control_len: usize,
}

impl Buffers {
    fn new() -> Self {
        Self {
            store: Store::default(),
            new_messages: Vec::new(),
            pool: BufferPool::default(),
            packets: Vec::with_capacity(BATCH),
            packed: PackedPackets::default(),
            probe: None,
            gso_unsupported: false,
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            control: Box::new([0; CONTROL_BYTES]),
            control_len: 0,
        }
    }
}

/// Why sending paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    /// Sending did not pause: read acknowledgments, then continue.
    No,
    /// There is nothing to send.
    Nothing,
    /// All lanes have as many packets in flight as they may.
    WindowFull,
    /// The socket's buffer is full.
    SocketFull,
    /// Pacing lets no packet out before this time.
    Until(u64),
}

impl SenderThread {
    /// Starts the thread (`atp-sender`).
    pub fn start(setup: Setup) -> std::io::Result<JoinHandle<()>> {
        let Setup { socket, peer, sender, datapath, fallback, daemon, shared, window_deadline } =
            setup;
        let switching = Switching::new(daemon, &sender.config().groups);
        let deadline_ns =
            |deadline: Duration| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        let this = Self {
            socket: Arc::new(socket),
            peer,
            job: Job::new(sender, window_deadline.map(deadline_ns)),
            datapath,
            fallback,
            switching,
            shared,
            timeline: Timeline::new(now_ns()),
            buffers: Buffers::new(),
            socket_errors: SocketErrors::default(),
            closed_port: ClosedPort::default(),
            started_ns: None,
            released: Released::default(),
            refused_by_host: None,
            no_room_logged: false,
            progress_due_ns: 0,
            poll_due_ns: 0,
        };
        thread::Builder::new().name("atp-sender".into()).spawn(|| this.run())
    }

    /// Runs the job to its end.
    fn run(mut self) {
        let shared = self.shared.clone();
        let _gone = CallOnDrop(|| shared.set_thread_gone());
        // The default timer slack of 50 us is half of a usual pacing sleep.
        let _ = nix::sys::prctl::set_timerslack(1_000);
        let outcome = self.run_rounds();
        self.publish(now_ns());
        // The application gets its memory back before it learns of the end: it may wait for this
        // thread then, and the callbacks are its own.
        self.buffers.store = Store::default();
        self.job.drop_waiting();
        self.shared.set_outcome(outcome);
    }

    fn run_rounds(&mut self) -> Outcome {
        loop {
            let now_ns = now_ns();
            // Receive first: room that receipts free is given back before this thread sleeps.
            self.receive(now_ns);
            self.log_no_room();
            self.exchange(now_ns);
            if self.job.is_abandoned() {
                return Err(self.shortfall(ShortCause::Abandoned));
            }
            self.work(now_ns);
            self.datapath.tick(now_ns, &mut self.job.sender, &self.socket);
            self.switch(now_ns);
            if self.job.sender.poll_timeout().is_some_and(|due_ns| due_ns <= now_ns) {
                self.job.sender.handle_timeout(now_ns);
            }
            let blocked = match self.send_control(now_ns) {
                true => self.send_data(now_ns),
                false => Blocked::SocketFull,
            };
            if blocked == Blocked::WindowFull {
                self.job.note_full();
            }
            self.observe(now_ns);
            if let Some(outcome) = self.ended(now_ns) {
                return outcome;
            }
            if !self.job.is_runnable() && (blocked != Blocked::No || now_ns >= self.poll_due_ns) {
                self.sleep(now_ns, blocked);
            }
        }
    }

    fn receive(&mut self, now_ns: u64) {
        for _ in 0..READS_PER_ROUND {
            match self.buffers.receive.receive(&self.socket) {
                Ok(0) => return,
                Ok(_) => {
                    for packet in self.buffers.receive.packets() {
                        on_packet(&mut self.job.sender, &mut self.datapath, now_ns, packet);
                    }
                    if !self.buffers.receive.is_full() {
                        return;
                    }
                }
                Err(_) => {
                    self.note_errors(now_ns);
                    self.fit_path();
                }
            }
        }
    }

    /// Says once why the job waits.
    fn log_no_room(&mut self) {
        if self.job.sender.refusals() > 0 && !std::mem::replace(&mut self.no_room_logged, true) {
            tracing::warn!(
                peer = %self.peer,
                timeout_s = self.job.sender.config().peer_timeout_ns as f64 / 1e9,
                "the receiver has no room: trying again until the timeout"
            );
        }
    }

    /// Gives room back to the application, and takes its new messages and commands.
    fn exchange(&mut self, now_ns: u64) {
        self.release();
        let released = std::mem::take(&mut self.released);
        let untried = self.job.sender.untried_messages();
        let Buffers { new_messages, pool, .. } = &mut self.buffers;
        let commands = self.shared.exchange(new_messages, released, untried, pool);
        if !new_messages.is_empty() {
            self.started_ns.get_or_insert(now_ns);
        }
        if !commands.is_empty() {
            // Poll the descriptors in this round: the command's wakeup is still in the eventfd.
            self.poll_due_ns = now_ns;
        }
        self.job.give(new_messages.drain(..));
        commands.into_iter().for_each(|command| self.job.command(command));
    }

    /// Lets the job go on with its messages and commands.
    fn work(&mut self, now_ns: u64) {
        let Self { job, buffers, released, .. } = self;
        job.work(now_ns, |id, data| match id {
            Some(id) => buffers.store.insert(id, data),
            None => {
                released.messages += 1;
                released.bytes += data.len() as u64;
            }
        });
        self.tell_events();
    }

    fn release(&mut self) {
        let Self { job, buffers, released, .. } = self;
        for id in job.sender.released() {
            released.messages += 1;
            let data = buffers.store.remove(id);
            released.bytes += data.len() as u64;
            if let Data::Copied(copy) = data {
                buffers.pool.put(copy);
            }
        }
    }

    fn sleep(&mut self, now_ns: u64, blocked: Blocked) {
        // While packets wait for their time or for room, new messages don't have to wake the
        // thread.
        if blocked == Blocked::Nothing && !self.shared.prepare_to_sleep() {
            return;
        }
        self.poll_due_ns = now_ns + POLL_NS_MAX;
        let wake_ns = self.wake_at(now_ns, blocked);
        // The packet that is due can't leave before the socket has room.
        let is_stuck = blocked == Blocked::SocketFull && wake_ns <= now_ns;
        let until_ns = match blocked {
            Blocked::No => now_ns,
            _ if is_stuck => now_ns + LAW_NS,
            _ => wake_ns.max(now_ns + SLEEP_NS_MIN),
        };
        if until_ns > self.progress_due_ns {
            self.publish(now_ns);
        }
        // Waking for each acknowledgment costs more than reading them together.
        let is_short = until_ns - now_ns <= SHORT_PAUSE_NS;
        let readable =
            !(is_short && matches!(blocked, Blocked::Until(_))) || self.job.sender.waits_for_acks();
        let interest = Interest {
            socket: self.socket.as_fd(),
            readable,
            writable: blocked == Blocked::SocketFull,
            wake: self.shared.wake(),
            control: self.datapath.control(),
        };
        // The round has taken some of the time.
        let timeout_ns = until_ns.saturating_sub(crate::udp::now_ns());
        let ready = wait(&interest, Duration::from_nanos(timeout_ns)).unwrap_or_default();
        self.shared.awake(ready.woken);
        if ready.readable {
            self.datapath.woken_by_packet();
        } else if timeout_ns > 0
            && let Some(late_ns) = crate::udp::now_ns().checked_sub(until_ns)
        {
            self.datapath.timer_was_late(late_ns);
        }
        if ready.error {
            self.note_errors(now_ns);
            self.fit_path();
        }
        if ready.hung_up {
            self.on_hang_up();
        }
    }

    fn wake_at(&self, now_ns: u64, blocked: Blocked) -> u64 {
        let in_flight = self.job.sender.in_flight() > 0;
        let law_ns = match (in_flight, self.datapath.must_poll_acks()) {
            (true, true) if self.job.sender.waits_for_acks() => {
                self.datapath.ack_poll_ns().unwrap_or(ACK_POLL_NS)
            }
            (true, true) => ACK_POLL_NS,
            (true, false) => LAW_NS,
            (false, _) => IDLE_NS,
        };
        let until_ns = self.job.sender.poll_timeout().unwrap_or(u64::MAX).min(now_ns + law_ns);
        let until_ns = until_ns.min(self.job.next_deadline_ns().unwrap_or(u64::MAX));
        match blocked {
            Blocked::Until(at_ns) => until_ns.min(at_ns),
            _ => until_ns,
        }
    }
}

fn on_packet(sender: &mut Sender, datapath: &mut Datapath, now_ns: u64, payload: &[u8]) {
    match Header::parse(payload) {
        Ok((header, Kind::Ack)) => match sender.on_ack(now_ns, &header) {
            Ok(()) => datapath.on_ack(now_ns, &header, wire::arrival(&payload[HEADER_LEN..])),
            Err(error) => tracing::trace!(%header, %error, "ACK refused"),
        },
        parsed => {
            if let Err(error) = sender.on_packet(now_ns, payload) {
                match parsed {
                    Ok((header, _)) => tracing::trace!(%header, %error, "packet refused"),
                    Err(_) => tracing::trace!(len = payload.len(), %error, "packet refused"),
                }
            }
        }
    }
}

struct CallOnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for CallOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
