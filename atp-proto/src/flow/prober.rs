//! Decides when a lane sends a probe, and about which slots.
//!
//! Packets of a fast lane get no ACKs of their own. The answer to a probe (PROBE) reports 256 slots
//! instead. A probe leaves before a burst: behind a burst that fills a queue it would be dropped.
//! Consecutive probes overlap, because a probe may overtake the last packets before it.

use atp_common::{
    maps::ANSWER_WORDS,
    wire::{Fields, Flags, Header, Kind, PROBE_LEN, PROBE_SLOTS, U24_MAX, probe_packet},
};
use std::{collections::VecDeque, ops::Range};

/// The number of packets that one probe covers, if that many were sent.
const PACKETS: u32 = 128;
/// The fewest packets between two probes. The daemon's programs drop probes after fewer than half
/// as many, unless half of `INTERVAL_NS` has passed.
const PACKETS_MIN: u32 = 64;
/// The interval after which a probe may follow fewer packets.
const INTERVAL_NS: u64 = 1_000_000;
/// How many slots of the previous probe the next one repeats.
const OVERLAP: u32 = 32;
/// The most probes without an answer: half of the answers' numbers that the ring keeps.
const WAITING_MAX: usize = ANSWER_WORDS as usize / 2;
/// A probe counts as lost when a later one was answered, or after two timeouts, at least this long.
const PROBE_TIMEOUT_NS_MIN: u64 = 4_000_000;

/// A probe that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number, counted by lane.
    pub number: u32,
    /// The slots that the probe covers.
    pub slots: Range<u32>,
    /// The estimated time at which it left this host.
    pub left_ns: u64,
}

/// The probes of one lane.
#[derive(Debug)]
pub struct Prober {
    header: Fields,
    /// The slot after the last packet sent without an ACK of its own.
    sent_to: u32,
    /// The slot after the last one that a probe covers.
    probed_to: u32,
    /// Packets since the last probe.
    unprobed_packets: u32,
    /// When the last probe was made.
    probed_ns: u64,
    /// The number of the last probe.
    number: u32,
    /// Probes without an answer, oldest first.
    waiting: VecDeque<Probe>,
    /// The first slot of a lost probe.
    retry_from: Option<u32>,
}

impl Prober {
    /// For the lane of a flow's group.
    pub fn new(job: u32, cookie: u32, group: u8) -> Self {
        let header = Fields {
            kind: Kind::Probe,
            flags: Flags::NONE,
            group,
            job,
            cookie,
            message: 0,
            index: 0,
            count: 0,
            epoch: 0,
            slot: 0,
            time: 0,
        };
        Self {
            header,
            sent_to: 0,
            probed_to: 0,
            unprobed_packets: 0,
            probed_ns: 0,
            number: 0,
            waiting: VecDeque::new(),
            retry_from: None,
        }
    }

    /// Records a packet without an ACK of its own that leaves.
    pub fn sent(&mut self, slot: u32) {
        if self.probed_to == self.sent_to {
            // Slots in between belong to other packets.
            self.probed_to = slot;
        }
        self.sent_to = slot.wrapping_add(1);
        self.unprobed_packets += 1;
    }

    /// Takes back the last packet: it did not leave.
    pub fn take_back(&mut self, slot: u32) {
        self.sent_to = slot;
        self.unprobed_packets = self.unprobed_packets.saturating_sub(1);
    }

    /// Removes the probes that were answered and returns them. `is_answered` tells by number.
    pub fn take_answered(
        &mut self,
        now_ns: u64,
        timeout_ns: u64,
        is_answered: impl Fn(u32) -> bool,
    ) -> Vec<Probe> {
        let mut answered = Vec::new();
        let latest = self.waiting.iter().rposition(|probe| is_answered(probe.number));
        for probe in self.waiting.drain(..latest.map_or(0, |index| index + 1)) {
            if is_answered(probe.number) {
                answered.push(probe);
            } else {
                self.retry_from.get_or_insert(probe.slots.start);
            }
        }
        let probe_timeout_ns = PROBE_TIMEOUT_NS_MIN.max(2 * timeout_ns);
        while let Some(probe) = self.waiting.front()
            && now_ns.saturating_sub(probe.left_ns) > probe_timeout_ns
        {
            self.retry_from.get_or_insert(probe.slots.start);
            self.waiting.pop_front();
        }
        answered
    }

