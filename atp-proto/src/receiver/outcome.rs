//! What a receiver says about packets, and about its job.

use atp_common::wire::{Fields, FinGroup, Flags, Header, Kind, ResetReason};
use std::ops::Range;

/// What became of a DATA packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It made a message whole. Each message comes once.
    Complete {
        /// The message's id.
        message: u32,
        /// Its group.
        group: u8,
        /// All of it.
        data: Vec<u8>,
    },
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
    /// The job has ended.
    Ended,
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

/// How a job ended, as its receiver saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Message ids that the sender used, all groups together.
    pub messages: u32,
    /// Of these, whole.
    pub delivered: u32,
    /// Per group: N and need as the sender says, delivered as counted here.
    pub groups: Vec<FinGroup>,
    /// The ids of messages that were never whole, in order.
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
