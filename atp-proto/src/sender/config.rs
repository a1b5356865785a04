//! The configuration of a sender, and the pace that its host reports while it runs.

use atp_common::{
    laws::rtt::Rtt,
    maps::ACK_RING_WORDS,
    units::Msr,
    wire::{COUNT_MAX, GroupName, Order, RECEIPT_MESSAGE_MAX},
};
use thiserror::Error;

/// One group of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The group's id.
    pub group: u8,
    /// The minimal sampling rate (MSR). A group that begins at 1 is exact: its messages are
    /// delivered in order, and travel as traffic that is not approximate.
    pub msr: Msr,
    /// N, the number of messages, if it is known from the start. The target loss rate is then right
    /// from the first packet. The job can end as soon as `ceil(MSR * N)` messages are delivered,
    /// even before all are queued. Without it, N is the number of messages queued when
    /// [`Sender::finish`](super::Sender::finish) is called.
    pub total: Option<u32>,
    /// Without a total: N of earlier windows. The target loss rate uses it until more messages are
    /// queued, or no more come.
    pub expected: u32,
    /// The order of the messages, which TERMS tell the receiver.
    pub order: Order,
    /// A name for people, which TERMS tell the receiver. It may be empty.
    pub name: GroupName,
}

impl GroupConfig {
    /// A group whose N isn't known yet.
    pub const fn new(group: u8, msr: Msr) -> Self {
        let (order, name) = (Order::Unknown, GroupName::EMPTY);
        Self { group, msr, total: None, expected: 0, order, name }
    }
}

/// When a job is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompleteAt {
    /// As soon as every group has `ceil(MSR * N)` messages delivered. In a group that needs nothing
    /// (MSR 0), every message is still tried.
    #[default]
    Msr,
    /// The same, but not before every message was tried in full.
    EveryMessageTried,
}

/// The least timer granularity. With less, first timeouts would be shorter than any round trip.
const TIMER_GRANULARITY_NS_MIN: u64 = 1_000;
/// The greatest timer granularity. With more, first timeouts would be longer than the longest later
/// one, which is a second.
const TIMER_GRANULARITY_NS_MAX: u64 = 25_000_000;

/// The default limit of a job's messages. Sender and receiver need the same limit.
pub const MESSAGES_MAX: u32 = 1 << 24;

