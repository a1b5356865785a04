//! The options of a job, and opening it: a socket, a datapath, the sender thread.

use super::{
    Job, Stream,
    group::Group,
    known_path,
    open::{self, DatapathChoice, OpenedFlow},
    requests::Requests,
    shared::{Limits, Shared},
    thread::{SenderThread, Setup},
};
use crate::{
    datapath::JobProgress,
    error::Error,
    job_id::JobId,
    order::Order,
    peer::{ToAddresses, first_reachable, resolve},
    udp::{PATH_MTU_BYTES_MIN, UdpSocket},
};
use atp_common::{
    laws::{Rules, rtt::Rtt},
    units::Rate,
    wire::HEADER_LEN,
};
use atp_proto::{
    CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, PAYLOAD_BYTES_MAX, Sender, SenderConfig,
    flow::LaneSettings,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// The default of Rmax without a daemon: 1 Gbit/s, which nearly every port reaches. The rate law
/// starts there, and reaches the rate of a slower path within some epochs.
const RATE_MAX_BYTES_PER_S: u64 = 125_000_000;
/// The least Rmax. At lower rates a packet would take longer than a second.
const RATE_MAX_BYTES_PER_S_MIN: u64 = 1_000;

/// Message bytes of a packet if the path's MTU is unknown: with all headers they fit 1,500.
const PAYLOAD_BYTES: u32 = 1_400;
/// About one bandwidth-delay product of a fast network.
const INITIAL_WINDOW_PACKETS: u32 = 16;

const MESSAGES_HELD_MAX: u32 = 65_536;

/// Options of a [`Job`].
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// use std::time::Duration;
/// let job = approxlib::Job::builder()
///     .messages(10_000)
///     .msr(0.9)
///     .peer_timeout(Duration::from_secs(3))
///     .connect("10.0.0.9:4747")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct JobBuilder {
    id: Option<u32>,
    messages: Option<u32>,
    msr: Option<f64>,
    order: Option<Order>,
    groups: Vec<Group>,
    choice: DatapathChoice,
    rate_max_bytes_per_s: u64,
    peer_timeout: Duration,
    refused_timeout: Option<Duration>,
    timer_granularity: Duration,
    buffer_bytes: u64,
    payload_bytes: Option<u32>,
    message_bytes_max: u32,
    mrdf: bool,
    rank_by_bytes: bool,
    packing: bool,
    name_lost: bool,
    overlap_windows: bool,
    initial_window_packets: u32,
    complete_at: CompleteAt,
    deadline: Option<Duration>,
    requests: Requests,
    rules: Option<Rules>,
}

impl Default for JobBuilder {
    fn default() -> Self {
        Self {
            id: None,
            messages: None,
            msr: None,
            order: None,
            groups: Vec::new(),
            choice: DatapathChoice::Auto,
            rate_max_bytes_per_s: RATE_MAX_BYTES_PER_S,
            peer_timeout: Duration::from_secs(10),
            refused_timeout: None,
            timer_granularity: Duration::from_nanos(Rtt::TIMER_GRANULARITY_NS),
            buffer_bytes: 4 << 20,
            payload_bytes: None,
            message_bytes_max: 64 << 20,
            mrdf: true,
            rank_by_bytes: false,
            packing: true,
            name_lost: false,
            overlap_windows: false,
            initial_window_packets: INITIAL_WINDOW_PACKETS,
            complete_at: CompleteAt::Msr,
            deadline: None,
            requests: Requests::default(),
            rules: None,
        }
    }
}

impl JobBuilder {
    /// The requests of the receiver that the job obeys. Default [`Requests::Obey`].
    pub fn requests(mut self, requests: Requests) -> Self {
        self.requests = requests;
        self
    }

    /// The job's id. Default: the daemon chooses the job of the process's cgroup, or a new one.
    /// Without a daemon the default is a random id.
    pub fn id(mut self, id: impl Into<JobId>) -> Self {
        self.id = Some(id.into().number());
        self
    }

    /// Announces N, the number of messages of group 0 from this sender. For a stream: in each
    /// window.
    ///
    /// An announced N makes the target loss rate right from the first packet, and lets the job
    /// complete before all messages were sent. If [`Job::finish`] is called after fewer messages, N
    /// is the number of messages sent.
    ///
    /// A job has at most 2^24 - 1 messages in all groups together, announced or not. Longer jobs
    /// are streams: see [`JobBuilder::stream`].
    pub fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    /// The minimal sampling rate (MSR) of group 0, the group of [`Job::send`]: the share of its
    /// messages that must arrive, 0 to 1. At 1, the default, the group is exact: see
    /// [`Group::msr`].
    pub fn msr(mut self, msr: f64) -> Self {
        self.msr = Some(msr);
        self
    }

