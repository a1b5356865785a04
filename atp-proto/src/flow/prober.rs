//! Decides when a flow sends a probe, and about which slots of which lane.
//!
//! Packets of a fast lane get no ACKs of their own. The answer to a probe (PROBE) reports 256 slots
//! instead. A probe leaves before a burst: behind a burst that fills a queue it would be dropped.
//! Consecutive probes overlap, because a probe may overtake the last packets before it.

use super::ByGroup;
use atp_common::{
    maps::ANSWER_WORDS,
    wire::{Fields, Header, Kind, PROBE_LEN, PROBE_SLOTS, U24_MAX, probe_packet},
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
/// The most probes of a flow without an answer: half as many as the ring keeps answers.
const WAITING_MAX: usize = ANSWER_WORDS as usize / 2;
/// A probe counts as lost when a later one was answered, or after two timeouts, at least this long.
const PROBE_TIMEOUT_NS_MIN: u64 = 4_000_000;

/// A probe that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The probe's number in the flow.
    pub number: u32,
    /// The slots that the probe covers.
    pub slots: Range<u32>,
    /// The estimated time at which it left this host.
    pub left_ns: u64,
}

/// The probes of a flow. Its ring tells by number which of them were answered, so the lanes share
/// one sequence of numbers.
pub struct Probers {
    lanes: ByGroup<Prober>,
    /// The number of the last probe.
    number: u32,
    /// The index of the lane that was checked last: lanes take turns round-robin.
    last_lane: usize,
}

impl Probers {
    /// For the lanes of a flow's groups.
    pub fn new(job: u32, cookie: u32, groups: impl IntoIterator<Item = u8>) -> Self {
        let lane = |group| (group, Prober::new(job, cookie, group));
        let lanes = ByGroup::new(groups.into_iter().map(lane));
        Self { lanes, number: 0, last_lane: 0 }
    }

    /// Records a packet of a group without an ACK of its own that leaves.
    pub fn sent(&mut self, group: u8, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(group) {
            lane.sent(slot);
        }
    }

    /// Takes back the last packet of a group: it did not leave.
    pub fn take_back(&mut self, group: u8, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(group) {
            lane.take_back(slot);
        }
    }

    /// Removes the probes that were answered and returns them with their groups. `timeout_ns`: a
    /// group's timeout; `is_answered` tells by number.
    pub fn take_answered(
        &mut self,
        now_ns: u64,
        timeout_ns: impl Fn(u8) -> u64,
        is_answered: impl Fn(u32) -> bool,
    ) -> Vec<(u8, Probe)> {
        let mut answered = Vec::new();
        for (group, lane) in self.lanes.iter_mut() {
            let probes = lane.take_answered(now_ns, timeout_ns(*group), &is_answered);
            answered.extend(probes.into_iter().map(|probe| (*group, probe)));
        }
        answered
    }

    /// The next probe, if one is due, and its group. `backlog_ns`: how long it will wait in this
    /// host; `oldest`: the slot of the oldest transmission in flight.
    pub fn next_probe(
        &mut self,
        now_ns: u64,
        backlog_ns: impl Fn(u8) -> u64,
        oldest: impl Fn(u8) -> Option<u32>,
    ) -> Option<(u8, [u8; PROBE_LEN])> {
        let waiting: usize = self.lanes.iter().map(|(_, lane)| lane.waiting.len()).sum();
        if waiting >= WAITING_MAX {
            return None;
        }
        let number = self.number.wrapping_add(1) & U24_MAX;
        for _ in 0..self.lanes.groups() {
            self.last_lane = (self.last_lane + 1) % self.lanes.groups();
            let Some((group, lane)) = self.lanes.iter_mut().nth(self.last_lane) else { continue };
            let (backlog_ns, oldest) = (backlog_ns(*group), oldest(*group));
            if let Some(packet) = lane.next_probe(now_ns, number, backlog_ns, oldest) {
                self.number = number;
                return Some((*group, packet));
            }
        }
        None
    }

    /// Takes back the last probe of a group: it did not leave.
    pub fn take_back_probe(&mut self, group: u8) {
        if let Some(lane) = self.lanes.get_mut(group) {
            lane.take_back_probe();
        }
    }
}

/// The probes of one lane.
#[derive(Debug)]
struct Prober {
    header: Fields,
    /// The slot after the last packet sent without an ACK of its own.
    sent_to: u32,
    /// The slot after the last one that a probe covers.
    probed_to: u32,
    /// Packets since the last probe.
    unprobed_packets: u32,
    /// When the last probe was made.
    probed_ns: u64,
    /// Probes without an answer, oldest first.
    waiting: VecDeque<Probe>,
    /// The first slot of a lost probe.
    retry_from: Option<u32>,
}

impl Prober {
    /// For the lane of a flow's group.
    fn new(job: u32, cookie: u32, group: u8) -> Self {
        let header = Fields { group, job, cookie, ..Fields::of(Kind::Probe) };
        Self {
            header,
            sent_to: 0,
            probed_to: 0,
            unprobed_packets: 0,
            probed_ns: 0,
            waiting: VecDeque::new(),
            retry_from: None,
        }
    }

