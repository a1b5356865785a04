//! What a sender is told at its start, and what its host tells it while it runs.

use atp_common::{
    laws::rtt::Rtt,
    maps::ACK_RING_WORDS,
    units::Msr,
    wire::{COUNT_MAX, RECEIPT_MESSAGE_MAX},
};
use thiserror::Error;

/// One group of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// The group's id.
    pub group: u8,
    /// Its minimal sampling rate. A group that begins at 1 is exact: its messages come in order, and
    /// travel as traffic that is not approximate.
    pub msr: Msr,
    /// N, if it is known from the start: then the target loss rate is right from the first packet,
    /// and the job can end as soon as `ceil(MSR * N)` messages are delivered, even before all are
    /// queued. Without it N is what was queued when [`Sender::finish`](super::Sender::finish) is
    /// called.
    pub total: Option<u32>,
    /// Without a total: N as it was in earlier windows. The target loss rate goes by it until more are
    /// queued, or no more come.
    pub expected: u32,
}

impl GroupConfig {
    /// A group whose N isn't known yet.
    pub const fn new(group: u8, msr: Msr) -> Self {
        Self { group, msr, total: None, expected: 0 }
    }
}

/// When a job is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompleteAt {
    /// As soon as every group has `ceil(MSR * N)` messages delivered. A group that needs nothing
    /// (MSR 0) has every message tried all the same.
    #[default]
    Msr,
    /// The same, and not before every message was tried in full.
    EveryMessageTried,
}

/// With less, first timeouts would be shorter than any round trip.
const LATENESS_NS_MIN: u64 = 1_000;
/// Beyond, first timeouts would be longer than any other, which is a second.
const LATENESS_NS_MAX: u64 = 25_000_000;

/// The most messages of a job, unless both its ends are told otherwise.
pub const MESSAGES_MAX: u32 = 1 << 24;

/// The configuration of a [`Sender`](super::Sender). Start from [`SenderConfig::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// The job's id.
    pub job: u32,
    /// The job's secret; whatever doesn't echo it is ignored.
    pub cookie: u32,
    /// Message bytes of one packet (without the 32-byte header). Default 1,400.
    pub payload_bytes_max: u32,
    /// The longest message. Default 64 MiB.
    pub message_bytes_max: u32,
    /// Bytes of messages that are queued and not released. Default 64 MiB.
    pub buffer_bytes_max: u64,
    /// Messages that are queued and not released. Default 65,536.
    pub buffer_messages_max: u32,
    /// Messages of the whole job (of each window, if it has several), all groups together. Default
    /// [`MESSAGES_MAX`].
    pub messages_max: u32,
    /// Words of the flow's acknowledgement ring, a power of two from 4 on; half of its slots can be in
    /// flight. Default [`ACK_RING_WORDS`].
    pub ack_ring_words: u32,
    /// Minimal remaining data first (NetApprox §4.3); else messages go in order. Default on.
    pub mrdf: bool,
    /// When the job is complete.
    pub complete_at: CompleteAt,
    /// The job is a stream of windows: see [`Sender::begin_window`](super::Sender::begin_window).
    /// Default off.
    pub windows: bool,
    /// How late threads and timers of the two hosts usually are, at most: what seems lost for less than
    /// this may just not have been looked at. A packet counts as lost when a later one that left so much
    /// later (and at least a quarter of the RTT later) was acknowledged, or after five times as long without a word (twenty times before the first
    /// acknowledgement). Default 1 ms, [`Rtt::TIMER_GRANULARITY_NS`].
    pub timer_granularity_ns: u64,
    /// Give up after this long without any word from the peer. Default 10 s.
    pub peer_timeout_ns: u64,
    /// Give up after this long without a receipt, while packets are acknowledged by the peer's
    /// host: its application doesn't read. Default 60 s.
    pub receipt_timeout_ns: u64,
    /// The groups, each id once; 1 to 256.
    pub groups: Vec<GroupConfig>,
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
            complete_at: CompleteAt::Msr,
            windows: false,
            timer_granularity_ns: Rtt::TIMER_GRANULARITY_NS,
            peer_timeout_ns: 10_000_000_000,
            receipt_timeout_ns: 60_000_000_000,
            groups: vec![group],
        }
    }

    /// The most transmissions that can be in flight: half of the ring's slots, so that the ring
    /// never stands for two laps of what is in flight.
    pub const fn window_packets(&self) -> u32 {
        self.ack_ring_words * (atp_common::maps::ack_ring::SLOTS_PER_WORD / 2)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.payload_bytes_max == 0 || self.payload_bytes_max > 65_000 {
            return Err(ConfigError::Payload(self.payload_bytes_max));
        }
        if self.message_bytes_max.div_ceil(self.payload_bytes_max) > COUNT_MAX {
            return Err(ConfigError::Message(self.message_bytes_max));
        }
        // In fewer words a FIN's slot could share the place of a transmission in flight.
        if !self.ack_ring_words.is_power_of_two() || !(4..=1 << 24).contains(&self.ack_ring_words) {
            return Err(ConfigError::Ring(self.ack_ring_words));
        }
        if self.buffer_messages_max == 0 || self.buffer_bytes_max == 0 || self.messages_max == 0 {
            return Err(ConfigError::Buffer);
        }
        if !(LATENESS_NS_MIN..=LATENESS_NS_MAX).contains(&self.timer_granularity_ns) {
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

/// Why a configuration makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Bytes per packet out of bounds.
    #[error("{0} message bytes per packet: choose 1 to 65,000")]
    Payload(u32),
    /// A message of more packets than the header can count.
    #[error("messages of {0} bytes have too many packets: choose larger packets")]
    Message(u32),
    /// The ring's size.
    #[error("an acknowledgement ring of {0} words: it must be a power of two from 4 to 2^24")]
    Ring(u32),
    /// Nothing could ever be queued.
    #[error("a buffer for no message or no byte: nothing could ever be sent")]
    Buffer,
    /// Hosts that are late by nothing, or for ever.
    #[error("hosts that are late by {0} ns: choose {LATENESS_NS_MIN} to {LATENESS_NS_MAX}")]
    TimerGranularity(u64),
    /// More messages than a receipt could name.
    #[error("a job of {0} messages: at most {RECEIPT_MESSAGE_MAX} can be told apart")]
    Messages(u32),
    /// No group, or one id twice.
    #[error("a job has 1 to 256 groups, each id once")]
    Groups,
    /// N is above the limit.
    #[error("a job of {total} messages: at most {messages_max} are allowed")]
    Total {
        /// N of all groups together.
        total: u64,
        /// The limit.
        messages_max: u32,
    },
}

/// What the host knows of the flow's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Round-trip times, as the lane's acknowledgements say.
    pub rtt: Rtt,
    /// How long a packet that is handed to the socket now waits in this host before it leaves,
    /// estimated, nanoseconds.
    pub backlog_ns: u64,
}
