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
    /// A limit that several queues share, besides their own.
    pub common: Option<CommonLimit>,
}

/// A limit of several queues together. It marks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonLimit {
    /// One bit per queue.
    pub queues: u8,
    /// The limit. Packets of the other queues don't count.
    pub limit: QueueLimit,
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
    /// Packets in the queues with a common limit.
    common_packets: u32,
    /// Bytes in them.
    common_bytes: u64,
}

impl PriorityQueues {
    /// Makes empty queues.
    pub fn new(limits: Rc<PriorityLimits>) -> Self {
        Self {
            limits,
            queues: Default::default(),
            bytes: [0; QUEUES],
            occupied: 0,
            common_packets: 0,
            common_bytes: 0,
        }
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
        let mut room_bytes = room_bytes.min(limit.bytes_max.saturating_sub(self.bytes[number]));
        let mut is_free = waiting < limit.packets_max;
        let common = self.common_of(number);
        if let Some(limit) = common {
            is_free &= self.common_packets < limit.packets_max;
            room_bytes = room_bytes.min(limit.bytes_max.saturating_sub(self.common_bytes));
        }
        if !is_free || u64::from(wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        if common.is_some() {
            self.common_packets += 1;
            self.common_bytes += u64::from(wire_bytes);
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
        if self.common_of(number).is_some() {
            self.common_packets -= 1;
            self.common_bytes -= u64::from(next.wire_bytes);
        }
        Some(next)
    }

    /// The limit that the queue shares with others.
    fn common_of(&self, number: usize) -> Option<QueueLimit> {
        let common = self.limits.common?;
        (common.queues >> number & 1 == 1).then_some(common.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Packet, Packets};
    use proptest::prelude::*;

    const COMMON_PACKETS_MAX: u32 = 5;
    const COMMON_BYTES_MAX: u64 = 4_000;

    proptest! {
        /// Queues 1 to 7 together keep the common limit, and queue 0 doesn't count. A packet is
        /// dropped only for a limit.
        #[test]
        fn put__keeps_the_common_limit(
            steps in proptest::collection::vec((0..8u8, 64..1_538u32, any::<bool>()), 0..200),
        ) {
            let limit = QueueLimit {
                packets_max: COMMON_PACKETS_MAX,
                bytes_max: COMMON_BYTES_MAX,
                ..QueueLimit::NONE
            };
            let mut queues = PriorityQueues::new(Rc::new(PriorityLimits {
                limits: [QueueLimit::NONE; QUEUES],
                queue_of_dscp: std::array::from_fn(|dscp| (dscp % QUEUES) as u8),
                common: Some(CommonLimit { queues: !1, limit }),
            }));
            let mut packets = Packets::default();
            for (queue, wire_bytes, takes) in steps {
                let waiting: usize = queues.queues[1..].iter().map(VecDeque::len).sum();
                let bytes: u64 = queues.bytes[1..].iter().sum();
                prop_assert_eq!((queues.common_packets, queues.common_bytes), (waiting as u32, bytes));
                let fits = waiting < COMMON_PACKETS_MAX as usize
                    && bytes + u64::from(wire_bytes) <= COMMON_BYTES_MAX;
                let label = Label { dscp: queue, ..Label::new(0, 0, 1, wire_bytes, 0) };
                let id = packets.insert(Packet { label, body: () });
                let expected = if queue == 0 || fits { Entry::Queued } else { Entry::Dropped };
                prop_assert_eq!(queues.put(0, id, packets.labels_mut(), u64::MAX), expected);
                if takes {
                    queues.take();
                }
            }
        }
    }
}
