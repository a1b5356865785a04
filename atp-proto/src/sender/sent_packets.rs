//! What was sent, in order of sending. Transmission and slot are one: the slot is its number.

use super::AckRing;
use atp_common::maps::ack_ring::{self, SLOTS_PER_WORD};
use std::collections::VecDeque;

/// What became of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Unknown so far.
    Open,
    /// It reached the peer's host.
    Acked,
    /// Called lost; an acknowledgement may still prove that wrong.
    Lost,
    /// It never left.
    Void,
}

/// One transmission of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmission {
    /// When it left this host, estimated; never before those of its lane that were sent earlier.
    /// Nanoseconds.
    pub(crate) departs_ns: u64,
    /// Its number in its lane.
    pub(crate) number: u32,
    /// Index of its message's group in the configuration, which is that of its lane.
    pub(crate) group: u8,
    /// How often its message had been started over.
    pub(crate) round: u8,
    pub(crate) fate: Fate,
    pub(crate) message: u32,
    /// The packet's index in the message, as the header says it.
    pub(crate) index: u32,
    /// Its place in the round's order of sending, as the ledger keeps it.
    pub(crate) turn: u32,
    /// It gets no acknowledgement of its own: somebody has to ask.
    pub(crate) probed: bool,
}

impl Transmission {
    /// Takes a slot, and is nothing that could arrive or be lost.
    pub(crate) const VOID: Self = Self {
        departs_ns: 0,
        number: 0,
        group: 0,
        round: 0,
        fate: Fate::Void,
        message: 0,
        index: 0,
        turn: 0,
        probed: false,
    };
}

/// The transmissions from the oldest one that matters to the youngest.
#[derive(Debug)]
pub(crate) struct SentPackets {
    transmissions: VecDeque<Transmission>,
    first_slot: u32,
    lanes: Vec<Lane>,
    open: u32,
    /// Bits of the ring that were taken in, one word per 32 slots from `first_slot / 32`.
    seen: VecDeque<u32>,
}

/// Transmissions of one group.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// How many have no fate, and a slot before which none is.
    open: u32,
    open_from: u32,
    /// How many there were, and when the last of them leaves.
    number: u32,
    departs_ns: u64,
}

