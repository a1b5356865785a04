//! What waits at a port, and which of it is next: one file per queue discipline.

mod pfabric;
mod priority;
mod trimming;

pub use pfabric::PFabricQueue;
pub use priority::{PriorityLimits, PriorityQueues, QueueLimit};
pub use trimming::{TrimmingLimits, TrimmingQueues};

use super::{PacketId, Packets};
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
}

/// What waits at a port: one `match` for a packet, no virtual call.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the larger one is the usual one, and stays in place"
)]
pub enum Discipline {
    /// Eight queues.
    Priority(PriorityQueues),
    /// pFabric's queue.
    PFabric(PFabricQueue),
    /// NDP's queues.
    Trimming(TrimmingQueues),
}

impl Discipline {
    /// Nothing waits.
    pub fn new(queueing: &Queueing) -> Self {
        match queueing {
            Queueing::Priority(limits) => Self::Priority(PriorityQueues::new(Rc::clone(limits))),
            Queueing::PFabric { bytes_max } => Self::PFabric(PFabricQueue::new(*bytes_max)),
            Queueing::Trimming(limits) => Self::Trimming(TrimmingQueues::new(*limits)),
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
            Self::Trimming(queues) => queues.put(now_ps, id, packets, displaced),
        }
    }

    /// The next one, which waits no longer.
    pub fn take(&mut self) -> Option<Waiting> {
        match self {
            Self::Priority(queues) => queues.take(),
            Self::PFabric(queue) => queue.take(),
            Self::Trimming(queues) => queues.take(),
        }
    }
}