    /// The order of the messages of group 0, for the receiver: see [`Group::order`]. Default
    /// [`Order::Unknown`].
    pub fn order(mut self, order: Order) -> Self {
        self.order = Some(order);
        self
    }

    /// Adds groups. A job without this call has group 0 only.
    ///
    /// With this call, the job has group 0 if it is among `groups`, or if [`JobBuilder::msr`],
    /// [`JobBuilder::messages`] or [`JobBuilder::order`] set it.
    pub fn groups(mut self, groups: impl IntoIterator<Item = Group>) -> Self {
        self.groups.extend(groups);
        self
    }

    /// Sends every message at least once before the job is complete. Default off: the job is
    /// complete as soon as every group has `ceil(MSR * N)` messages.
    pub fn try_every_message(mut self, on: bool) -> Self {
        self.complete_at = if on { CompleteAt::EveryMessageTried } else { CompleteAt::Msr };
        self
    }

    /// For a stream only: how long a window may take from its first message. Default: no limit.
    ///
    /// A window that misses its deadline ends with the messages delivered by then, if its N was
    /// announced. Otherwise N is unknown until [`Stream::end_window`](super::Stream::end_window),
    /// and the window ends at that call.
    pub fn window_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The control socket of the daemon to use; `None` uses no daemon. Default: the daemon at
    /// [`default_socket`](crate::control::default_socket) if it takes the job, else none.
    pub fn control_socket(mut self, path: Option<PathBuf>) -> Self {
        self.choice = path.map_or(DatapathChoice::Userspace, DatapathChoice::Daemon);
        self
    }

    /// Without a daemon: the rate of the host's port (Rmax), the most that the rate law may choose.
    /// At least 1,000. Default 125,000,000 (1 Gbit/s).
    pub fn rate_max_bytes_per_s(mut self, rate: u64) -> Self {
        self.rate_max_bytes_per_s = rate;
        self
    }

    /// How long the receiver may be silent before the job fails. Default 10 s.
    pub fn peer_timeout(mut self, timeout: Duration) -> Self {
        self.peer_timeout = timeout;
        self
    }

    /// The same, if the receiver's host says that nothing listens on the port (ICMP port
    /// unreachable). For a receiver that is known to have been there: it may have ended. One that
    /// opens its port later needs this long. Default: the peer timeout, which is its maximum.
    pub fn refused_timeout(mut self, timeout: Duration) -> Self {
        self.refused_timeout = Some(timeout);
        self
    }

    /// Assumed timer granularity of the sending and receiving hosts (RFC 6298's G), 1 us to 25 ms.
    /// Default 1 ms.
    ///
    /// A packet without an acknowledgment counts as lost after at least five times this long.
    /// Before the first acknowledgment of the job it is twenty to forty times.
    ///
    /// | hosts | value | effect |
    /// |---|---|---|
    /// | both ends poll without sleeping | down to 50 us | incasts of first packets end sooner |
    /// | virtual machines, often descheduled | more than 1 ms | fewer needless retransmissions |
    ///
    /// A smaller value sends more duplicates. If the receiving process is replaced while a
    /// duplicate is in flight, its successor takes the duplicate for a new message.
    ///
    /// The value decides when this job's packets count as lost. The datapath's clocks (probes,
    /// epochs) don't depend on it.
    pub fn timer_granularity(mut self, timer_granularity: Duration) -> Self {
        self.timer_granularity = timer_granularity;
        self
    }

    /// Bytes of messages that the job holds before [`Job::send`] blocks. Default 4 MiB.
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Message bytes in one packet, 1 to 8,900; fewer if the path's MTU requires it. Default: as
    /// many as the path's MTU allows: with an MTU of 1,500, 1,440 over IPv4 and 1,420 over IPv6.
    pub fn payload_bytes(mut self, bytes: u32) -> Self {
        self.payload_bytes = Some(bytes);
        self
    }

    /// The longest message, bytes. Default 64 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Whether to send the message with the minimal remaining data first (MRDF, NetApprox §4.3).
    /// Default on; off sends messages in order.
    pub fn mrdf(mut self, on: bool) -> Self {
        self.mrdf = on;
        self
    }

    /// Whether MRDF compares messages by bytes, in classes of 64, instead of by packets. Default
    /// off. A job whose messages differ in length completes sooner, but it leaves out the longest
    /// messages: the delivered ones are no fair sample.
    pub fn rank_by_bytes(mut self, on: bool) -> Self {
        self.rank_by_bytes = on;
        self
    }

    /// Whether several short messages of a group may share a packet. Default on. A message never
    /// waits for others, and a receiver that doesn't know packed packets gets single ones.
    pub fn packing(mut self, on: bool) -> Self {
        self.packing = on;
        self
    }

