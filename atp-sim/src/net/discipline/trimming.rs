//! Trimming queues (Handley et al., SIGCOMM 2017, §3.1): a short queue for data, and a queue for
//! headers that is served first.
//!
//! - A data packet without room is trimmed to its header, or the last queued one is, at random. So
//!   no flow loses its payloads because of its phase.
//! - Headers go first, but while both queues wait, one packet in eleven is data. So most of the
//!   line's time carries data even under many headers.
//! - A header without room is dropped, and its sender times out. The paper's switches may instead
//!   return the header to its sender (§3.2.4), an optimization for very large incasts.
//! - **Foreign packets** (exact jobs, background traffic) are never trimmed, because their hosts
//!   couldn't use a header. A queue of eight packets is also too short for a transport that fills
//!   queues. They have a separate queue in the switch's buffer, with the usual ECN threshold.
//! - While foreign and other packets wait, each side gets half of the line, by bytes. The paper
//!   asks for separate queues and fair queueing beside TCP (cited from memory).

use super::{Entry, Queued};
use crate::net::{Content, Label, Labels, PacketId, topology::mixed};
use std::collections::VecDeque;

/// The limits of a port's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimmingLimits {
    /// Maximum number of waiting data packets, without the one being sent.
    pub data_packets_max: u32,
    /// Maximum bytes on the wire of waiting headers and control packets.
    pub header_bytes_max: u64,
    /// Length of a trimmed packet on the wire.
    pub header_bytes: u32,
    /// Number of headers served before a waiting data packet.
    pub headers_per_packet: u32,
    /// ECN threshold of the foreign queue, in packets.
    pub mark_from: u32,
}

/// The queues of a port.
#[derive(Debug)]
pub struct TrimmingQueues {
    limits: TrimmingLimits,
    data: VecDeque<Queued>,
    headers: VecDeque<Queued>,
    foreign: VecDeque<Queued>,
    /// Bytes on the wire by which data and headers are ahead of foreign packets, while both wait.
    lead_bytes: i64,
    /// Bytes of all queued headers.
    header_bytes: u64,
    /// Headers served since the last data packet.
    headers_in_row: u32,
    /// Number of random choices so far.
    choices: u32,
}

impl TrimmingQueues {
    /// Makes empty queues.
    pub fn new(limits: TrimmingLimits) -> Self {
        Self {
            limits,
            data: VecDeque::new(),
            headers: VecDeque::new(),
            foreign: VecDeque::new(),
            lead_bytes: 0,
            header_bytes: 0,
            headers_in_row: 0,
            choices: 0,
        }
    }

