//! Eight FIFO queues in strict priority, as in commodity switches.

use super::{Entry, Queued};
use crate::net::{Label, Labels, PacketId};
use std::{collections::VecDeque, rc::Rc};
use switch_profiles::QUEUES;

/// One queue's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Maximum number of waiting packets, without the one being sent. The switch's buffer is an
    /// additional limit.
    pub packets_max: u32,
    /// Maximum bytes on the wire of waiting packets.
    pub bytes_max: u64,
    /// ECN threshold: a packet that finds at least this number of packets queued is marked.
    pub mark_from: u32,
}

impl QueueLimit {
    /// No limit except the buffer, and no marks.
    pub const NONE: Self = Self { packets_max: u32::MAX, bytes_max: u64::MAX, mark_from: u32::MAX };
}

/// The limits of all queues of a port, and the queue of each DSCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityLimits {
    /// The limits of each queue; queue 0 is served first.
    pub limits: [QueueLimit; QUEUES],
    /// The queue of each DSCP.
    pub queue_of_dscp: [u8; 64],
}

/// The queues of a port.
#[derive(Debug)]
pub struct PriorityQueues {
    limits: Rc<PriorityLimits>,
    queues: [VecDeque<Queued>; QUEUES],
    /// Bytes in each queue.
    bytes: [u64; QUEUES],
    /// One bit per queue, set if the queue isn't empty.
    occupied: u8,
}

impl PriorityQueues {
    /// Makes empty queues.
    pub fn new(limits: Rc<PriorityLimits>) -> Self {
        Self { limits, queues: Default::default(), bytes: [0; QUEUES], occupied: 0 }
    }

    /// See [`super::Discipline::put`].
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        room_bytes: u64,
    ) -> Entry {
        let Label { wire_bytes, dscp, ecn, .. } = *labels.label(id);
        let number = usize::from(self.limits.queue_of_dscp[usize::from(dscp)]);
        let limit = self.limits.limits[number];
        let waiting = self.queues[number].len() as u32;
        let room_bytes = room_bytes.min(limit.bytes_max.saturating_sub(self.bytes[number]));
        if waiting >= limit.packets_max || u64::from(wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        self.queues[number].push_back(Queued { packet: id, wire_bytes, since_ps: now_ps });
        self.bytes[number] += u64::from(wire_bytes);
        self.occupied |= 1 << number;
        if ecn.is_capable() && waiting >= limit.mark_from {
            labels.mark(id);
            return Entry::Marked;
        }
        Entry::Queued
    }

    /// See [`super::Discipline::take`].
    pub fn take(&mut self) -> Option<Queued> {
        if self.occupied == 0 {
            return None;
        }
        let number = self.occupied.trailing_zeros() as usize;
        let next = self.queues[number].pop_front()?;
        if self.queues[number].is_empty() {
            self.occupied &= !(1 << number);
        }
        self.bytes[number] -= u64::from(next.wire_bytes);
        Some(next)
    }
}