    /// Records a packet without an ACK of its own that leaves.
    fn sent(&mut self, slot: u32) {
        if self.probed_to == self.sent_to {
            // Slots in between belong to other packets.
            self.probed_to = slot;
        }
        self.sent_to = slot.wrapping_add(1);
        self.unprobed_packets += 1;
    }

    /// Takes back the last packet: it did not leave.
    fn take_back(&mut self, slot: u32) {
        self.sent_to = slot;
        self.unprobed_packets = self.unprobed_packets.saturating_sub(1);
    }

    /// Removes the probes that were answered and returns them. `is_answered` tells by number.
    fn take_answered(
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

    /// The probe with this number, if one is due.
    fn next_probe(
        &mut self,
        now_ns: u64,
        number: u32,
        backlog_ns: u64,
        oldest: Option<u32>,
    ) -> Option<[u8; PROBE_LEN]> {
        let waited = now_ns.saturating_sub(self.probed_ns) >= INTERVAL_NS;
        if self.unprobed_packets < PACKETS_MIN && !waited {
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
        (self.probed_ns, self.unprobed_packets) = (now_ns, 0);
        let left_ns = now_ns + backlog_ns;
        self.waiting.push_back(Probe { number, slots: start..end, left_ns });
        let fields = Fields { index: number, slot: start, message: self.sent_to, ..self.header };
        Some(probe_packet(&Header::new(&fields)))
    }

    /// Takes back the last probe: it did not leave.
    fn take_back_probe(&mut self) {
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
            let mut probers = Probers::new(1, 2, [3]);
            let (mut now_ns, mut next) = (5 * MS, 0u32);
            let mut unknown = BTreeSet::new();
            let mut answers = BTreeSet::new();
            let mut last: Option<(u64, u32)> = None;
            let end_game = std::iter::repeat_n((0, MS, 0), 80);
            for (packets, ns, luck) in steps.into_iter().chain(end_game) {
                now_ns += ns;
                let is_answered = |number| answers.contains(&number);
                for (_, probe) in probers.take_answered(now_ns, |_| MS, is_answered) {
                    for i in 0..probe.slots.end.wrapping_sub(probe.slots.start) {
                        unknown.remove(&probe.slots.start.wrapping_add(i).wrapping_sub(start));
                    }
                }
                let oldest = unknown.first().map(|slot| start.wrapping_add(*slot));
                if let Some((_, packet)) = probers.next_probe(now_ns, |_| 0, |_| oldest) {
                    let (slot, number) = slot_and_number(&packet);
                    prop_assert_eq!(slot % 32, 0);
                    if let Some((last_ns, sent)) = last {
                        prop_assert!(now_ns - last_ns >= MS || next - sent >= 64);
                    }
                    last = Some((now_ns, next));
                    match luck {
                        0 | 1 => { answers.insert(number); }
                        2 => {}
                        _ => { probers.take_back_probe(3); last = None; }
                    }
                }
                for _ in 0..packets {
                    probers.sent(3, start.wrapping_add(next));
                    unknown.insert(next);
                    next += 1;
                }
            }
            prop_assert!(unknown.is_empty(), "{:?} of {}", unknown, next);
        }
    }

    #[test]
    fn next_probe__covers_many_packets_by_one_probe() {
        let mut probers = Probers::new(1, 2, [3]);
        let (mut probes, mut now_ns) = (0, MS);
        for slot in 0..10_000u32 {
            probers.sent(3, slot);
            now_ns += 1_000;
            let has_probe =
                slot % 64 == 63 && probers.next_probe(now_ns, |_| 0, |_| Some(0)).is_some();
            probes += u32::from(has_probe);
            probers.take_answered(now_ns, |_| MS, |_| true);
        }
        assert_eq!(probes, 10_000 / 128);
    }

    #[test]
    fn take_answered__an_answer_to_one_lane_is_none_to_another() {
        let mut probers = Probers::new(1, 2, [3, 4]);
        let probe = |probers: &mut Probers, group: u8, now_ns| {
            (0..64).for_each(|slot| probers.sent(group, slot));
            let (probed, packet) = probers.next_probe(now_ns, |_| 0, |_| Some(0)).unwrap();
            assert_eq!(probed, group);
            slot_and_number(&packet).1
        };
        let first = probe(&mut probers, 3, 2 * MS);
        let is_first = |number| number == first;
        assert_eq!(probers.take_answered(2 * MS, |_| MS, is_first).len(), 1);
        let second = probe(&mut probers, 4, 3 * MS);
        assert_eq!(probers.take_answered(3 * MS, |_| MS, is_first), []);
        let answered = probers.take_answered(3 * MS, |_| MS, |number| number == second);
        assert_eq!(answered[0].0, 4);
    }

    #[test]
    fn next_probe__few_wait_at_once_over_all_lanes() {
        let mut probers = Probers::new(1, 2, 0..=255);
        let mut waiting = 0;
        for round in 0..1_000 {
            (0..=255).for_each(|group| probers.sent(group, round));
            let probe = probers.next_probe((1 + u64::from(round)) * 2 * MS, |_| 0, |_| Some(0));
            waiting += usize::from(probe.is_some());
        }
        assert_eq!(waiting, WAITING_MAX);
    }
}
