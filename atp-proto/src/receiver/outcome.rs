//! The results of a receiver: outcomes of packets, messages, counters, summaries.

use atp_common::wire::{Fields, Header, Kind, ResetReason};
use std::ops::Range;

/// The outcome of a DATA packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The packet completed a message. Call
    /// [`Receiver::next_message`](super::Receiver::next_message). A message of an exact group comes
    /// after all earlier ones.
    Complete,
    /// The packet was kept; its message is still incomplete.
    Incomplete,
    /// The packet had arrived before.
    Duplicate,
    /// Dropped and counted. The sender will retransmit it if it is needed.
    Dropped(DropReason),
    /// The packet exceeds this receiver's limits: answer with [`reset_header`].
    Refused(ResetReason),
}

/// Why a DATA packet was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The packet has another job or another cookie.
    Foreign,
    /// There is no room for another incomplete message at present.
    NoRoom,
    /// The packet contradicts earlier packets of its message.
    Contradiction,
    /// The packet has an earlier segmentation than others of its message.
    Stale,
    /// A packed packet with an incomplete member. No member is taken.
    Malformed,
    /// The job or its window has ended.
    Ended,
    /// This receiver joined a job in the middle, and no packet has told it which window the job is
    /// in; or the job is in another one than it takes for the current one.
    UnknownWindow,
}

/// A complete message for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message's window, counted from 0.
    pub window: u32,
    /// The message's group.
    pub group: u8,
    /// The message's id, counted from 0 in its group and window.
    pub message: u32,
    /// The message's data.
    pub data: Vec<u8>,
}

/// Counters of a receiver. Every reason to refuse or drop a packet has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// DATA packets of this job, duplicates included.
    pub packets_arrived: u64,
    /// DATA packets that had arrived before.
    pub packets_duplicate: u64,
    /// DATA packets dropped because there was no room.
    pub packets_no_room: u64,
    /// DATA packets that contradict others of their message.
    pub packets_contradicting: u64,
    /// Packed DATA packets with an incomplete member.
    pub packets_malformed: u64,
    /// DATA packets refused (too large, too many messages).
    pub packets_refused: u64,
    /// DATA packets after the end of the job or their window.
    pub packets_late: u64,
    /// DATA packets that came before another packet told the job's window.
    pub packets_window_unknown: u64,
    /// Packets of another job or with another cookie.
    pub packets_foreign: u64,
    /// Incomplete messages dropped for newer ones.
    pub messages_evicted: u64,
    /// Complete messages.
    pub messages_delivered: u64,
    /// Their bytes.
    pub bytes_delivered: u64,
}

/// The end of a job or a window, as the receiver counted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The window, counted from 0.
    pub window: u32,
    /// Another window follows.
    pub more: bool,
    /// The sender ended it early: the job was canceled, or its deadline had passed. Otherwise every
    /// group has what it needs.
    pub forced: bool,
    /// The groups, by id.
    pub groups: Vec<GroupSummary>,
}

/// One group in a [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// The group's id.
    pub group: u8,
    /// N, as announced by the sender.
    pub messages: u32,
    /// `ceil(MSR * N)`, as announced by the sender.
    pub needed: u32,
    /// Complete messages, as the receiver counted them.
    pub delivered: u32,
    /// The ids of the other messages, in order.
    pub lost: Vec<Range<u32>>,
}

/// A RESET for the sender of `header`: a bare header.
pub fn reset_header(header: &Header, reason: ResetReason) -> Header {
    Header::new(&Fields {
        group: header.group(),
        job: header.job(),
        cookie: header.cookie(),
        message: header.message(),
        epoch: reason as u16,
        slot: header.slot(),
        ..Fields::of(Kind::Reset)
    })
}