    /// See [`super::Discipline::put`]. Only foreign packets use the switch's buffer.
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        room_bytes: u64,
        displaced: &mut Vec<Queued>,
    ) -> Entry {
        let Label { flow, path, wire_bytes, content, .. } = *labels.label(id);
        let new = Queued { packet: id, wire_bytes, since_ps: now_ps };
        if content.is_urgent() {
            return if self.put_header(new) { Entry::Queued } else { Entry::Dropped };
        }
        if content != Content::TrimmableData {
            return self.put_foreign(new, labels, room_bytes);
        }
        if self.data.len() < self.limits.data_packets_max as usize {
            self.data.push_back(new);
            return Entry::Queued;
        }
        self.choices = self.choices.wrapping_add(1);
        let trims_last = mixed(path ^ mixed(self.choices ^ flow)) & 1 == 0;
        let last = if trims_last { self.data.pop_back() } else { None };
        if last.is_some() {
            self.data.push_back(new);
        }
        let victim = last.unwrap_or(new);
        if self.trim(victim, labels) {
            return Entry::Trimmed { cut_bytes: victim.wire_bytes - self.limits.header_bytes };
        }
        if last.is_none() {
            return Entry::Dropped;
        }
        displaced.push(victim);
        Entry::Queued
    }

    /// See [`super::Discipline::take`].
    pub fn take(&mut self) -> Option<Queued> {
        let has_own = !self.headers.is_empty() || !self.data.is_empty();
        if self.foreign.is_empty() || !has_own {
            self.lead_bytes = 0;
            return if has_own { self.take_own() } else { self.foreign.pop_front() };
        }
        if self.lead_bytes > 0 {
            let next = self.foreign.pop_front()?;
            self.lead_bytes -= i64::from(next.wire_bytes);
            return Some(next);
        }
        let next = self.take_own()?;
        self.lead_bytes += i64::from(next.wire_bytes);
        Some(next)
    }

    fn take_own(&mut self) -> Option<Queued> {
        let is_data_due = self.headers_in_row >= self.limits.headers_per_packet;
        if self.headers.is_empty() || (is_data_due && !self.data.is_empty()) {
            self.headers_in_row = 0;
            return self.data.pop_front();
        }
        self.headers_in_row += u32::from(!self.data.is_empty());
        let next = self.headers.pop_front()?;
        self.header_bytes -= u64::from(next.wire_bytes);
        Some(next)
    }

    /// Trims a packet and queues its header. Returns false if there is no room for the header.
    fn trim(&mut self, victim: Queued, labels: &mut Labels) -> bool {
        let header = Queued { wire_bytes: self.limits.header_bytes, ..victim };
        if victim.wire_bytes < header.wire_bytes
            || labels.label(victim.packet).content != Content::TrimmableData
            || !self.put_header(header)
        {
            return false;
        }
        labels.trim(victim.packet, header.wire_bytes);
        true
    }

    fn put_foreign(&mut self, new: Queued, labels: &mut Labels, room_bytes: u64) -> Entry {
        if u64::from(new.wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        let waiting = self.foreign.len() as u32;
        self.foreign.push_back(new);
        if waiting >= self.limits.mark_from && labels.label(new.packet).ecn.is_capable() {
            labels.mark(new.packet);
            return Entry::Marked;
        }
        Entry::Queued
    }

    fn put_header(&mut self, header: Queued) -> bool {
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
    use crate::net::Ecn;
    use proptest::prelude::*;

    const LIMITS: TrimmingLimits = TrimmingLimits {
        data_packets_max: 8,
        header_bytes_max: 20 * 84,
        header_bytes: 84,
        headers_per_packet: 10,
        mark_from: 5,
    };
    /// Room for a few foreign packets.
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

    fn label(path: u32, wire_bytes: u32, content: Content) -> Label {
        Label { ecn: Ecn::Capable, content, ..Label::new(0, 0, 1, wire_bytes, path) }
    }

    proptest! {
        /// SIGCOMM 2017, §3.1: at most eight data packets wait, headers stay within their limit, no
        /// packet vanishes, and no data packet is dropped while there is room for its header.
        /// Foreign packets are dropped when the buffer is full, marked beyond their threshold, and
        /// never trimmed.
        #[test]
        fn put__trims_before_it_drops(steps in proptest::collection::vec(step(), 1..400)) {
            let mut labels = Labels::default();
            let mut queues = TrimmingQueues::new(LIMITS);
            let mut inside = std::collections::BTreeSet::new();
            for (number, step) in (0..).zip(steps) {
                let (wire_bytes, content) = match step {
                    Step::Data => (1_538, Content::TrimmableData),
                    Step::Control => (84, Content::UrgentControl),
                    Step::Foreign => (1_538, Content::Data),
                    Step::Take => {
                        let next = queues.take();
                        prop_assert_eq!(next.is_none(), inside.is_empty());
                        if let Some(next) = next {
                            prop_assert!(inside.remove(&next.packet));
                            let label = labels.remove(next.packet);
                            prop_assert_eq!(label.wire_bytes, next.wire_bytes);
                        }
                        continue;
                    }
                };
                let id = labels.insert(label(number, wire_bytes, content));
                let room = queues.header_bytes + 84 <= LIMITS.header_bytes_max;
                let mut displaced = Vec::new();
                let foreign = queues.foreign.len() as u64;
                let room_bytes = ROOM_BYTES - foreign * 1_538;
                let entry = queues.put(0, id, &mut labels, room_bytes, &mut displaced);
                if step == Step::Foreign {
                    let expected = match foreign {
                        0..5 => Entry::Queued,
                        5..12 => Entry::Marked,
                        _ => Entry::Dropped,
                    };
                    prop_assert_eq!(entry, expected);
                }
                if entry == Entry::Dropped {
                    displaced.push(Queued { packet: id, wire_bytes, since_ps: 0 });
                } else {
                    inside.insert(id);
                }
                for gone in displaced {
                    let label = labels.remove(gone.packet);
                    prop_assert!(!room || step == Step::Foreign);
                    prop_assert_eq!(label.wire_bytes, gone.wire_bytes);
                    inside.remove(&gone.packet);
                }
                let own = queues.data.len() + queues.headers.len();
                prop_assert_eq!(inside.len(), own + queues.foreign.len());
                prop_assert!(queues.data.len() <= 8);
                prop_assert!(queues.header_bytes <= LIMITS.header_bytes_max);
                let bytes: u64 =
                    queues.headers.iter().map(|header| u64::from(header.wire_bytes)).sum();
                prop_assert_eq!(queues.header_bytes, bytes);
            }
        }
    }

    /// SIGCOMM 2017, §3.1: ten headers precede a data packet while both wait. If only one kind
    /// waits, it gets the whole line.
    #[test]
    fn take__one_in_eleven_is_data() {
        let mut labels = Labels::default();
        let mut queues = TrimmingQueues::new(TrimmingLimits { header_bytes_max: 8_400, ..LIMITS });
        for number in 0..8 {
            let id = labels.insert(label(number, 1_538, Content::TrimmableData));
            assert_eq!(queues.put(0, id, &mut labels, 0, &mut Vec::new()), Entry::Queued);
        }
        for number in 0..50 {
            let id = labels.insert(label(number, 84, Content::UrgentControl));
            assert_eq!(queues.put(0, id, &mut labels, 0, &mut Vec::new()), Entry::Queued);
        }
        let left: Vec<u32> =
            std::iter::from_fn(|| queues.take()).map(|next| next.wire_bytes).collect();
        for (index, bytes) in left.iter().enumerate() {
            let expected = if index % 11 == 10 || index >= 54 { 1_538 } else { 84 };
            assert_eq!(*bytes, expected, "packet {index}");
        }
        assert_eq!(left.len(), 58);
    }

    /// Beside foreign packets, data and headers get half of the line by bytes, for any lengths. If
    /// only one side waits, it gets the whole line.
    #[test]
    fn take__shares_the_line_with_foreign_packets() {
        for (own_bytes, foreign_bytes) in [(1_538, 1_538), (1_538, 200), (300, 1_538)] {
            let mut labels = Labels::default();
            let mut queues = TrimmingQueues::new(LIMITS);
            let mut put = |queues: &mut TrimmingQueues, bytes, content| {
                let id = labels.insert(label(0, bytes, content));
                queues.put(0, id, &mut labels, u64::MAX, &mut Vec::new());
                id
            };
            let (mut sent, mut foreign) = ([0u32; 2], std::collections::BTreeSet::new());
            for _ in 0..5_000 {
                while queues.foreign.len() < 2 {
                    foreign.insert(put(&mut queues, foreign_bytes, Content::Data));
                }
                while queues.data.len() < 2 {
                    put(&mut queues, own_bytes, Content::TrimmableData);
                }
                let next = queues.take().unwrap();
                sent[usize::from(foreign.contains(&next.packet))] += next.wire_bytes;
            }
            assert!(sent[0].abs_diff(sent[1]) <= 2 * 1_538, "{sent:?}");
            let left = std::iter::from_fn(|| queues.take());
            assert_eq!(left.count(), 3, "the rest leaves");
        }
    }

    /// SIGCOMM 2017, §3.1: the new packet or the last one is trimmed, with equal probability.
    #[test]
    fn put__trims_the_new_one_or_the_last_one() {
        let mut labels = Labels::default();
        let mut queues =
            TrimmingQueues::new(TrimmingLimits { header_bytes_max: u64::MAX, ..LIMITS });
        let mut new_ones = 0;
        for number in 0..10_008 {
            let id = labels.insert(label(number * 7, 1_538, Content::TrimmableData));
            queues.put(0, id, &mut labels, 0, &mut Vec::new());
            new_ones += u32::from(labels.label(id).wire_bytes == 84);
        }
        assert!((4_800..=5_200).contains(&new_ones), "{new_ones} of 10,000");
    }
}
