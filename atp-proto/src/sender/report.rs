//! Errors, states and counters of a sender.

use atp_common::{
    units::{Msr, Share},
    wire::ResetReason,
};
use std::ops::Range;
use thiserror::Error;

/// A message of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The number of its window, 0 for a job without windows.
    pub window: u32,
    /// The message's group.
    pub group: u8,
    /// Counted from 0 in the order of queueing, in its group and window.
    pub id: u32,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueError {
    /// The buffer is full: drain [`Sender::released`](super::Sender::released) and try again later.
    #[error("the send buffer is full")]
    Full,
    /// Longer than the configuration (or the buffer) allows.
    #[error("the message has {len_bytes} bytes: at most {len_bytes_max} are allowed")]
    TooLarge {
        /// The message's length.
        len_bytes: u32,
        /// The limit.
        len_bytes_max: u32,
    },
    /// More messages than N, or than a job can have.
    #[error("the job already has all of its {0} messages")]
    TooMany(u32),
    /// [`Sender::finish`](super::Sender::finish) was called before.
    #[error("the job was finished: no more messages can be queued")]
    AfterFinish,
    /// The message isn't needed: the job reached its sampling rate before all N messages were
    /// queued. It is ending or has ended. Not a failure.
    #[error("the job is complete: no more messages are needed")]
    Complete,
    /// No such group was configured.
    #[error("the job has no group {0}")]
    UnknownGroup(u8),
    /// The job has failed before.
    #[error("the job has failed")]
    Failed,
}

/// Why a group's minimal sampling rate was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MsrError {
    /// No such group was configured.
    #[error("the job has no group {0}")]
    UnknownGroup(u8),
    /// An exact group stays exact: all of its messages are delivered in order.
    #[error("group {0} is exact: its sampling rate can't be changed")]
    Exact(u8),
    /// A FIN was sent: the receiver may have given up the rest.
    #[error("the job is ending: its sampling rate can't be raised any more")]
    Ending,
}

/// Why a packet from the network changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketRefused {
    /// Not a packet of this protocol, or a damaged one.
    #[error("not a well-formed ATP packet")]
    Malformed,
    /// The packet has another job or another cookie.
    #[error("a packet of another job")]
    Foreign,
    /// A kind of packet that only receivers take.
    #[error("not a packet for a sender")]
    Kind,
    /// The packet names messages or packets that were never sent.
    #[error("it names messages or packets that were never sent")]
    Impossible,
}

/// A group that has fewer messages than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// The group.
    pub group: u8,
    /// Messages known to be delivered.
    pub delivered: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
}

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, delivered, needed } = self;
        write!(f, "group {group} has {delivered} of {needed} messages that it needs")
    }
}

fn join(short: &[Short]) -> String {
    if short.is_empty() {
        return "all needed messages were delivered, but the end was not confirmed".to_owned();
    }
    short.iter().map(Short::to_string).collect::<Vec<_>>().join(", ")
}

/// Why a job ended without reaching its sampling rate. Each names the groups that are short.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Neither acknowledgments nor receipts came.
    #[error("the peer did not answer for {} ms: {}", silence_ns / 1_000_000, join(short))]
    PeerSilent {
        /// The length of the silence, nanoseconds.
        silence_ns: u64,
        /// The groups that are short.
        short: Vec<Short>,
    },
    /// The peer's host acknowledges packets, but its application reads nothing.
    #[error(
        "the receiving application read nothing for {} ms, although its host is reachable: {}",
        silence_ns / 1_000_000,
        join(short)
    )]
    NotReading {
        /// The length of the silence, nanoseconds.
        silence_ns: u64,
        /// The groups that are short.
        short: Vec<Short>,
    },
    /// The peer refused the job.
    #[error("{}: {}", reason.map_or("the receiver refused the job for an unknown reason", ResetReason::explain), join(short))]
    Reset {
        /// The reason, if this version knows it.
        reason: Option<ResetReason>,
        /// The groups that are short.
        short: Vec<Short>,
    },
    /// The peer had no room for the job or its messages, for as long as the peer timeout.
    #[error(
        "the receiver had no room for {} ms: {}",
        refused_ns / 1_000_000,
        join(short)
    )]
    NoRoom {
        /// How long the receiver accepted nothing, nanoseconds.
        refused_ns: u64,
        /// The groups that are short.
        short: Vec<Short>,
    },
    /// The receiver has fewer messages than it gave receipts for, and too few are left to send.
    #[error("the receiver lost messages that it had confirmed: {}", join(short))]
    ReceiverLostState {
        /// The groups that are short.
        short: Vec<Short>,
    },
}