    /// The next probe, if one is due. `backlog_ns` is the time that it will wait in this host,
    /// `oldest` the slot of the oldest transmission in flight.
    pub fn next_probe(
        &mut self,
        now_ns: u64,
        backlog_ns: u64,
        oldest: Option<u32>,
    ) -> Option<[u8; PROBE_LEN]> {
        let waited = now_ns.saturating_sub(self.probed_ns) >= INTERVAL_NS;
        if (self.unprobed_packets < PACKETS_MIN && !waited) || self.waiting.len() >= WAITING_MAX {
            return None;
        }
        let unknown = self.sent_to.wrapping_sub(self.probed_to);
        let start = if let Some(start) = self.retry_from.take() {
            start
        } else if unknown >= PACKETS || (unknown > 0 && waited) {
            self.probed_to.wrapping_sub(OVERLAP)
        } else {
            oldest.filter(|slot| {
                waited && self.waiting.is_empty() && (self.sent_to.wrapping_sub(*slot) as i32) > 0
            })?
        };
        let start = start & !31;
        let left = self.sent_to.wrapping_sub(start);
        let end = start.wrapping_add(left.min(PROBE_SLOTS));
        if (end.wrapping_sub(self.probed_to) as i32) > 0 {
            self.probed_to = end;
        }
        self.number = self.number.wrapping_add(1) & U24_MAX;
        (self.probed_ns, self.unprobed_packets) = (now_ns, 0);
        let left_ns = now_ns + backlog_ns;
        self.waiting.push_back(Probe { number: self.number, slots: start..end, left_ns });
        let fields =
            Fields { index: self.number, slot: start, message: self.sent_to, ..self.header };
        Some(probe_packet(&Header::new(&fields)))
    }

    /// Takes back the last probe: it did not leave.
    pub fn take_back_probe(&mut self) {
        if let Some(probe) = self.waiting.pop_back() {
            self.retry_from = Some(probe.slots.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::wire::HEADER_LEN;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MS: u64 = 1_000_000;

    fn slot_and_number(packet: &[u8; PROBE_LEN]) -> (u32, u32) {
        let (header, kind) = Header::parse(&packet[..HEADER_LEN]).unwrap();
        assert_eq!(kind, Kind::Probe);
        (header.slot(), header.index())
    }

    proptest! {
        // Under any losses, in the end every slot is covered by an answered probe that left after
        // it, and no two probes leave too soon after each other.
        #[test]
        fn next_probe__covers_every_slot(
            start: u32,
            steps in proptest::collection::vec((0u32..80, 1u64..400_000, 0u8..4), 1..300),
        ) {
            let mut prober = Prober::new(1, 2, 3);
            let (mut now_ns, mut next) = (5 * MS, 0u32);
            let mut unknown = BTreeSet::new();
            let mut answers = BTreeSet::new();
            let mut last: Option<(u64, u32)> = None;
            let end_game = std::iter::repeat_n((0, MS, 0), 80);
            for (packets, ns, luck) in steps.into_iter().chain(end_game) {
                now_ns += ns;
                for probe in prober.take_answered(now_ns, MS, |number| answers.contains(&number)) {
                    for i in 0..probe.slots.end.wrapping_sub(probe.slots.start) {
                        unknown.remove(&probe.slots.start.wrapping_add(i).wrapping_sub(start));
                    }
                }
                let oldest = unknown.first().map(|slot| start.wrapping_add(*slot));
                if let Some(packet) = prober.next_probe(now_ns, 0, oldest) {
                    let (slot, number) = slot_and_number(&packet);
                    prop_assert_eq!(slot % 32, 0);
                    if let Some((last_ns, sent)) = last {
                        prop_assert!(now_ns - last_ns >= MS || next - sent >= 64);
                    }
                    last = Some((now_ns, next));
                    match luck {
                        0 | 1 => { answers.insert(number); }
                        2 => {}
                        _ => { prober.take_back_probe(); last = None; }
                    }
                }
                for _ in 0..packets {
                    prober.sent(start.wrapping_add(next));
                    unknown.insert(next);
                    next += 1;
                }
            }
            prop_assert!(unknown.is_empty(), "{:?} of {}", unknown, next);
        }
    }

    #[test]
    fn next_probe__covers_many_packets_by_one_probe() {
        let mut prober = Prober::new(1, 2, 3);
        let (mut probes, mut now_ns) = (0, MS);
        for slot in 0..10_000u32 {
            prober.sent(slot);
            now_ns += 1_000;
            probes += u32::from(slot % 64 == 63 && prober.next_probe(now_ns, 0, Some(0)).is_some());
            prober.take_answered(now_ns, MS, |_| true);
        }
        assert_eq!(probes, 10_000 / 128);
    }
}
