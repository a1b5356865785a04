//! NDP's queues (Handley et al., SIGCOMM 2017, §3.1): a short one for data, and one for headers, which
//! goes first.
//!
//! A packet of data that finds no room is cut to its header, or the last one that waits is, by the
//! toss of a coin: which flow loses its payload is then no matter of who comes at which phase. Headers
//! go first, but of eleven packets that leave while both wait one is data: however many headers
//! come, most of the line carries data.
//!
//! Headers that find no room are dropped, and their sender finds out by its timeout. NDP's
//! switches may also return them to their sender (§3.2.4), which its authors call an optimisation for very
//! large incasts.
//!
//! **Others'** packets (exact jobs' over DCTCP, background traffic) can't be trimmed, since no end of them
//! would know what a header is, and eight packets are no room for a transport that fills queues. They have a
//! queue of their own, as wide as the switch's buffer and with DCTCP's threshold, as beside the other schemes.
//! While both wait, either side gets half of the line, by bytes: NDP's paper asks for queues of their own
//! and fair queueing beside TCP (from memory).

use super::{Entry, Waiting};
use crate::net::{Label, PacketId, Packets, topology::mixed};
use std::collections::VecDeque;

/// What such a port holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimmingLimits {
    /// Packets of data that may wait, the one being sent not included.
    pub data_packets_max: u32,
    /// Bytes on the wire of headers and control packets that may wait.
    pub header_bytes_max: u64,
    /// What is left of a packet on the wire.
    pub header_bytes: u32,
    /// So many headers go before a packet of data that waits.
    pub headers_per_packet: u32,
    /// From how many of others' packets on one that comes and can be marked is.
    pub mark_from: u32,
}

/// The queues of a port.
#[derive(Debug)]
pub struct TrimmingQueues {
    limits: TrimmingLimits,
    data: VecDeque<Waiting>,
    headers: VecDeque<Waiting>,
    others: VecDeque<Waiting>,
    /// What NDP's packets took of the line while others' waited too, and others' haven't taken since:
    /// bytes on the wire.
    lead_bytes: i64,
    /// Of all headers that wait.
    header_bytes: u64,
    /// Headers that left since data did.
    headers_in_turn: u32,
    /// How often the coin was tossed.
    tosses: u32,
}

impl TrimmingQueues {
    /// Nothing waits.
    pub fn new(limits: TrimmingLimits) -> Self {
        Self {
            limits,
            data: VecDeque::new(),
            headers: VecDeque::new(),
            others: VecDeque::new(),
            lead_bytes: 0,
            header_bytes: 0,
            headers_in_turn: 0,
            tosses: 0,
        }
    }

