//! When to ask what arrived, and about which slots.
//!
//! Packets of a fast lane get no ACK of their own; a question (PROBE) brings 256 slots back. It leaves
//! before a burst, not after one: behind a burst that filled its queue it would be what doesn't fit.
//! Questions overlap a little, for the youngest packets of each may have been overtaken by it.

use atp_common::{
    maps::ANSWER_WORDS,
    wire::{Fields, Flags, Header, Kind, PROBE_LEN, PROBE_SLOTS, U24_MAX, probe_packet},
};
use std::{collections::VecDeque, ops::Range};

/// Packets that are asked about together, as long as there are as many.
const PACKETS: u32 = 128;
/// The datapath lets a lane ask again after half as many, ...
const PACKETS_MIN: u32 = 64;
/// ... or after half as long.
const INTERVAL_NS: u64 = 1_000_000;
/// How far a question reaches back into the one before.
const OVERLAP: u32 = 32;
/// Answers are told apart by a number of which the datapath keeps as many as this twice.
const WAITING_MAX: usize = ANSWER_WORDS as usize / 2;
/// A question counts as lost when a later one was answered, or after this long or two timeouts.
const PATIENCE_NS_MIN: u64 = 4_000_000;

/// A question that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub number: u32,
    /// What it asks about; the end is the first slot that left after it, or its last one's next.
    pub slots: Range<u32>,
    /// When it left this host, as far as is known.
    pub left_ns: u64,
}

/// What one lane asks.
#[derive(Debug)]
pub struct Prober {
    header: Fields,
    /// The slot after the last packet that left without an ACK to come, and that up to which questions
    /// have left.
    sent_to: u32,
    asked_to: u32,
    /// Packets since the last question.
    unasked: u32,
    asked_ns: u64,
    number: u32,
    waiting: VecDeque<Question>,
    /// Where a question began that got no answer.
    again: Option<u32>,
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
            asked_to: 0,
            unasked: 0,
            asked_ns: 0,
            number: 0,
            waiting: VecDeque::new(),
            again: None,
        }
    }

    /// A packet without an ACK to come leaves.
    pub fn sent(&mut self, slot: u32) {
        if self.asked_to == self.sent_to {
            // Whatever was between belongs to others.
            self.asked_to = slot;
        }
        self.sent_to = slot.wrapping_add(1);
        self.unasked += 1;
    }

    /// The youngest of them did not leave after all.
    pub fn unsent(&mut self, slot: u32) {
        self.sent_to = slot;
        self.unasked = self.unasked.saturating_sub(1);
    }

    /// Takes the questions that were answered, as `is_answered` says of their numbers.
    pub fn take_answered(
        &mut self,
        now_ns: u64,
        timeout_ns: u64,
        is_answered: impl Fn(u32) -> bool,
    ) -> Vec<Question> {
        let mut answered = Vec::new();
        let latest = self.waiting.iter().rposition(|question| is_answered(question.number));
        for question in self.waiting.drain(..latest.map_or(0, |at| at + 1)) {
            if is_answered(question.number) {
                answered.push(question);
            } else {
                self.again.get_or_insert(question.slots.start);
            }
        }
        let patience_ns = PATIENCE_NS_MIN.max(2 * timeout_ns);
        while let Some(question) = self.waiting.front()
            && now_ns.saturating_sub(question.left_ns) > patience_ns
        {
            self.again.get_or_insert(question.slots.start);
            self.waiting.pop_front();
        }
        answered
    }

    /// The next question, if one is due. It will wait in this host for `backlog_ns`. `oldest`: the oldest
    /// transmission whose fate isn't known.
    pub fn ask(
        &mut self,
        now_ns: u64,
        backlog_ns: u64,
        oldest: Option<u32>,
    ) -> Option<[u8; PROBE_LEN]> {
        let waited = now_ns.saturating_sub(self.asked_ns) >= INTERVAL_NS;
        if (self.unasked < PACKETS_MIN && !waited) || self.waiting.len() >= WAITING_MAX {
            return None;
        }
        let unknown = self.sent_to.wrapping_sub(self.asked_to);
        let start = if let Some(start) = self.again.take() {
            start
        } else if unknown >= PACKETS || (unknown > 0 && waited) {
            self.asked_to.wrapping_sub(OVERLAP)
        } else {
            oldest.filter(|slot| {
                waited && self.waiting.is_empty() && (self.sent_to.wrapping_sub(*slot) as i32) > 0
            })?
        };
        let start = start & !31;
        let left = self.sent_to.wrapping_sub(start);
        let end = start.wrapping_add(left.min(PROBE_SLOTS));
        if (end.wrapping_sub(self.asked_to) as i32) > 0 {
            self.asked_to = end;
        }
        self.number = self.number.wrapping_add(1) & U24_MAX;
        (self.asked_ns, self.unasked) = (now_ns, 0);
        let left_ns = now_ns + backlog_ns;
        self.waiting.push_back(Question { number: self.number, slots: start..end, left_ns });
        let fields =
            Fields { index: self.number, slot: start, message: self.sent_to, ..self.header };
        Some(probe_packet(&Header::new(&fields)))
    }

    /// The last question did not leave after all.
    pub fn not_asked(&mut self) {
        if let Some(question) = self.waiting.pop_back() {
            self.again = Some(question.slots.start);
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
        // Whatever gets lost: in the end every slot was asked about by a question that was answered and
        // left after it, and no two questions left too soon after each other.
        #[test]
        fn ask__asks_about_every_slot(
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
                for question in prober.take_answered(now_ns, MS, |number| answers.contains(&number)) {
                    for i in 0..question.slots.end.wrapping_sub(question.slots.start) {
                        unknown.remove(&question.slots.start.wrapping_add(i).wrapping_sub(start));
                    }
                }
                let oldest = unknown.first().map(|slot| start.wrapping_add(*slot));
                if let Some(packet) = prober.ask(now_ns, 0, oldest) {
                    let (slot, number) = slot_and_number(&packet);
                    prop_assert_eq!(slot % 32, 0);
                    if let Some((last_ns, sent)) = last {
                        prop_assert!(now_ns - last_ns >= MS || next - sent >= 64);
                    }
                    last = Some((now_ns, next));
                    match luck {
                        0 | 1 => { answers.insert(number); }
                        2 => {}
                        _ => { prober.not_asked(); last = None; }
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
    fn ask__one_question_for_many_packets() {
        let mut prober = Prober::new(1, 2, 3);
        let (mut questions, mut now_ns) = (0, MS);
        for slot in 0..10_000u32 {
            prober.sent(slot);
            now_ns += 1_000;
            questions += u32::from(slot % 64 == 63 && prober.ask(now_ns, 0, Some(0)).is_some());
            prober.take_answered(now_ns, MS, |_| true);
        }
        assert_eq!(questions, 10_000 / 128);
    }
}
