//! pFabric's queue (Alizadeh et al., SIGCOMM 2013, §4.1): a small buffer that holds the packets of the
//! highest priority, which is the least rank.
//!
//! Priority dropping: where there is no room, the packet of the greatest rank goes, be it the one that
//! comes. Priority scheduling: the packet of the least rank names the message that is next, and of
//! that message the earliest packet leaves: else the early packets of a message, sent when more of it
//! remained, would starve behind its later ones.

use super::{Entry, Waiting};
use crate::net::{FlowId, HostId, Label, PacketId, Packets};
use std::collections::BTreeMap;

/// What pFabric calls a flow: one message in one direction.
type Stream = (FlowId, HostId, u32);

/// The queue of a port.
#[derive(Debug)]
pub struct PFabricQueue {
    bytes_max: u64,
    bytes: u64,
    /// Packets that came so far.
    arrivals: u64,
    /// By rank, and of one rank by arrival.
    ranked: BTreeMap<(u32, u64), (Stream, Waiting)>,
    /// The rank of each, by its message and arrival.
    streams: BTreeMap<(Stream, u64), u32>,
}

impl PFabricQueue {
    /// Nothing waits.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, arrivals: 0, ranked: BTreeMap::new(), streams: BTreeMap::new() }
    }

    /// See [`super::Discipline::put`]. Of equal ranks the later one goes. Packets differ in length, so
    /// several may have to go for one; none goes in vain.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        packets: &Packets,
        room_bytes: u64,
        displaced: &mut Vec<Waiting>,
    ) -> Entry {
        let Label { flow, source, message, rank, wire_bytes, .. } = *packets.label(id);
        let stream = (flow, source, message);
        let room_bytes = room_bytes.min(self.bytes_max.saturating_sub(self.bytes));
        let missing = u64::from(wire_bytes).saturating_sub(room_bytes);
        if missing > 0 && !self.displace(rank, missing, displaced) {
            return Entry::Dropped;
        }
        self.arrivals += 1;
        self.bytes += u64::from(wire_bytes);
        let waiting = Waiting { packet: id, wire_bytes, since_ps: now_ps };
        self.ranked.insert((rank, self.arrivals), (stream, waiting));
        self.streams.insert((stream, self.arrivals), rank);
        Entry::Waits
    }

    /// See [`super::Discipline::take`].
    pub fn take(&mut self) -> Option<Waiting> {
        let (_, &(stream, _)) = self.ranked.first_key_value()?;
        let first = self.streams.range((stream, 0)..).next();
        let (&(_, arrival), &rank) = first?;
        self.remove(rank, arrival)
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Makes `missing` bytes of room for a packet of `rank`, if those of greater rank have as many.
    fn displace(&mut self, rank: u32, missing: u64, displaced: &mut Vec<Waiting>) -> bool {
        let mut found = 0;
        let mut worst = Vec::new();
        for (&(other, arrival), (_, waiting)) in self.ranked.iter().rev() {
            if found >= missing || other <= rank {
                break;
            }
            found += u64::from(waiting.wire_bytes);
            worst.push((other, arrival));
        }
        if found < missing {
            return false;
        }
        displaced
            .extend(worst.into_iter().filter_map(|(rank, arrival)| self.remove(rank, arrival)));
        true
    }

    fn remove(&mut self, rank: u32, arrival: u64) -> Option<Waiting> {
        let (stream, waiting) = self.ranked.remove(&(rank, arrival))?;
        self.streams.remove(&(stream, arrival));
        self.bytes -= u64::from(waiting.wire_bytes);
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Body, Packet};
    use proptest::prelude::*;

    /// What the naive model knows of a packet, in the order of arrivals.
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
        // Few ranks and messages, so that they meet; lengths as on the wire.
        let put = (0u32..8, 0u32..4, 84u32..=1_538)
            .prop_map(|(rank, message, wire_bytes)| Step::Put { rank, message, wire_bytes });
        prop_oneof![2 => put, 1 => Just(Step::Take)]
    }

    fn packet(rank: u32, message: u32, wire_bytes: u32) -> Packet {
        let label = Label { rank, message, ..Label::new(0, 0, 1, wire_bytes, 0) };
        Packet { label, body: Body::Datagram { message, number: 0, count: 1 } }
    }

    /// All that wait and the one that comes, sorted: by rank, of one rank by arrival. The greatest go
    /// until the rest fits; if the one that comes would be among them, it alone goes.
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

    /// The first of a sort of all names the message; the first of that message leaves.
    fn next(waiting: &[Known]) -> Option<usize> {
        let least = waiting.iter().min_by_key(|known| known.rank)?;
        waiting.iter().position(|known| known.message == least.message)
    }

    proptest! {
        /// pFabric §4.1: what is dropped and what leaves is what a sort of all packets says.
        #[test]
        fn pfabric_queue__is_a_sort_of_all_packets(
            steps in proptest::collection::vec(step(), 1..200),
            bytes_max in 1_538u32..10_000,
        ) {
            let mut packets = Packets::default();
            let mut queue = PFabricQueue::new(bytes_max.into());
            let mut waiting: Vec<Known> = Vec::new();
            for step in steps {
                match step {
                    Step::Put { rank, message, wire_bytes } => {
                        let id = packets.insert(packet(rank, message, wire_bytes));
                        let new = Known { id, rank, message, wire_bytes };
                        let expected = drops(&waiting, new, bytes_max);
                        let mut displaced = Vec::new();
                        let entry = queue.put(0, id, &packets, u64::MAX, &mut displaced);
                        let mut dropped: Vec<_> =
                            displaced.iter().map(|waiting| waiting.packet).collect();
                        if entry == Entry::Dropped {
                            dropped.push(id);
                        }
                        prop_assert_eq!(&dropped, &expected);
                        waiting.push(new);
                        waiting.retain(|known| !dropped.contains(&known.id));
                    }
                    Step::Take => {
                        let expected = next(&waiting).map(|place| waiting.remove(place).id);
                        prop_assert_eq!(queue.take().map(|next| next.packet), expected);
                    }
                }
                prop_assert_eq!(queue.len(), waiting.len());
                let bytes: u32 = waiting.iter().map(|known| known.wire_bytes).sum();
                prop_assert_eq!(queue.bytes, u64::from(bytes));
                prop_assert_eq!(queue.streams.len(), queue.ranked.len());
            }
        }

        /// The buffer that ports share is a limit as the port's own is.
        #[test]
        fn pfabric_queue__keeps_to_the_switch_s_buffer(
            puts in proptest::collection::vec((0u32..8, 84u32..=1_538), 1..100),
            buffer_bytes in 0u64..10_000,
        ) {
            let mut packets = Packets::default();
            let mut queue = PFabricQueue::new(u64::MAX);
            for (rank, wire_bytes) in puts {
                let id = packets.insert(packet(rank, 0, wire_bytes));
                let room_bytes = buffer_bytes - queue.bytes;
                queue.put(0, id, &packets, room_bytes, &mut Vec::new());
                prop_assert!(queue.bytes <= buffer_bytes);
            }
        }
    }
}
