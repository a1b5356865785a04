//! The options of a job, and its beginning: a socket, a datapath, a thread.

use super::{
    Job, Stream,
    group::Group,
    mailbox::{Limits, Mailbox},
    open::{self, Choice, Opened},
    windows::Windows,
    worker::{Buffers, Worker},
};
use crate::{
    datapath::{Datapath, Together, UserspaceSettings},
    error::Error,
    report::Timeline,
    udp::{Trouble, UdpSocket, now_ns},
};
use atp_common::{
    laws::{Rules, rtt::Rtt},
    units::Rate,
    wire::HEADER_LEN,
};
use atp_proto::{CompleteAt, GroupConfig, MESSAGES_MAX, Sender, SenderConfig};
use std::{net::SocketAddr, path::PathBuf, sync::Arc, thread, time::Duration};

/// Rmax without a daemon unless told otherwise: 1 Gbit/s, what nearly every port can do. The law
/// starts there, and comes down from it within some epochs where the path is slower.
const RATE_MAX_BYTES_PER_S: u64 = 125_000_000;
/// With less a packet takes longer than a second.
const RATE_MAX_BYTES_PER_S_MIN: u64 = 1_000;

/// Message bytes of a packet: with every header they fit an MTU of 1,500.
const PAYLOAD_BYTES: u32 = 1_400;

/// What every host must take (RFC 791); on anything narrower the headers would be most of a packet.
pub(super) const PATH_MTU_BYTES_MIN: usize = 576;

const MESSAGES_HELD_MAX: u32 = 65_536;

/// Options of a [`Job`].
#[derive(Clone, Debug)]
pub struct JobBuilder {
    id: Option<u32>,
    messages: Option<u32>,
    msr: Option<f64>,
    groups: Vec<Group>,
    choice: Choice,
    rate_max_bytes_per_s: u64,
    peer_timeout: Duration,
    timer_granularity: Duration,
    buffer_bytes: u64,
    payload_bytes: u32,
    message_bytes_max: u32,
    mrdf: bool,
    complete_at: CompleteAt,
    deadline: Option<Duration>,
    rules: Rules,
}

impl Default for JobBuilder {
    fn default() -> Self {
        Self {
            id: None,
            messages: None,
            msr: None,
            groups: Vec::new(),
            choice: Choice::Auto,
            rate_max_bytes_per_s: RATE_MAX_BYTES_PER_S,
            peer_timeout: Duration::from_secs(10),
            timer_granularity: Duration::from_nanos(Rtt::TIMER_GRANULARITY_NS),
            buffer_bytes: 4 << 20,
            payload_bytes: PAYLOAD_BYTES,
            message_bytes_max: 64 << 20,
            mrdf: true,
            complete_at: CompleteAt::Msr,
            deadline: None,
            rules: Rules::default(),
        }
    }
}

impl JobBuilder {
    /// The job's id. Without it the daemon decides (the job of the process's cgroup, or a new one);
    /// without a daemon it is drawn at random.
    pub fn id(mut self, id: u32) -> Self {
        self.id = Some(id);
        self
    }

    /// N of group 0: how many messages this sender is going to send, in each window if the job is a
    /// stream. With it the target loss rate is right
    /// from the first packet, and the job can end before all were sent. [`Job::finish`] called
    /// earlier makes N what was sent by then. At most 2^24 - 1, with or without an announcement, in all
    /// groups together: what goes on for longer is a stream of windows.
    pub fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    /// The minimal sampling rate of group 0, the one of messages without another: which share of them
    /// must arrive, 0 to 1. At 1, the default, the group is exact: see [`Group::msr`].
    pub fn msr(mut self, msr: f64) -> Self {
        self.msr = Some(msr);
        self
    }

    /// Adds groups. Group 0 needs none of this, unless the job has others only: then it is one of
    /// them or isn't there, but for what [`JobBuilder::msr`] and [`JobBuilder::messages`] say of it.
    pub fn groups(mut self, groups: impl IntoIterator<Item = Group>) -> Self {
        self.groups.extend(groups);
        self
    }

    /// Every message is tried once before the job is complete. Default off: it is complete as soon as
    /// every group has what it needs.
    pub fn try_every_message(mut self, on: bool) -> Self {
        self.complete_at = if on { CompleteAt::EveryMessageTried } else { CompleteAt::Msr };
        self
    }

