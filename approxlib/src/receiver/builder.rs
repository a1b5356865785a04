//! The options of a receiver, and starting it.

use super::{
    Receiver,
    acknowledger::Acknowledger,
    advice::{LineOptions, OwnAdvice},
    event_queue::EventQueue,
    thread::ReceiverThread,
};
use crate::{
    address::ScopedIp,
    control::default_socket,
    error::Error,
    job_id::JobId,
    peer::{ToAddresses, first_reachable, resolve},
    udp::UdpSocket,
};
use atp_proto::{
    ReceiverConfig,
    endpoint::{Admission, Endpoint},
};
use std::{
    collections::{HashSet, VecDeque},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Options of a [`Receiver`].
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// let receiver = approxlib::Receiver::builder()
///     .job(7)
///     .peer("10.0.0.2".parse().unwrap())
///     .sources_max(16)
///     .message_bytes_max(1 << 20)
///     .bind("[::]:4747")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReceiverBuilder {
    /// `None`: the daemon at the default socket, if there is one. `Some(None)`: no daemon.
    control_socket: Option<Option<PathBuf>>,
    jobs: HashSet<u32>,
    peers: HashSet<ScopedIp>,
    sources_max: usize,
    message_bytes_max: u32,
    incomplete_bytes_max: u64,
    memory_bytes_max: u64,
    buffer_bytes: u64,
    confirm_windows: bool,
    linger: Duration,
    line: LineOptions,
}

impl Default for ReceiverBuilder {
    fn default() -> Self {
        Self {
            control_socket: None,
            jobs: HashSet::new(),
            peers: HashSet::new(),
            sources_max: 256,
            message_bytes_max: 64 << 20,
            incomplete_bytes_max: 64 << 20,
            memory_bytes_max: 256 << 20,
            buffer_bytes: 64 << 20,
            confirm_windows: false,
            linger: Duration::from_secs(2),
            line: LineOptions::default(),
        }
    }
}

impl ReceiverBuilder {
    /// The control socket of the daemon to use; `None` uses no daemon. Default: the daemon at
    /// [`default_socket`] if there is one, else none.
    pub fn control_socket(mut self, path: Option<PathBuf>) -> Self {
        self.control_socket = Some(path);
        self
    }

    /// Admits this job, and other jobs only if they are named by further calls. Default: any job.
    pub fn job(mut self, id: impl Into<JobId>) -> Self {
        self.jobs.insert(id.into().number());
        self
    }

    /// Admits senders at this address, and at other addresses only if they are named by further
    /// calls. A link-local address without its interface admits those of all links. Default: any
    /// address.
    ///
    /// This is no protection where hosts can forge addresses.
    pub fn peer(mut self, address: ScopedIp) -> Self {
        self.peers.insert(address);
        self
    }

    /// The most senders (address, job and run) at once. Default 256.
    ///
    /// One address (IPv4), or one /64 (IPv6), may hold three times as many places as are free, so
    /// it always leaves some. With the default limit, one address alone gets 193.
    ///
    /// Without a free place, a new sender replaces an earlier one. Senders whose job has ended go
    /// first. Then go those that have been silent for some seconds, least delivered first. If there
    /// is neither, the new sender is told to try again later.
    pub fn sources_max(mut self, sources: usize) -> Self {
        self.sources_max = sources;
        self
    }

    /// The longest message that is accepted, bytes. Default 64 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// The most bytes of incomplete messages that are held for each sender. Default 64 MiB. All
    /// senders together share [`ReceiverBuilder::memory_bytes_max`].
    pub fn incomplete_bytes_max(mut self, bytes: u64) -> Self {
        self.incomplete_bytes_max = bytes;
        self
    }

    /// The most bytes of incomplete messages, of complete ones that wait for earlier ones, and of
    /// records of delivered messages, of all senders together. Default 256 MiB, a quarter of it for
    /// records. A value below three times the sum of `message_bytes_max` and 4 MiB is raised to
    /// that.
    ///
    /// One address (IPv4), or one /64 (IPv6), may hold as many bytes of either part as are free
    /// after that: one address alone gets half. A sender without room is told to try again later.
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Bytes of complete messages that wait for [`Receiver::recv`]. When there are more, the
    /// receiver stops reading its socket. Default 64 MiB.
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Whether a window that others follow ends for its sender only once the application has called
    /// [`Receiver::confirm_window`]. Default off: the sender's report says what the library has
    /// received, and an application that crashes then has lost it.
    ///
    /// Meanwhile the sender waits in [`Job::end_window`](crate::Job::end_window). With overlapping
    /// windows it sends the next one. The last window of a job needs no confirmation.
    pub fn confirm_windows(mut self, on: bool) -> Self {
        self.confirm_windows = on;
        self
    }

