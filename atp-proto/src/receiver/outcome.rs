//! What a receiver says about packets, and about its job.

use atp_common::wire::{Fields, Flags, Header, Kind, ResetReason};
use std::ops::Range;

/// What became of a DATA packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It made a message whole. Ask for [`Receiver::next_message`](super::Receiver::next_message): one
    /// of an exact group comes when those before it have come.
    Complete,
    /// Kept; its message is not whole yet.
    Incomplete,
    /// Was here before.
    Duplicate,
    /// Not kept, without harm: the sender will notice. Counted.
    Dropped(DropReason),
    /// The sender asks for what this receiver doesn't give: answer with [`reset_header`].
    Refused(ResetReason),
}

/// Why a DATA packet was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Another job or another cookie than this receiver's.
    Foreign,
    /// No room for another incomplete message at the moment.
    NoRoom,
    /// It contradicts what is known of its message.
    Contradiction,
    /// The job or its window has ended.
    Ended,
}

/// A whole message, in the application's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which window of the job it belongs to, counted from 0 (from the one in which this receiver
    /// began to listen, until that has ended).
    pub window: u32,
    /// Its group.
    pub group: u8,
    /// Its id, counted from 0 in its group and window.
    pub message: u32,
    /// All of it.
    pub data: Vec<u8>,
}

/// Counters of a receiver. Whatever can refuse or lose a packet has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// DATA packets of this job, duplicates included.
    pub packets_arrived: u64,
    /// DATA packets that were here before.
    pub packets_duplicate: u64,
    /// DATA packets not kept for want of room.
    pub packets_no_room: u64,
    /// DATA packets that contradict others of their message.
    pub packets_contradicting: u64,
    /// DATA packets refused (too large, too many messages).
    pub packets_refused: u64,
    /// DATA packets after the job's end.
    pub packets_late: u64,
    /// Packets of another job or with another cookie.
    pub packets_foreign: u64,
    /// Incomplete messages dropped for newer ones.
    pub messages_evicted: u64,
    /// Messages that became whole.
    pub messages_delivered: u32,
    /// Their bytes.
    pub bytes_delivered: u64,
}

/// How a job or a window of it ended, as its receiver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which window, counted from 0.
    pub window: u32,
    /// Another window follows.
    pub more: bool,
    /// The sender ended it whatever had arrived: it was cancelled, or out of time. Otherwise every
    /// group has what it needs.
    pub forced: bool,
    /// The groups, by id.
    pub groups: Vec<GroupSummary>,
}

/// How one group ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// The group's id.
    pub group: u8,
    /// N, as the sender says.
    pub messages: u32,
    /// `ceil(MSR * N)`, as the sender says.
    pub needed: u32,
    /// Messages that were whole, as counted here.
    pub delivered: u32,
    /// The ids of the others, in order.
    pub lost: Vec<Range<u32>>,
}

/// A RESET for the sender of `header`: a bare header.
pub fn reset_header(header: &Header, reason: ResetReason) -> Header {
    Header::new(&Fields {
        kind: Kind::Reset,
        flags: Flags::NONE,
        group: header.group(),
        job: header.job(),
        cookie: header.cookie(),
        message: header.message(),
        index: 0,
        count: 0,
        epoch: reason as u16,
        slot: header.slot(),
        time: 0,
    })
}