    /// For a stream: how long a window may take from its first message. One that can't reach its
    /// sampling rate by then ends with what has arrived, or, if it wasn't said how many messages it has,
    /// as soon as [`Stream::end_window`](super::Stream::end_window) says that it has no more. Default:
    /// as long as it takes.
    pub fn window_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The daemon's socket; `None` does without a daemon. Default: the daemon at
    /// [`default_socket`](crate::control::default_socket), if there is one that takes the job.
    pub fn control_socket(mut self, path: Option<PathBuf>) -> Self {
        self.choice = path.map_or(Choice::Userspace, Choice::Daemon);
        self
    }

    /// Without a daemon: the rate of the host's port, up to which the law may go. Default
    /// 125,000,000 (1 Gbit/s).
    pub fn rate_max_bytes_per_s(mut self, rate: u64) -> Self {
        self.rate_max_bytes_per_s = rate;
        self
    }

    /// Give up after so long without a word from the receiver. Default 10 s.
    pub fn peer_timeout(mut self, timeout: Duration) -> Self {
        self.peer_timeout = timeout;
        self
    }

    /// How late threads and timers of the two hosts usually are, at most, 1 us to 25 ms. Default 1 ms. What is silent
    /// for five times as long counts as lost, before the first acknowledgement for twenty to forty times: where both
    /// ends poll without sleep, as little as 50 us makes incasts of first packets end sooner, and where virtual
    /// machines are held up for longer, more saves packets that go twice. A copy that is under way when the receiver's
    /// process is replaced can reach its successor, which can't know it: the less this is, the more copies there are.
    /// It is about this job's losses; the datapath's own clocks (questions, epochs) stay as they are.
    pub fn timer_granularity(mut self, timer_granularity: Duration) -> Self {
        self.timer_granularity = timer_granularity;
        self
    }

    /// How many bytes of messages may be on their way before [`Job::send`] waits. Default 4 MiB.
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Message bytes in one packet; less where the path's MTU is too small. Default 1,400.
    pub fn payload_bytes(mut self, bytes: u32) -> Self {
        self.payload_bytes = bytes;
        self
    }

    /// The longest message. Default 64 MiB.
    pub fn message_bytes_max(mut self, bytes: u32) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Minimal remaining data first (NetApprox §4.3). Default on; off sends messages in order.
    pub fn mrdf(mut self, on: bool) -> Self {
        self.mrdf = on;
        self
    }

    /// Without a daemon: the rate law and its rules. With one, the host decides.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Opens the job to the receiver at `peer`. Nothing is sent yet.
    ///
    /// # Errors
    /// Options that make no sense; no daemon at the socket that was named; the daemon's refusal.
    pub fn connect(self, peer: SocketAddr) -> Result<Job, Error> {
        self.open(peer, false, None)
    }

    /// The same for a stream: a job of windows, each with messages and an end of its own.
    ///
    /// # Errors
    /// As [`JobBuilder::connect`].
    pub fn stream(self, peer: SocketAddr) -> Result<Stream, Error> {
        self.open(peer, true, None).map(Stream::new)
    }

    fn group_configs(&self) -> Result<Vec<GroupConfig>, Error> {
        let mut groups = self.groups.clone();
        if groups.is_empty() || self.msr.is_some() || self.messages.is_some() {
            let group = Group::new(0).msr(self.msr.unwrap_or(1.0));
            groups.push(self.messages.map_or(group, |messages| group.messages(messages)));
        }
        let configs: Vec<_> = groups.into_iter().map(Group::config).collect::<Result<_, _>>()?;
        let is_empty = |group: &GroupConfig| group.total == Some(0);
        if configs.len() == 1 && configs.iter().all(is_empty) {
            return Err(Error::NoMessages);
        }
        Ok(configs)
    }