impl SentPackets {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            transmissions: VecDeque::new(),
            first_slot: 0,
            lanes: vec![Lane::default(); lanes],
            open: 0,
            seen: VecDeque::new(),
        }
    }

    /// The slot of the next transmission.
    pub(crate) fn next_slot(&self) -> u32 {
        self.first_slot.wrapping_add(self.transmissions.len() as u32)
    }

    /// Slots from the oldest transmission that matters to the youngest.
    pub(crate) fn span(&self) -> u32 {
        self.transmissions.len() as u32
    }

    /// Transmissions without a fate.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Adds a transmission and returns its slot.
    pub(crate) fn push(&mut self, mut transmission: Transmission) -> u32 {
        let slot = self.next_slot();
        if transmission.fate == Fate::Open {
            let lane = &mut self.lanes[usize::from(transmission.group)];
            lane.departs_ns = lane.departs_ns.max(transmission.departs_ns);
            (transmission.departs_ns, transmission.number) = (lane.departs_ns, lane.number);
            lane.number = lane.number.wrapping_add(1);
            if lane.open == 0 {
                lane.open_from = slot;
            }
            lane.open += 1;
            self.open += 1;
        }
        self.transmissions.push_back(transmission);
        if self.seen.is_empty() || slot.is_multiple_of(SLOTS_PER_WORD) {
            self.seen.push_back(0);
        }
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Transmission> {
        self.transmissions.get(slot.wrapping_sub(self.first_slot) as usize)
    }

    /// Decides, or decides anew, the fate of a transmission, which exists.
    pub(crate) fn decide(&mut self, slot: u32, fate: Fate) {
        let at = slot.wrapping_sub(self.first_slot) as usize;
        let transmission = &mut self.transmissions[at];
        if transmission.fate == Fate::Open {
            self.lanes[usize::from(transmission.group)].open -= 1;
            self.open -= 1;
        }
        transmission.fate = fate;
    }

    /// Nobody asks any more: what was sent is as if each had an acknowledgement of its own.
    pub(crate) fn forget_questions(&mut self) {
        self.transmissions.iter_mut().for_each(|transmission| transmission.probed = false);
    }

    /// Nothing is known, nor to be known, of what was sent so far: its window has ended.
    pub(crate) fn void_all(&mut self) {
        self.transmissions.iter_mut().for_each(|transmission| transmission.fate = Fate::Void);
        self.lanes.iter_mut().for_each(|lane| lane.open = 0);
        self.open = 0;
    }

    /// The oldest transmission of a lane without a fate, with its slot.
    pub(crate) fn first_open(&mut self, lane: u8) -> Option<(u32, Transmission)> {
        let found = self.find_open(lane)?;
        self.lanes[usize::from(lane)].open_from = found.0;
        Some(found)
    }

    /// The same, without remembering how far it looked.
    pub(crate) fn find_open(&self, lane: u8) -> Option<(u32, Transmission)> {
        let Lane { open, open_from, .. } = self.lanes[usize::from(lane)];
        if open == 0 {
            return None;
        }
        // What it points at may be forgotten by now.
        let skipped = (open_from.wrapping_sub(self.first_slot) as i32).max(0) as usize;
        let is_open = |t: &Transmission| t.fate == Fate::Open && t.group == lane;
        let more = self.transmissions.range(skipped..).position(is_open)?;
        let at = skipped + more;
        Some((self.first_slot.wrapping_add(at as u32), self.transmissions[at]))
    }

    /// Takes back a transmission that never left.
    pub(crate) fn take_back(&mut self, slot: u32) {
        self.decide(slot, Fate::Void);
        if slot.wrapping_add(1) != self.next_slot() {
            return;
        }
        if let Some(last) = self.transmissions.pop_back() {
            self.lanes[usize::from(last.group)].number = last.number;
        }
        if slot.is_multiple_of(SLOTS_PER_WORD) {
            self.seen.pop_back();
        }
    }

    /// Forgets the oldest transmissions as far as they have a fate, lost ones only if `forget`
    /// says so: an acknowledgement of a forgotten transmission can't be placed any more.
    pub(crate) fn reclaim(&mut self, forget: impl Fn(&Transmission) -> bool) {
        while let Some(first) = self.transmissions.front() {
            let done = match first.fate {
                Fate::Open => false,
                Fate::Acked | Fate::Void => true,
                Fate::Lost => forget(first),
            };
            if !done {
                return;
            }
            self.transmissions.pop_front();
            self.first_slot = self.first_slot.wrapping_add(1);
            if self.first_slot.is_multiple_of(SLOTS_PER_WORD) {
                self.seen.pop_front();
            }
        }
    }

    /// Appends to `news` the slots that `ring` (of `ring_words` words) shows as acknowledged for
    /// the first time, in order.
    pub(crate) fn scan(&mut self, ring: &impl AckRing, ring_words: u32, news: &mut Vec<u32>) {
        let first_word = self.first_slot / SLOTS_PER_WORD;
        // Slots of the first word that were forgotten are not news.
        let mut remembered = u32::MAX << (self.first_slot % SLOTS_PER_WORD);
        for (i, seen) in self.seen.iter_mut().enumerate() {
            let number = first_word.wrapping_add(i as u32);
            let base = number.wrapping_mul(SLOTS_PER_WORD);
            let word = ring.word(ack_ring::position(base, ring_words));
            let this_lap = (word >> 32) as u32 == base / SLOTS_PER_WORD;
            let mut bits = if this_lap { word as u32 & !*seen & remembered } else { 0 };
            remembered = u32::MAX;
            *seen |= bits;
            while bits != 0 {
                news.push(base | bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{cell::RefCell, collections::BTreeSet};

    struct Ring(RefCell<Vec<u64>>);

    impl AckRing for Ring {
        fn word(&self, position: u32) -> u64 {
            self.0.borrow()[position as usize]
        }
    }

    fn transmission(lane: u32) -> Transmission {
        Transmission { group: lane as u8, fate: Fate::Open, ..Transmission::VOID }
    }

    proptest! {
        // Over the wrap of the slot sequence, against a set of slots.
        #[test]
        fn scan__finds_each_acknowledgement_once(
            before_wrap in 0u32..200,
            steps in proptest::collection::vec((0u8..4, 0u32..64), 1..400),
        ) {
            const WORDS: u32 = 8;
            let start = 0u32.wrapping_sub(before_wrap);
            let mut flight = SentPackets { first_slot: start, ..SentPackets::new(2) };
            // A ring that just came to `start` knows this lap's words or the lap before.
            let ring = Ring(RefCell::new((0..WORDS).map(|word| {
                let slot = start.wrapping_add(word * SLOTS_PER_WORD);
                u64::from(slot / SLOTS_PER_WORD).wrapping_sub(u64::from(WORDS)) << 32
            }).collect()));
            let (mut waiting, mut open) = (BTreeSet::new(), BTreeSet::new());
            for (action, argument) in steps {
                match action {
                    0 => for _ in 0..argument {
                        if flight.span() < WORDS * 16 {
                            open.insert(flight.push(transmission(argument % 2)));
                        }
                    },
                    1 => if let Some(&slot) = open.iter().nth(argument as usize) {
                        let mut words = ring.0.borrow_mut();
                        let word = &mut words[ack_ring::position(slot, WORDS) as usize];
                        if let Some(next) = ack_ring::acknowledged(*word, slot) {
                            *word = next;
                            waiting.insert(slot);
                        }
                    },
                    2 => {
                        let last = flight.next_slot().wrapping_sub(1);
                        if open.contains(&last) && !waiting.contains(&last) {
                            flight.take_back(last);
                            open.remove(&last);
                        }
                    }
                    _ => {
                        let mut news = vec![];
                        flight.scan(&ring, WORDS, &mut news);
                        prop_assert_eq!(news.iter().copied().collect::<BTreeSet<_>>(), std::mem::take(&mut waiting));
                        for slot in news {
                            prop_assert!(open.remove(&slot));
                            flight.decide(slot, Fate::Acked);
                        }
                        flight.reclaim(|_| true);
                    }
                }
                prop_assert_eq!(flight.open() as usize, open.len());
                for lane in 0..2 {
                    let of_lane = |slot: &u32| flight.get(*slot).unwrap().group == lane;
                    let oldest = open.iter().copied().filter(of_lane);
                    let oldest = oldest.min_by_key(|slot| slot.wrapping_sub(start));
                    prop_assert_eq!(flight.first_open(lane).map(|(slot, _)| slot), oldest);
                }
            }
        }
    }

    #[test]
    fn reclaim__keeps_lost_transmissions_as_told() {
        let mut flight = SentPackets::new(1);
        let slots: Vec<_> = (0..3).map(|_| flight.push(transmission(0))).collect();
        flight.decide(slots[0], Fate::Lost);
        flight.decide(slots[1], Fate::Acked);
        flight.reclaim(|_| false);
        assert_eq!(flight.span(), 3);
        flight.reclaim(|_| true);
        assert_eq!(flight.span(), 1);
        assert!(flight.get(slots[0]).is_none());
    }
}
