//! Queue disciplines of ports: one file each.

mod credit;
mod priority;
mod rank;
mod trimming;

pub use credit::{
    CREDIT_BYTES, CREDIT_DSCP, CreditLimits, CreditQueues, UNSCHEDULED_DSCP, credit_ps,
};
pub use priority::{PriorityLimits, PriorityQueues, QueueLimit};
pub use rank::RankQueue;
pub use trimming::{TrimmingLimits, TrimmingQueues};

use super::{Label, Labels, PacketId};
use std::rc::Rc;

/// A discipline and its limits, from which each port makes its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Eight queues, served in strict priority.
    Priority(Rc<PriorityLimits>),
    /// One queue by rank, of so many bytes for each port.
    Rank {
        /// Bytes on the wire that may wait.
        bytes_max: u64,
    },
    /// A short queue for data, and one for the headers of trimmed data.
    Trimming(TrimmingLimits),
    /// One queue for credits, whose rate is limited, and one for data.
    Credit(CreditLimits),
}

/// A packet in a queue, or one that left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The packet.
    pub packet: PacketId,
    /// Its bytes on the wire.
    pub wire_bytes: u32,
    /// When it was queued.
    pub since_ps: u64,
}

/// The result of queueing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is queued.
    Queued,
    /// It is queued and ECN-marked.
    Marked,
    /// It is queued, and it or a packet before it was trimmed.
    Trimmed {
        /// Bytes that were cut off: so many fewer wait.
        cut_bytes: u32,
    },
    /// There was no room.
    Dropped,
    /// There was room, but the discipline drops it as a signal to the hosts.
    Refused,
}

/// The queues of a port. An enum, so that a packet costs one `match` and no virtual call.
#[derive(Debug)]
pub enum Discipline {
    /// See [`Queueing::Priority`].
    Priority(PriorityQueues),
    /// See [`Queueing::Rank`].
    Rank(RankQueue),
    /// See [`Queueing::Trimming`].
    Trimming(TrimmingQueues),
    /// See [`Queueing::Credit`].
    Credit(CreditQueues),
}

impl Discipline {
    /// Empty queues before a line of `bits_per_s`.
    pub fn new(queueing: &Queueing, bits_per_s: u64) -> Self {
        match queueing {
            Queueing::Priority(limits) => Self::Priority(PriorityQueues::new(Rc::clone(limits))),
            Queueing::Rank { bytes_max } => Self::Rank(RankQueue::new(*bytes_max)),
            Queueing::Trimming(limits) => Self::Trimming(TrimmingQueues::new(*limits)),
            Queueing::Credit(limits) => Self::Credit(CreditQueues::new(*limits, bits_per_s)),
        }
    }

    /// Whether a packet that finds the line free leaves at once. `is_empty`: no packet is queued
    /// here.
    pub fn pass(&mut self, now_ps: u64, label: &Label, is_empty: bool) -> bool {
        match self {
            Self::Credit(queues) => queues.pass(now_ps, label),
            _ => is_empty,
        }
    }

    /// Queues a packet. `room_bytes` is the free space in the switch's buffer. Adds the queued
    /// packets that it dropped in favor of the new one to `displaced`.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        room_bytes: u64,
        displaced: &mut Vec<Queued>,
    ) -> Entry {
        match self {
            Self::Priority(queues) => queues.put(now_ps, id, labels, room_bytes),
            Self::Rank(queue) => queue.put(now_ps, id, labels, room_bytes, displaced),
            Self::Trimming(queues) => queues.put(now_ps, id, labels, room_bytes, displaced),
            Self::Credit(queues) => queues.put(now_ps, id, labels, room_bytes),
        }
    }

    /// Dequeues the next packet. `None` if none is queued, or none may leave yet.
    pub fn take(&mut self, now_ps: u64) -> Option<Queued> {
        match self {
            Self::Priority(queues) => queues.take(),
            Self::Rank(queue) => queue.take(),
            Self::Trimming(queues) => queues.take(),
            Self::Credit(queues) => queues.take(now_ps),
        }
    }

    /// Earliest time at which [`Self::take`] returns a packet, unless a new one comes.
    pub fn ready_ps(&self) -> u64 {
        match self {
            Self::Credit(queues) => queues.ready_ps(),
            _ => 0,
        }
    }
}
