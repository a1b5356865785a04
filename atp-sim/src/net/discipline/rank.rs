//! One queue by rank (Alizadeh et al., SIGCOMM 2013, §4.1): a small buffer that keeps the packets
//! of lowest rank.
//!
//! - Dropping: without room, the packet of the highest rank is dropped. It may be the new one.
//! - Scheduling: the packet of the lowest rank selects a message, and the earliest packet of that
//!   message leaves. A message's ranks fall over time, so its early packets would otherwise starve
//!   behind its later ones.

use super::{Entry, Queued};
use crate::net::{FlowId, HostId, Label, Labels, PacketId};
use std::collections::BTreeMap;

/// One message in one direction.
type Stream = (FlowId, HostId, u32);

/// The queue of a port.
#[derive(Debug)]
pub struct RankQueue {
    bytes_max: u64,
    bytes: u64,
    /// Number of packets queued so far.
    arrivals: u64,
    /// Queued packets by rank, then by arrival.
    ranked: BTreeMap<(u32, u64), (Stream, Queued)>,
    /// The rank of each packet, by message and arrival.
    streams: BTreeMap<(Stream, u64), u32>,
}

impl RankQueue {
    /// Makes an empty queue.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, arrivals: 0, ranked: BTreeMap::new(), streams: BTreeMap::new() }
    }

    /// See [`super::Discipline::put`]. Among equal ranks the latest packet is dropped. Packets
    /// differ in length, so a new packet may displace several. No packet is dropped unless the new
    /// one then fits.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &Labels,
        room_bytes: u64,
        displaced: &mut Vec<Queued>,
    ) -> Entry {
        let Label { flow, source, message, rank, wire_bytes, .. } = *labels.label(id);
        let stream = (flow, source, message);
        let room_bytes = room_bytes.min(self.bytes_max.saturating_sub(self.bytes));
        let missing = u64::from(wire_bytes).saturating_sub(room_bytes);
        if missing > 0 && !self.displace(rank, missing, displaced) {
            return Entry::Dropped;
        }
        self.arrivals += 1;
        self.bytes += u64::from(wire_bytes);
        let queued = Queued { packet: id, wire_bytes, since_ps: now_ps };
        self.ranked.insert((rank, self.arrivals), (stream, queued));
        self.streams.insert((stream, self.arrivals), rank);
        Entry::Queued
    }

    /// See [`super::Discipline::take`].
    pub fn take(&mut self) -> Option<Queued> {
        let (_, &(stream, _)) = self.ranked.first_key_value()?;
        let first = self.streams.range((stream, 0)..).next();
        let (&(_, arrival), &rank) = first?;
        self.remove(rank, arrival)
    }

    /// Makes `missing` bytes of room for a packet of `rank`, if the packets of higher rank have
    /// that number of bytes.
    fn displace(&mut self, rank: u32, missing: u64, displaced: &mut Vec<Queued>) -> bool {
        let mut found = 0;
        let mut worst = Vec::new();
        for (&(other, arrival), (_, queued)) in self.ranked.iter().rev() {
            if found >= missing || other <= rank {
                break;
            }
            found += u64::from(queued.wire_bytes);
            worst.push((other, arrival));
        }
        if found < missing {
            return false;
        }
        displaced
            .extend(worst.into_iter().filter_map(|(rank, arrival)| self.remove(rank, arrival)));
        true
    }

    fn remove(&mut self, rank: u32, arrival: u64) -> Option<Queued> {
        let (stream, queued) = self.ranked.remove(&(rank, arrival))?;
        self.streams.remove(&(stream, arrival));
        self.bytes -= u64::from(queued.wire_bytes);
        Some(queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet in the naive model, which keeps packets in the order of arrival.
    #[derive(Clone, Copy, Debug)]
    struct Known {
        id: PacketId,
        rank: u32,
        message: u32,
        wire_bytes: u32,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Put { rank: u32, message: u32, wire_bytes: u32 },
        Take,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few ranks and messages, so that they collide; lengths as on the wire.
        let put = (0u32..8, 0u32..4, 84u32..=1_538)
            .prop_map(|(rank, message, wire_bytes)| Step::Put { rank, message, wire_bytes });
        prop_oneof![2 => put, 1 => Just(Step::Take)]
    }

    fn label(rank: u32, message: u32, wire_bytes: u32) -> Label {
        Label { rank, message, ..Label::new(0, 0, 1, wire_bytes, 0) }
    }

    /// Sorts all queued packets and the new one by rank, then by arrival, and drops from the end
    /// until the rest fits. If the new one would be dropped, no other packet is.
    fn drops(waiting: &[Known], new: Known, bytes_max: u32) -> Vec<PacketId> {
        let mut sorted = waiting.to_vec();
        sorted.push(new);
        sorted.sort_by_key(|known| known.rank);
        let mut bytes: u32 = sorted.iter().map(|known| known.wire_bytes).sum();
        let mut dropped = Vec::new();
        while bytes > bytes_max {
            let last = sorted.pop().unwrap();
            if last.id == new.id {
                return vec![new.id];
            }
            bytes -= last.wire_bytes;
            dropped.push(last.id);
        }
        dropped
    }

    /// The packet of the lowest rank selects the message, and the first packet of that message
    /// leaves.
    fn next(waiting: &[Known]) -> Option<usize> {
        let least = waiting.iter().min_by_key(|known| known.rank)?;
        waiting.iter().position(|known| known.message == least.message)
    }

    proptest! {
        /// SIGCOMM 2013, §4.1: the queue drops and serves the same packets as a sort of all
        /// packets.
        #[test]
        fn rank_queue__is_a_sort_of_all_packets(
            steps in proptest::collection::vec(step(), 1..200),
            bytes_max in 1_538u32..10_000,
        ) {
            let mut labels = Labels::default();
            let mut queue = RankQueue::new(bytes_max.into());
            let mut waiting: Vec<Known> = Vec::new();
            for step in steps {
                match step {
                    Step::Put { rank, message, wire_bytes } => {
                        let id = labels.insert(label(rank, message, wire_bytes));
                        let new = Known { id, rank, message, wire_bytes };
                        let expected = drops(&waiting, new, bytes_max);
                        let mut displaced = Vec::new();
                        let entry = queue.put(0, id, &labels, u64::MAX, &mut displaced);
                        let mut dropped: Vec<_> =
                            displaced.iter().map(|queued| queued.packet).collect();
                        if entry == Entry::Dropped {
                            dropped.push(id);
                        }
                        prop_assert_eq!(&dropped, &expected);
                        waiting.push(new);
                        waiting.retain(|known| !dropped.contains(&known.id));
                    }
                    Step::Take => {
                        let expected = next(&waiting).map(|index| waiting.remove(index).id);
                        prop_assert_eq!(queue.take().map(|next| next.packet), expected);
                    }
                }
                prop_assert_eq!(queue.ranked.len(), waiting.len());
                let bytes: u32 = waiting.iter().map(|known| known.wire_bytes).sum();
                prop_assert_eq!(queue.bytes, u64::from(bytes));
                prop_assert_eq!(queue.streams.len(), queue.ranked.len());
            }
        }

        /// The buffer that ports share limits the queue like the port's own limit.
        #[test]
        fn rank_queue__keeps_to_the_switch_s_buffer(
            puts in proptest::collection::vec((0u32..8, 84u32..=1_538), 1..100),
            buffer_bytes in 0u64..10_000,
        ) {
            let mut labels = Labels::default();
            let mut queue = RankQueue::new(u64::MAX);
            for (rank, wire_bytes) in puts {
                let id = labels.insert(label(rank, 0, wire_bytes));
                let room_bytes = buffer_bytes - queue.bytes;
                queue.put(0, id, &labels, room_bytes, &mut Vec::new());
                prop_assert!(queue.bytes <= buffer_bytes);
            }
        }
    }
}