    /// See [`super::Discipline::put`]. What a port has for NDP's packets is its own; others' share the
    /// switch's buffer.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        packets: &mut Packets,
        room_bytes: u64,
        displaced: &mut Vec<Waiting>,
    ) -> Entry {
        let Label { flow, path, wire_bytes, .. } = *packets.label(id);
        let new = Waiting { packet: id, wire_bytes, since_ps: now_ps };
        if packets.body(id).is_urgent() {
            return if self.put_header(new) { Entry::Waits } else { Entry::Dropped };
        }
        if !packets.body(id).is_trimmable() {
            return self.put_other(new, packets, room_bytes);
        }
        if self.data.len() < self.limits.data_packets_max as usize {
            self.data.push_back(new);
            return Entry::Waits;
        }
        self.tosses = self.tosses.wrapping_add(1);
        let is_heads = mixed(path ^ mixed(self.tosses ^ flow)) & 1 == 0;
        let last = if is_heads { self.data.pop_back() } else { None };
        if last.is_some() {
            self.data.push_back(new);
        }
        let victim = last.unwrap_or(new);
        if self.trim(victim, packets) {
            return Entry::Trimmed { cut_bytes: victim.wire_bytes - self.limits.header_bytes };
        }
        if last.is_none() {
            return Entry::Dropped;
        }
        displaced.push(victim);
        Entry::Waits
    }

    /// See [`super::Discipline::take`].
    pub fn take(&mut self) -> Option<Waiting> {
        let has_own = !self.headers.is_empty() || !self.data.is_empty();
        if self.others.is_empty() || !has_own {
            self.lead_bytes = 0;
            return if has_own { self.take_own() } else { self.others.pop_front() };
        }
        if self.lead_bytes > 0 {
            let next = self.others.pop_front()?;
            self.lead_bytes -= i64::from(next.wire_bytes);
            return Some(next);
        }
        let next = self.take_own()?;
        self.lead_bytes += i64::from(next.wire_bytes);
        Some(next)
    }

    fn take_own(&mut self) -> Option<Waiting> {
        let is_data_s_turn = self.headers_in_turn >= self.limits.headers_per_packet;
        if self.headers.is_empty() || (is_data_s_turn && !self.data.is_empty()) {
            self.headers_in_turn = 0;
            return self.data.pop_front();
        }
        self.headers_in_turn += u32::from(!self.data.is_empty());
        let next = self.headers.pop_front()?;
        self.header_bytes -= u64::from(next.wire_bytes);
        Some(next)
    }

    /// Whether there was something to trim, and room for the rest.
    fn trim(&mut self, victim: Waiting, packets: &mut Packets) -> bool {
        let header = Waiting { wire_bytes: self.limits.header_bytes, ..victim };
        if victim.wire_bytes < header.wire_bytes
            || !packets.body(victim.packet).is_trimmable()
            || !self.put_header(header)
        {
            return false;
        }
        packets.trim(victim.packet, header.wire_bytes);
        true
    }

    fn put_other(&mut self, new: Waiting, packets: &mut Packets, room_bytes: u64) -> Entry {
        if u64::from(new.wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        let waiting = self.others.len() as u32;
        self.others.push_back(new);
        if waiting >= self.limits.mark_from && packets.label(new.packet).ecn.is_capable() {
            packets.mark(new.packet);
            return Entry::Marked;
        }
        Entry::Waits
    }

    fn put_header(&mut self, header: Waiting) -> bool {
        let bytes = self.header_bytes + u64::from(header.wire_bytes);
        let fits = bytes <= self.limits.header_bytes_max;
        if fits {
            self.header_bytes = bytes;
            self.headers.push_back(header);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Body, Ecn, Ndp, NdpData, Packet};
    use proptest::prelude::*;

    const LIMITS: TrimmingLimits = TrimmingLimits {
        data_packets_max: 8,
        header_bytes_max: 20 * 84,
        header_bytes: 84,
        headers_per_packet: 10,
        mark_from: 5,
    };
    /// For others' packets: a few.
    const ROOM_BYTES: u64 = 12 * 1_538;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Step {
        Data,
        Control,
        Foreign,
        Take,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Data),
            1 => Just(Step::Control),
            1 => Just(Step::Foreign),
            3 => Just(Step::Take),
        ]
    }

    fn packet(path: u32, wire_bytes: u32, body: Body) -> Packet {
        let label = Label { ecn: Ecn::Capable, ..Label::new(0, 0, 1, wire_bytes, path) };
        Packet { label, body }
    }

    fn data() -> Body {
        Body::Ndp(Ndp::Data(NdpData::default()))
    }

    fn control() -> Body {
        Body::Ndp(Ndp::Pull { pulled: 1 })
    }

    fn foreign() -> Body {
        Body::Datagram { message: 0, number: 0, count: 1 }
    }

    proptest! {
        /// NDP §3.1: at most eight packets of data wait, headers keep to their memory, nothing vanishes, and
        /// no packet of data is dropped while there is room for its header. Others' are dropped where the
        /// buffer is full, marked beyond their threshold, and never trimmed.
        #[test]
        fn put__trims_before_it_drops(steps in proptest::collection::vec(step(), 1..400)) {
            let mut packets = Packets::default();
            let mut queues = TrimmingQueues::new(LIMITS);
            let mut inside = std::collections::BTreeSet::new();
            for (number, step) in (0..).zip(steps) {
                let (wire_bytes, body) = match step {
                    Step::Data => (1_538, data()),
                    Step::Control => (84, control()),
                    Step::Foreign => (1_538, foreign()),
                    Step::Take => {
                        let next = queues.take();
                        prop_assert_eq!(next.is_none(), inside.is_empty());
                        if let Some(next) = next {
                            prop_assert!(inside.remove(&next.packet));
                            let packet = packets.remove(next.packet);
                            prop_assert_eq!(packet.label.wire_bytes, next.wire_bytes);
                        }
                        continue;
                    }
                };
                let id = packets.insert(packet(number, wire_bytes, body));
                let room = queues.header_bytes + 84 <= LIMITS.header_bytes_max;
                let mut displaced = Vec::new();
                let others = queues.others.len() as u64;
                let room_bytes = ROOM_BYTES - others * 1_538;
                let entry = queues.put(0, id, &mut packets, room_bytes, &mut displaced);
                if step == Step::Foreign {
                    let expected = match others {
                        0..5 => Entry::Waits,
                        5..12 => Entry::Marked,
                        _ => Entry::Dropped,
                    };
                    prop_assert_eq!(entry, expected);
                }
                if entry == Entry::Dropped {
                    displaced.push(Waiting { packet: id, wire_bytes, since_ps: 0 });
                } else {
                    inside.insert(id);
                }
                for gone in displaced {
                    let packet = packets.remove(gone.packet);
                    prop_assert!(!room || step == Step::Foreign);
                    prop_assert_eq!(packet.label.wire_bytes, gone.wire_bytes);
                    inside.remove(&gone.packet);
                }
                prop_assert_eq!(inside.len(), queues.data.len() + queues.headers.len() + queues.others.len());
                prop_assert!(queues.data.len() <= 8);
                prop_assert!(queues.header_bytes <= LIMITS.header_bytes_max);
                let bytes: u64 =
                    queues.headers.iter().map(|header| u64::from(header.wire_bytes)).sum();
                prop_assert_eq!(queues.header_bytes, bytes);
            }
        }
    }

    /// NDP §3.1: ten headers, then a packet, as long as both wait; alone, either has all of the line.
    #[test]
    fn take__one_in_eleven_is_data() {
        let mut packets = Packets::default();
        let mut queues = TrimmingQueues::new(TrimmingLimits { header_bytes_max: 8_400, ..LIMITS });
        for number in 0..8 {
            let id = packets.insert(packet(number, 1_538, data()));
            assert_eq!(queues.put(0, id, &mut packets, 0, &mut Vec::new()), Entry::Waits);
        }
        for number in 0..50 {
            let id = packets.insert(packet(number, 84, control()));
            assert_eq!(queues.put(0, id, &mut packets, 0, &mut Vec::new()), Entry::Waits);
        }
        let left: Vec<u32> =
            std::iter::from_fn(|| queues.take()).map(|next| next.wire_bytes).collect();
        for (place, bytes) in left.iter().enumerate() {
            let expected = if place % 11 == 10 || place >= 54 { 1_538 } else { 84 };
            assert_eq!(*bytes, expected, "packet {place}");
        }
        assert_eq!(left.len(), 58);
    }

    /// Beside others' packets NDP's have half of the line, by bytes, whichever of them are short; alone,
    /// either has all of it.
    #[test]
    fn take__shares_the_line_with_others() {
        for (own_bytes, other_bytes) in [(1_538, 1_538), (1_538, 200), (300, 1_538)] {
            let mut packets = Packets::default();
            let mut queues = TrimmingQueues::new(LIMITS);
            let mut put = |queues: &mut TrimmingQueues, bytes, body| {
                let id = packets.insert(packet(0, bytes, body));
                queues.put(0, id, &mut packets, u64::MAX, &mut Vec::new());
                id
            };
            let (mut sent, mut others) = ([0u32; 2], std::collections::BTreeSet::new());
            for _ in 0..5_000 {
                while queues.others.len() < 2 {
                    others.insert(put(&mut queues, other_bytes, foreign()));
                }
                while queues.data.len() < 2 {
                    put(&mut queues, own_bytes, data());
                }
                let next = queues.take().unwrap();
                sent[usize::from(others.contains(&next.packet))] += next.wire_bytes;
            }
            assert!(sent[0].abs_diff(sent[1]) <= 2 * 1_538, "{sent:?}");
            let left = std::iter::from_fn(|| queues.take());
            assert_eq!(left.count(), 3, "what is left leaves");
        }
    }

    /// NDP §3.1: either goes with 50 % probability.
    #[test]
    fn put__trims_the_new_one_or_the_last_one() {
        let mut packets = Packets::default();
        let mut queues =
            TrimmingQueues::new(TrimmingLimits { header_bytes_max: u64::MAX, ..LIMITS });
        let mut new_ones = 0;
        for number in 0..10_008 {
            let id = packets.insert(packet(number * 7, 1_538, data()));
            queues.put(0, id, &mut packets, 0, &mut Vec::new());
            new_ones += u32::from(packets.label(id).wire_bytes == 84);
        }
        assert!((4_800..=5_200).contains(&new_ones), "{new_ones} of 10,000");
    }
}