    /// For a stream only: whether the next window may begin while the last one ends: see
    /// [`Stream::next_window`](crate::Stream::next_window). At most two windows are open. Default
    /// off. If the receiver is of a version that can't follow, windows don't overlap.
    pub fn overlap_windows(mut self, on: bool) -> Self {
        self.overlap_windows = on;
        self
    }

    /// Whether the reports of the job and its windows name the lost messages:
    /// [`GroupReport::lost_ids`](crate::GroupReport::lost_ids). Error feedback needs them. Default
    /// off. The end waits until receipts have named all delivered messages; if receipts were lost,
    /// that takes another round trip or more.
    ///
    /// A loss is certain once the end of its job or window is confirmed: until then the job may
    /// send the message again. The receiver always learns the ids, in
    /// [`GroupSummary::lost`](crate::GroupSummary::lost).
    pub fn name_lost(mut self, on: bool) -> Self {
        self.name_lost = on;
        self
    }

    /// The most packets in flight until the receiver or its host was heard: 16 are about one
    /// bandwidth-delay product of a fast network. If the daemon knows the RTT of an earlier job to
    /// the host, it is one and a half of them at most. For up to 25 ms more, until the first
    /// advice, the limit is this or what the line sends in a millisecond, the larger one. 0 is no
    /// limit. Default 16.
    pub fn initial_window_packets(mut self, packets: u32) -> Self {
        self.initial_window_packets = packets;
        self
    }

