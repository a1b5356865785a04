//! What waits at a port, and which of it is next: one file per queue discipline.

mod credited;
mod pfabric;
mod priority;
mod trimming;

pub use credited::{
    CREDIT_BYTES, CREDIT_DSCP, CreditedLimits, CreditedQueues, UNSCHEDULED_DSCP, credit_ps,
};
pub use pfabric::PFabricQueue;
pub use priority::{PriorityLimits, PriorityQueues, QueueLimit};
pub use trimming::{TrimmingLimits, TrimmingQueues};

use super::{Label, PacketId, Packets};
use std::rc::Rc;

/// How ports queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// Eight queues, served in strict priority.
    Priority(Rc<PriorityLimits>),
    /// pFabric's, of so many bytes for each port.
    PFabric {
        /// Bytes on the wire that may wait.
        bytes_max: u64,
    },
    /// NDP's.
    Trimming(TrimmingLimits),
    /// One queue for credits, whose rate is limited, and one for data.
    Credited(CreditedLimits),
}

/// A packet that waits, or waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which one.
    pub packet: PacketId,
    /// What it takes on the wire.
    pub wire_bytes: u32,
    /// When it came.
    pub since_ps: u64,
}

/// What came of a packet that wanted to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It waits.
    Waits,
    /// It waits, and was marked.
    Marked,
    /// It waits, but it, or one that waited, lost its payload: so many bytes fewer wait.
    Trimmed {
        /// What was cut off.
        cut_bytes: u32,
    },
    /// There was no room.
    Dropped,
    /// There was, and the discipline dropped it all the same: that is how it speaks to the ends.
    Refused,
}

/// What waits at a port: one `match` for a packet, no virtual call.
#[derive(Debug)]
pub enum Discipline {
    /// Eight queues.
    Priority(PriorityQueues),
    /// pFabric's queue.
    PFabric(PFabricQueue),
    /// NDP's queues.
    Trimming(TrimmingQueues),
    /// Credits and data.
    Credited(CreditedQueues),
}

impl Discipline {
    /// Nothing waits, before a line of `bits_per_s`.
    pub fn new(queueing: &Queueing, bits_per_s: u64) -> Self {
        match queueing {
            Queueing::Priority(limits) => Self::Priority(PriorityQueues::new(Rc::clone(limits))),
            Queueing::PFabric { bytes_max } => Self::PFabric(PFabricQueue::new(*bytes_max)),
            Queueing::Trimming(limits) => Self::Trimming(TrimmingQueues::new(*limits)),
            Queueing::Credited(limits) => Self::Credited(CreditedQueues::new(*limits, bits_per_s)),
        }
    }

    /// Whether a packet that finds the line free leaves at once. `is_empty`: nothing waits here.
    pub fn pass(&mut self, now_ps: u64, label: &Label, is_empty: bool) -> bool {
        match self {
            Self::Credited(queues) => queues.pass(now_ps, label),
            _ => is_empty,
        }
    }

    /// A packet comes. `room_bytes`: what the switch's buffer still takes. Those that have to go for it
    /// are added to `displaced`.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        packets: &mut Packets,
        room_bytes: u64,
        displaced: &mut Vec<Waiting>,
    ) -> Entry {
        match self {
            Self::Priority(queues) => queues.put(now_ps, id, packets, room_bytes),
            Self::PFabric(queue) => queue.put(now_ps, id, packets, room_bytes, displaced),
            Self::Trimming(queues) => queues.put(now_ps, id, packets, room_bytes, displaced),
            Self::Credited(queues) => queues.put(now_ps, id, packets, room_bytes),
        }
    }

    /// The next one, which waits no longer; `None` also where all that waits must wait on.
    pub fn take(&mut self, now_ps: u64) -> Option<Waiting> {
        match self {
            Self::Priority(queues) => queues.take(),
            Self::PFabric(queue) => queue.take(),
            Self::Trimming(queues) => queues.take(),
            Self::Credited(queues) => queues.take(now_ps),
        }
    }

    /// From when on it would give one of those that wait, if nothing else comes.
    pub fn ready_ps(&self) -> u64 {
        match self {
            Self::Credited(queues) => queues.ready_ps(),
            _ => 0,
        }
    }
}
