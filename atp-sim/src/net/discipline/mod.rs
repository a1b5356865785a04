//! Queue disciplines of ports, one file each.

mod credit;
mod priority;
mod rank;
mod trimming;

pub use credit::{
    CREDIT_BYTES, CREDIT_DSCP, CreditLimits, CreditQueues, UNSCHEDULED_DSCP, credit_ps,
};
pub use priority::{CommonLimit, PriorityLimits, PriorityQueues, QueueLimit};
pub use rank::RankQueue;
pub use trimming::{TrimmingLimits, TrimmingQueues};

use super::{Label, Labels, PacketId};
use std::rc::Rc;

/// A discipline and its limits. Each port makes its queues from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Eight queues, served in strict priority.
    Priority(Rc<PriorityLimits>),
    /// One queue by rank, with a limit for each port.
    Rank {
        /// Maximum bytes on the wire that wait.
        bytes_max: u64,
    },
    /// A short queue for data, and one for the headers of trimmed data.
    Trimming(TrimmingLimits),
    /// One queue for credits, whose rate is limited, and one for data.
    Credit(CreditLimits),
}

/// A packet in a queue, or one that just left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The packet.
    pub packet: PacketId,
    /// The packet's bytes on the wire.
    pub wire_bytes: u32,
    /// The time at which the packet was queued.
    pub since_ps: u64,
}

/// The result of queueing a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The packet is queued.
    Queued,
    /// The packet is queued and ECN-marked.
    Marked,
    /// The packet is queued, and either it or an earlier packet was trimmed.
    Trimmed {
        /// Bytes cut off, by which the queued bytes fall.
        cut_bytes: u32,
    },
    /// The packet was dropped for lack of room.
    Dropped,
    /// The packet was dropped as a signal to the hosts, although there was room.
    Refused,
}

/// The queues of a port. An enum costs one `match` per packet, and no virtual call.
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
    /// Makes empty queues in front of a line of `bits_per_s`.
    pub fn new(queueing: &Queueing, bits_per_s: u64) -> Self {
        match queueing {
            Queueing::Priority(limits) => Self::Priority(PriorityQueues::new(Rc::clone(limits))),
            Queueing::Rank { bytes_max } => Self::Rank(RankQueue::new(*bytes_max)),
            Queueing::Trimming(limits) => Self::Trimming(TrimmingQueues::new(*limits)),
            Queueing::Credit(limits) => Self::Credit(CreditQueues::new(*limits, bits_per_s)),
        }
    }

    /// Whether a packet that finds the line free leaves at once. `is_empty` means that no packet is
    /// queued here.
    pub fn pass(&mut self, now_ps: u64, label: &Label, is_empty: bool) -> bool {
        match self {
            Self::Credit(queues) => queues.pass(now_ps, label),
            _ => is_empty,
        }
    }

    /// Queues a packet. `room_bytes` is the free space in the switch's buffer. Queued packets that
    /// are dropped in favor of the new one are added to `displaced`.
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

    /// Earliest time at which [`Self::take`] returns a packet, unless a new packet arrives.
    pub fn ready_ps(&self) -> u64 {
        match self {
            Self::Credit(queues) => queues.ready_ps(),
            _ => 0,
        }
    }
}