    /// Without a daemon: the rate law and its rules. With a daemon, the daemon's options decide.
    /// Default: the law `yield`, for networks with one queue for all traffic. On a network with the
    /// queues of the profile `default`, `RateLaw::Paper` is faster: it is the default once a daemon
    /// that was told of such queues is gone.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = Some(rules);
        self
    }

    /// Opens the job to the receiver at `peer`, an address or a host name with a port. Sends
    /// nothing yet.
    ///
    /// If a name has several addresses, the job takes the first that this host can reach. It can't
    /// tell whether a receiver listens there. The call blocks while a name is resolved.
    ///
    /// # Errors
    /// - [`Error::Name`]: the name can't be resolved.
    /// - [`Error::Msr`], [`Error::NoMessages`], [`Error::Options`], [`Error::RateMax`]: an option
    ///   is invalid.
    /// - [`Error::Peer`], [`Error::PathTooNarrow`], [`Error::Socket`]: the peer can't be reached
    ///   from this host.
    /// - [`Error::Daemon`]: no daemon answers at the socket that was named, or the daemon refused.
    pub fn connect(self, peer: impl ToAddresses) -> Result<Job, Error> {
        self.open_first(&resolve(&peer)?, false, None)
    }

    /// Opens a stream to the receiver at `peer`: a job of windows, each with its own messages and
    /// its own end. Sends nothing yet.
    ///
    /// # Errors
    /// As [`JobBuilder::connect`].
    pub fn stream(self, peer: impl ToAddresses) -> Result<Stream, Error> {
        let overlaps = self.overlap_windows;
        let job = self.open_first(&resolve(&peer)?, true, None)?;
        Ok(Stream::new(job, overlaps))
    }

    pub(super) fn open_first(
        &self,
        peers: &[SocketAddr],
        windows: bool,
        job_progress: Option<&Arc<JobProgress>>,
    ) -> Result<Job, Error> {
        first_reachable(peers, |peer| self.clone().open(peer, windows, job_progress))
    }

    fn group_configs(&self) -> Result<Vec<GroupConfig>, Error> {
        let mut groups = self.groups.clone();
        let has_own = self.msr.is_some() || self.messages.is_some() || self.order.is_some();
        if groups.is_empty() || has_own {
            let group = Group::new(0).msr(self.msr.unwrap_or(1.0));
            let group = group.order(self.order.unwrap_or_default());
            groups.push(self.messages.map_or(group, |messages| group.messages(messages)));
        }
        let configs: Vec<_> = groups.into_iter().map(Group::config).collect::<Result<_, _>>()?;
        let is_empty = |group: &GroupConfig| group.total == Some(0);
        if configs.len() == 1 && configs.iter().all(is_empty) {
            return Err(Error::NoMessages);
        }
        Ok(configs)
    }

    fn open(
        self,
        peer: SocketAddr,
        windows: bool,
        job_progress: Option<&Arc<JobProgress>>,
    ) -> Result<Job, Error> {
        let groups = self.group_configs()?;
        let is_broadcast = peer.ip() == Ipv4Addr::BROADCAST;
        if peer.port() == 0 || peer.ip().is_multicast() || is_broadcast {
            return Err(Error::Peer(peer));
        }
        if !windows {
            self.check_no_windows()?;
        }
        if self.rate_max_bytes_per_s < RATE_MAX_BYTES_PER_S_MIN {
            return Err(Error::RateMax(self.rate_max_bytes_per_s));
        }
        let socket = open::socket(peer)?;
        let payload_bytes = self.fitting_payload(&socket, peer)?;
        let userspace = LaneSettings {
            rate_max: Rate::from_bytes_per_s(self.rate_max_bytes_per_s),
            rules: self.rules,
            payload_bytes: payload_bytes + HEADER_LEN as u32,
            overhead_bytes: socket.overhead_bytes() as u32,
            first_window: self.initial_window_packets > 0,
        };
        let request = open::FlowRequest {
            id: self.id,
            groups: &groups,
            peer,
            first_window: userspace.first_window,
            job_progress,
        };
        let opened = self.choice.open(&request, socket, &userspace)?;
        let config = SenderConfig { windows, ..self.transport(&opened, groups, payload_bytes)? };
        self.start(peer, opened, userspace, config)
    }

    /// Checks that a job without windows has no option of streams.
    fn check_no_windows(&self) -> Result<(), ConfigError> {
        match (self.overlap_windows, self.deadline) {
            (true, _) => Err(ConfigError::NoWindows("overlap_windows")),
            (_, Some(_)) => Err(ConfigError::NoWindows("window_deadline")),
            (false, None) => Ok(()),
        }
    }

    fn fitting_payload(&self, socket: &UdpSocket, peer: SocketAddr) -> Result<u32, Error> {
        if let Some(bytes) = self.payload_bytes.filter(|bytes| *bytes > PAYLOAD_BYTES_MAX) {
            return Err(ConfigError::Payload(bytes).into());
        }
        let Some(mtu_bytes) = socket.path_mtu_bytes() else {
            return Ok(self.payload_bytes.unwrap_or(PAYLOAD_BYTES));
        };
        if mtu_bytes < PATH_MTU_BYTES_MIN {
            return Err(Error::PathTooNarrow { peer, mtu_bytes });
        }
        let room = mtu_bytes - socket.overhead_bytes() - HEADER_LEN;
        let room = room.min(PAYLOAD_BYTES_MAX as usize) as u32;
        Ok(self.payload_bytes.map_or(room, |bytes| bytes.min(room)))
    }

    fn transport(
        &self,
        opened: &OpenedFlow,
        groups: Vec<GroupConfig>,
        payload_bytes: u32,
    ) -> Result<SenderConfig, Error> {
        let first = groups[0];
        Ok(SenderConfig {
            groups,
            complete_at: self.complete_at,
            payload_bytes_max: payload_bytes,
            message_bytes_max: self.message_bytes_max,
            // `Shared::put` limits the buffer. The transport takes every message that passed there,
            // which may be one that is longer than the buffer.
            buffer_bytes_max: self.buffer_bytes.saturating_add(self.message_bytes_max.into()),
            buffer_messages_max: MESSAGES_HELD_MAX,
            ack_ring_words: opened.ack_ring_words,
            mrdf: self.mrdf,
            rank_by_bytes: self.rank_by_bytes,
            packing: self.packing,
            initial_window_packets: self.initial_window_packets,
            timer_granularity_ns: self.timer_granularity.as_nanos().try_into().unwrap_or(u64::MAX),
            peer_timeout_ns: nanos(self.peer_timeout),
            refused_timeout_ns: self.refused_timeout.map_or(u64::MAX, nanos),
            announce_terms: true,
            requests: self.requests.policy()?,
            names_lost: self.name_lost,
            overlap: self.overlap_windows,
            ..SenderConfig::new(opened.job, opened.cookie, first)
        })
    }

    fn start(
        self,
        peer: SocketAddr,
        opened: OpenedFlow,
        fallback: LaneSettings,
        config: SenderConfig,
    ) -> Result<Job, Error> {
        let OpenedFlow { datapath, socket, daemon, path, .. } = opened;
        let id = config.job;
        let mut sender = Sender::new(config)?;
        known_path::apply(path, &mut sender, fallback.packet_bytes());
        let limits = Limits { buffer_bytes: self.buffer_bytes, buffer_messages: MESSAGES_HELD_MAX };
        let groups = &sender.config().groups;
        let most = groups.iter().map(|group| (group.group, group.total.unwrap_or(MESSAGES_MAX)));
        let shared = Arc::new(Shared::new(limits, most).map_err(Error::Thread)?);
        let (name, pacing) = (datapath.name(), datapath.pacing().to_owned());
        let setup = Setup {
            socket,
            peer,
            sender,
            datapath,
            fallback,
            daemon,
            shared: shared.clone(),
            window_deadline: self.deadline,
        };
        let thread = SenderThread::start(setup).map_err(Error::Thread)?;
        Ok(Job {
            id,
            peer,
            datapath: name,
            pacing,
            message_bytes_max: self.message_bytes_max as usize,
            shared,
            pool: Default::default(),
            copies: Vec::new(),
            thread: Some(thread),
        })
    }
}

/// A time for the transport, which adds it to others.
fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX / 2)
}