/// The state of a job or its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Messages can be queued.
    Open,
    /// No more messages are accepted. The sender delivers the needed ones and confirms the end.
    Finishing,
    /// The receiver confirmed that every group has what it needs.
    Done,
    /// [`Sender::end_now`](super::Sender::end_now) ended the job or window before that, and the
    /// receiver confirmed the number of messages that it has.
    Ended,
    /// The job failed.
    Failed(SendError),
}

/// One group in a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The group's id.
    pub group: u8,
    /// N: the configured total, or messages queued (in the current window).
    pub messages: u32,
    /// Messages that the receiver is known to have.
    pub delivered: u32,
    /// Messages tried in full, incomplete, with nothing in flight.
    pub lost: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
    /// The minimal sampling rate that was agreed last.
    pub msr: Msr,
    /// The target loss rate (NetApprox §4.2, Eq. 1).
    pub target_loss_rate: Share,
}

/// The ids of a group's messages that were not delivered. Nothing follows from ids that aren't
/// known: they are no list, not even an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum LostIds {
    /// All of them, as ranges in ascending order. Without a range, every message was delivered.
    Known(Vec<Range<u32>>),
    /// Any message without a receipt may have been delivered or not.
    Unknown(UnknownIds),
}

/// Why the ids of lost messages aren't known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnknownIds {
    /// [`SenderConfig::names_lost`](super::SenderConfig::names_lost) is off.
    #[error("the ids of lost messages are not known: the job was opened without name_lost")]
    NotAsked,
    /// The receiver has not confirmed the end of the job or window.
    #[error("the ids of lost messages are not known: the receiver has not confirmed the end")]
    EndUnconfirmed,
    /// Receipts have named fewer or more messages than the receiver counts.
    #[error(
        "the ids of lost messages are not known: receipts have named other messages than the \
         receiver counts, because receipts were lost or the receiver was restarted"
    )]
    NamesMissing,
}

/// The counters of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The groups, as configured.
    pub groups: Vec<GroupReport>,
    /// DATA packets handed out and not taken back.
    pub packets_sent: u64,
    /// Retransmissions among them.
    pub packets_retransmitted: u64,
    /// DATA packets known to have reached the peer's host.
    pub packets_acked: u64,
    /// DATA packets that were declared lost.
    pub packets_lost: u64,
    /// Packets among them that were acknowledged later.
    pub packets_lost_wrongly: u64,
    /// Message bytes handed out, retransmissions included, headers not.
    pub bytes_sent: u64,
    /// Messages in packed packets, counted once for each transmission.
    pub messages_packed: u64,
    /// Messages that reached the peer's host in full, but never its application, and were
    /// retransmitted.
    pub messages_retransmitted: u64,
    /// DATA packets that reached the receiving application, according to its last receipt.
    pub packets_arrived: u64,
    /// Message bytes of a full packet: less than configured if the path is narrower.
    pub payload_bytes: u32,
    /// Packets that the receiver answered with "no room": it refused them, and perhaps others.
    pub refusals: u64,
    /// Packets from the network that were ignored: malformed, foreign or impossible.
    pub packets_refused: u64,
    /// Requests of the receiver that were handled, obeyed or not.
    pub requests: u64,
    /// The receiver asked for the job's end, and the job obeyed.
    pub ended_by_receiver: bool,
}