/// The configuration of a [`Sender`](super::Sender). Start from [`SenderConfig::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// The job's id.
    pub job: u32,
    /// The job's secret. Packets of the peer that don't echo it are ignored.
    pub cookie: u32,
    /// Message bytes of one packet (without the 32-byte header). Default 1,400.
    pub payload_bytes_max: u32,
    /// The longest message. Default 64 MiB.
    pub message_bytes_max: u32,
    /// Bytes of messages that are queued and not released. Default 64 MiB.
    pub buffer_bytes_max: u64,
    /// Messages that are queued and not released. Default 65,536.
    pub buffer_messages_max: u32,
    /// Messages of the job (of each window, if it has several), all groups together. Default
    /// [`MESSAGES_MAX`].
    pub messages_max: u32,
    /// Words of the flow's acknowledgment ring, a power of two from 4 on. Half of its slots can be
    /// in flight. Default [`ACK_RING_WORDS`].
    pub ack_ring_words: u32,
    /// Minimal remaining data first (NetApprox §4.3). If off, messages are sent in order. Default
    /// on.
    pub mrdf: bool,
    /// MRDF compares one-packet messages that were never sent by bytes, in classes of 64, and other
    /// messages by their packets' bytes. Jobs of short messages complete faster, but what is left
    /// out are the longest messages: a biased sample. Default off.
    pub rank_by_bytes: bool,
    /// Packs several whole messages of one group into a packet, if the receiver takes such packets.
    /// Default on.
    pub packing: bool,
    /// When the job is complete.
    pub complete_at: CompleteAt,
    /// Other windows may follow the first one: see
    /// [`Sender::begin_window`](super::Sender::begin_window). Default off.
    pub windows: bool,
    /// The next window may begin while the end of the last one is confirmed, if the
    /// receiver can follow. At most two windows are open. Default off.
    pub overlap: bool,
    /// Tells the receiver N, MSR and name of each group, and takes its requests. Default off: the
    /// packets are few, but a simulated network without applications needs none.
    pub announce_terms: bool,
    /// What the receiver may change, if terms are announced.
    pub requests: RequestPolicy,
    /// Waits at the end of a job or window until receipts have named every delivered message:
    /// [`Sender::lost_ids`](super::Sender::lost_ids). Without losses of receipts that takes no
    /// longer. Default off.
    pub names_lost: bool,
    /// The most packets in flight until the peer or its host answered, and one packet more after
    /// each timer granularity of silence. Until the first advice the limit is this or
    /// [`Sender::set_awaiting_packets`](super::Sender::set_awaiting_packets), the larger one.
    /// Timeouts double once at most until the peer answered. 0 for no limit, and timeouts that
    /// double each time. Default 0.
    pub initial_window_packets: u32,
    /// The timer granularity (RFC 6298's G): how late the timers and threads of the two hosts
    /// usually are, at most. A packet counts as lost if several later packets were acknowledged,
    /// and in two cases that depend on this value:
    ///
    /// - A packet that left this much later, and at least a quarter of the RTT later, was
    ///   acknowledged.
    /// - Nothing was acknowledged for at least five times as long, or at least twenty times as long
    ///   before the first acknowledgment.
    ///
    /// Default 1 ms, [`Rtt::TIMER_GRANULARITY_NS`].
    pub timer_granularity_ns: u64,
    /// Fail the job after this long without a packet of the peer or its host, or if the receiver
    /// has no room for so long. Default 10 s.
    pub peer_timeout_ns: u64,
    /// The same, if the peer's host said meanwhile that nothing listens on the port. The shorter
    /// one of both holds. Default: no limit of its own.
    pub refused_timeout_ns: u64,
    /// Fail the job after this long without a receipt, while the peer's host acknowledges packets:
    /// its application doesn't read. Default 60 s.
    pub receipt_timeout_ns: u64,
    /// The groups, each id once; 1 to 256.
    pub groups: Vec<GroupConfig>,
}

/// The longest payload: a receiver has room for it in one packet.
pub const PAYLOAD_BYTES_MAX: u32 = 8_900;

/// What the receiver may change. Default [`RequestPolicy::OBEY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// The lowest and the highest sampling rate that the receiver may set. Requests beyond them set
    /// the nearer one. `None`: it may set none.
    pub msr: Option<(Msr, Msr)>,
    /// It may end the job.
    pub may_end: bool,
}

impl RequestPolicy {
    /// The receiver may change everything.
    pub const OBEY: Self = Self { msr: Some((Msr::NONE, Msr::EXACT)), may_end: true };
    /// It may change nothing.
    pub const REFUSE: Self = Self { msr: None, may_end: false };
}

impl SenderConfig {
    /// The defaults, for a job of one group.
    pub fn new(job: u32, cookie: u32, group: GroupConfig) -> Self {
        Self {
            job,
            cookie,
            payload_bytes_max: 1_400,
            message_bytes_max: 64 << 20,
            buffer_bytes_max: 64 << 20,
            buffer_messages_max: 65_536,
            messages_max: MESSAGES_MAX,
            ack_ring_words: ACK_RING_WORDS,
            mrdf: true,
            rank_by_bytes: false,
            packing: true,
            complete_at: CompleteAt::Msr,
            windows: false,
            overlap: false,
            announce_terms: false,
            requests: RequestPolicy::OBEY,
            names_lost: false,
            initial_window_packets: 0,
            timer_granularity_ns: Rtt::TIMER_GRANULARITY_NS,
            peer_timeout_ns: 10_000_000_000,
            refused_timeout_ns: u64::MAX,
            receipt_timeout_ns: 60_000_000_000,
            groups: vec![group],
        }
    }