    pub(super) fn open(
        self,
        peer: SocketAddr,
        windows: bool,
        together: Option<&Arc<Together>>,
    ) -> Result<Job, Error> {
        let groups = self.group_configs()?;
        if peer.port() == 0 || peer.ip().is_multicast() {
            return Err(Error::Peer(peer));
        }
        if self.rate_max_bytes_per_s < RATE_MAX_BYTES_PER_S_MIN {
            return Err(Error::RateMax(self.rate_max_bytes_per_s));
        }
        let socket = open::socket(peer)?;
        let payload_bytes = self.fitting_payload(&socket, peer)?;
        let userspace = UserspaceSettings {
            rate_max: Rate::from_bytes_per_s(self.rate_max_bytes_per_s),
            rules: self.rules,
            payload_bytes: payload_bytes + HEADER_LEN as u32,
            overhead_bytes: socket.overhead_bytes() as u32,
        };
        let request = open::Request { id: self.id, groups: &groups, peer, together };
        let opened = self.choice.open(&request, socket, &userspace)?;
        let config = SenderConfig { windows, ..self.transport(&opened, groups, payload_bytes) };
        self.start(peer, opened.socket, userspace, opened.datapath, config)
    }

    fn fitting_payload(&self, socket: &UdpSocket, peer: SocketAddr) -> Result<u32, Error> {
        let Some(mtu_bytes) = socket.path_mtu_bytes() else { return Ok(self.payload_bytes) };
        if mtu_bytes < PATH_MTU_BYTES_MIN {
            return Err(Error::PathTooNarrow { peer, mtu_bytes });
        }
        let room = mtu_bytes - socket.overhead_bytes() - HEADER_LEN;
        Ok(self.payload_bytes.min(room.min(LARGEST_PAYLOAD_BYTES) as u32))
    }

    fn transport(
        &self,
        opened: &Opened,
        groups: Vec<GroupConfig>,
        payload_bytes: u32,
    ) -> SenderConfig {
        let first = groups[0];
        SenderConfig {
            groups,
            complete_at: self.complete_at,
            payload_bytes_max: payload_bytes,
            message_bytes_max: self.message_bytes_max,
            // The mailbox holds senders back; the transport takes whatever got through, which may
            // be one message that is longer than the buffer.
            buffer_bytes_max: self.buffer_bytes.saturating_add(self.message_bytes_max.into()),
            buffer_messages_max: MESSAGES_HELD_MAX,
            ack_ring_words: opened.ack_ring_words,
            mrdf: self.mrdf,
            timer_granularity_ns: self.timer_granularity.as_nanos().try_into().unwrap_or(u64::MAX),
            peer_timeout_ns: self.peer_timeout.as_nanos().try_into().unwrap_or(u64::MAX / 2),
            ..SenderConfig::new(opened.job, opened.cookie, first)
        }
    }

    fn start(
        self,
        peer: SocketAddr,
        socket: UdpSocket,
        fallback: UserspaceSettings,
        datapath: Datapath,
        config: SenderConfig,
    ) -> Result<Job, Error> {
        let id = config.job;
        let now_ns = now_ns();
        let sender = Sender::new(config)?;
        let limits = Limits { buffer_bytes: self.buffer_bytes, buffer_messages: MESSAGES_HELD_MAX };
        let groups = &sender.config().groups;
        let most = groups.iter().map(|group| (group.group, group.total.unwrap_or(MESSAGES_MAX)));
        let mailbox = Arc::new(Mailbox::new(limits, most).map_err(Error::Thread)?);
        let (name, pacing) = (datapath.name(), datapath.pacing().to_owned());
        let worker = Worker {
            socket,
            peer,
            sender,
            datapath,
            fallback,
            mailbox: mailbox.clone(),
            timeline: Timeline::new(now_ns),
            buffers: Buffers::new(),
            trouble: Trouble::default(),
            started_ns: None,
            released: Default::default(),
            finishing: false,
            windows: Windows::new(self.deadline),
            refused_here: None,
            look_ns: 0,
        };
        let thread = thread::Builder::new().name("atp-sender".into());
        let thread = thread.spawn(|| worker.run()).map_err(Error::Thread)?;
        Ok(Job {
            id,
            peer,
            datapath: name,
            pacing,
            message_bytes_max: self.message_bytes_max as usize,
            mailbox,
            spares: Default::default(),
            thread: Some(thread),
        })
    }
}

/// What a receiver of ours has room for in one packet.
const LARGEST_PAYLOAD_BYTES: usize = 8_900;