    /// How long a dropped receiver waits for a sender that may not know that its job has ended.
    /// Default 2 s after its last FIN, and 5 s at most.
    ///
    /// Dropping takes that long only if packets were lost at the end, or a sender has crashed. A
    /// sender that doesn't learn of the end reports an error, although its job is complete. On
    /// paths with RTTs of hundreds of milliseconds, set a time of several RTTs.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Without a daemon: the rate of this host's line, bytes per second on the wire. The receiver
    /// then advises each sender of its share. Default 0: the rate is unknown, and there is no
    /// advice. Senders over the loopback get none. A daemon knows the rate itself (`atp-user run
    /// --rate-max`).
    ///
    /// A rate that is too low slows senders down. One that is too high makes them lose packets.
    pub fn line_rate_bytes_per_s(mut self, rate: u64) -> Self {
        self.line.rate_bytes_per_s = rate;
        self
    }

    /// Without a daemon, on a network with priority queues: the packets of full length that each
    /// approximate queue holds at the switch's port to this host. It decides how much of the exact
    /// traffic's bandwidth senders are advised beside it. The profile `default` has 96, the paper's
    /// 7. Default 0: one queue for all traffic, in which senders yield by themselves.
    ///
    /// A number that is too low makes senders lose packets, and so does 0 where there are priority
    /// queues. One that is too high leaves the line idle at times.
    pub fn queue_depth_packets(mut self, packets: u32) -> Self {
        self.line.queue_depth_packets = packets;
        self
    }

    /// Starts to receive at `local`. With port 0 the kernel chooses a port; `[::]` receives over
    /// IPv4 too.
    ///
    /// # Errors
    /// - [`Error::Name`]: a name can't be resolved.
    /// - [`Error::Socket`]: the address is in use, or is not this host's.
    /// - [`Error::Daemon`]: no daemon answers at the socket that was named, or the daemon refused.
    pub fn bind(self, local: impl ToAddresses) -> Result<Receiver, Error> {
        let addresses = resolve(&local)?;
        first_reachable(&addresses, |address| self.clone().bind_at(address))
    }

    fn bind_at(self, local: SocketAddr) -> Result<Receiver, Error> {
        let failed = |source| Error::Socket { doing: "listening at", address: local, source };
        let socket = Arc::new(UdpSocket::bind(local).map_err(failed)?);
        let local = socket.local_addr().map_err(failed)?;
        let own_advice = OwnAdvice::new(self.line);
        let acknowledger = self.acknowledger(&socket)?;
        if own_advice.gives_advice() {
            // Best effort: without the option no lane's line is known, and there is no advice.
            let _ = socket.tell_interfaces();
        }
        let datapath = acknowledger.name();
        let transport = ReceiverConfig {
            message_bytes_max: self.message_bytes_max,
            incomplete_bytes_max: self.incomplete_bytes_max,
            confirms_windows: self.confirm_windows,
            ..ReceiverConfig::default()
        };
        let Self { sources_max, memory_bytes_max, jobs, peers, linger, .. } = self;
        let peers = peers.into_iter().map(Into::into).collect();
        let secret = rand::random();
        let admission = Admission { sources_max, memory_bytes_max, jobs, peers, transport, secret };
        let queue = Arc::new(EventQueue::new(self.buffer_bytes).map_err(Error::Thread)?);
        let endpoint = Endpoint::new(admission);
        let advisers = (acknowledger, own_advice);
        let thread =
            ReceiverThread::start(socket, local, endpoint, queue.clone(), advisers, linger)
                .map_err(Error::Thread)?;
        Ok(Receiver { local, datapath, queue, ready: VecDeque::new(), thread: Some(thread) })
    }

    fn acknowledger(&self, socket: &Arc<UdpSocket>) -> Result<Acknowledger, Error> {
        let (path, required) = match &self.control_socket {
            Some(None) => return Ok(Acknowledger::USERSPACE),
            Some(Some(path)) => (path.clone(), true),
            None => (default_socket(), false),
        };
        match Acknowledger::register(&path, socket) {
            Ok(registered) => Ok(registered),
            Err(error) if error.is_other_version() => {
                error.report_once();
                Ok(Acknowledger::USERSPACE)
            }
            Err(error) if !required && error.allows_userspace() => {
                tracing::info!(
                    reason = %error,
                    "receiving without a daemon: acknowledging in userspace until one is there"
                );
                // Without the thread, this receiver stays in userspace.
                let later = Acknowledger::register_later(path, socket);
                Ok(later.unwrap_or(Acknowledger::USERSPACE))
            }
            Err(error) => Err(error.into()),
        }
    }
}