    /// The most transmissions in flight: half of the ring's slots. A word of the ring then never
    /// has transmissions in flight from two laps.
    pub const fn window_packets(&self) -> u32 {
        self.ack_ring_words * (atp_common::maps::ack_ring::SLOTS_PER_WORD / 2)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=PAYLOAD_BYTES_MAX).contains(&self.payload_bytes_max) {
            return Err(ConfigError::Payload(self.payload_bytes_max));
        }
        if self.message_bytes_max.div_ceil(self.payload_bytes_max) > COUNT_MAX {
            return Err(ConfigError::Message(self.message_bytes_max));
        }
        // In fewer words a FIN's slot could share the position of a transmission in flight.
        if !self.ack_ring_words.is_power_of_two() || !(4..=1 << 24).contains(&self.ack_ring_words) {
            return Err(ConfigError::Ring(self.ack_ring_words));
        }
        if self.buffer_messages_max == 0 || self.buffer_bytes_max == 0 || self.messages_max == 0 {
            return Err(ConfigError::Buffer);
        }
        if !(TIMER_GRANULARITY_NS_MIN..=TIMER_GRANULARITY_NS_MAX)
            .contains(&self.timer_granularity_ns)
        {
            return Err(ConfigError::TimerGranularity(self.timer_granularity_ns));
        }
        if self.messages_max > RECEIPT_MESSAGE_MAX {
            return Err(ConfigError::Messages(self.messages_max));
        }
        let groups = &self.groups;
        let repeated = (1..groups.len())
            .any(|i| groups[..i].iter().any(|earlier| earlier.group == groups[i].group));
        if groups.is_empty() || repeated {
            return Err(ConfigError::Groups);
        }
        let totals: u64 = groups.iter().map(|group| u64::from(group.total.unwrap_or(0))).sum();
        if totals > u64::from(self.messages_max) {
            return Err(ConfigError::Total { total: totals, messages_max: self.messages_max });
        }
        Ok(())
    }
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Bytes per packet out of bounds.
    #[error("invalid payload_bytes of {0}: choose 1 to {PAYLOAD_BYTES_MAX} per packet")]
    Payload(u32),
    /// A message of more packets than the header can count.
    #[error(
        "messages of {0} bytes have too many packets: choose a larger payload_bytes, or a smaller \
         message_bytes_max"
    )]
    Message(u32),
    /// A job that ends with its first window was asked to end a window.
    #[error(
        "every group announces its messages, so the job ends with its first window: set the option \
         windows to end several"
    )]
    OneWindow,
    /// The ring's size.
    #[error("invalid acknowledgment ring of {0} words: choose a power of two from 4 to 2^24")]
    Ring(u32),
    /// Nothing could ever be queued.
    #[error("the send buffer holds no message or no byte: choose limits of at least 1")]
    Buffer,
    /// The timer granularity is out of bounds.
    #[error(
        "invalid timer granularity of {0} ns: choose {TIMER_GRANULARITY_NS_MIN} to {TIMER_GRANULARITY_NS_MAX}"
    )]
    TimerGranularity(u64),
    /// More messages than a receipt could name.
    #[error("invalid limit of {0} messages per job: choose at most {RECEIPT_MESSAGE_MAX}")]
    Messages(u32),
    /// No group, or one id twice.
    #[error("invalid groups: configure 1 to 256 groups, each id once")]
    Groups,
    /// N is above the limit.
    #[error("the groups announce {total} messages: at most {messages_max} are allowed")]
    Total {
        /// N of all groups together.
        total: u64,
        /// The limit.
        messages_max: u32,
    },
}

/// The round-trip time, the backlog and the window of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Round-trip times, measured from the lane's acknowledgments.
    pub rtt: Rtt,
    /// The estimated time that a packet waits in this host if it is handed to the socket now,
    /// nanoseconds.
    pub backlog_ns: u64,
    /// The most packets in flight of the lane; 0: no limit.
    pub window_packets: u32,
    /// How long after its departure a packet without an ACK takes no room in the window any more,
    /// nanoseconds.
    pub overdue_ns: u64,
}
