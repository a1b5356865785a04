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
    /// When it left this host, estimated; never before those sent earlier. Nanoseconds.
    pub(crate) departs_ns: u64,
    pub(crate) message: u32,
    /// The packet's index in the message, as the header says it.
    pub(crate) index: u32,
    /// Its place in the round's order of sending, as the ledger keeps it.
    pub(crate) turn: u32,
    pub(crate) round: u8,
    pub(crate) fate: Fate,
    /// It gets no acknowledgement of its own: somebody has to ask.
    pub(crate) probed: bool,
}

/// The transmissions from the oldest one that matters to the youngest.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    transmissions: VecDeque<Transmission>,
    first_slot: u32,
    /// All transmissions before this index have a fate.
    settled: usize,
    open: u32,
    /// Bits of the ring that were taken in, one word per 32 slots from `first_slot / 32`.
    seen: VecDeque<u32>,
}

impl Flight {
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
        if let Some(last) = self.transmissions.back() {
            transmission.departs_ns = transmission.departs_ns.max(last.departs_ns);
        }
        self.open += u32::from(transmission.fate == Fate::Open);
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
        self.open -= u32::from(transmission.fate == Fate::Open);
        transmission.fate = fate;
    }

    /// The oldest transmission without a fate, with its slot.
    pub(crate) fn first_open(&mut self) -> Option<(u32, Transmission)> {
        let open = |t: &Transmission| t.fate == Fate::Open;
        let skipped = self.transmissions.range(self.settled..).position(open);
        self.settled = skipped.map_or(self.transmissions.len(), |n| self.settled + n);
        let transmission = *self.transmissions.get(self.settled)?;
        Some((self.first_slot.wrapping_add(self.settled as u32), transmission))
    }

    /// The same, without remembering how far it looked.
    pub(crate) fn peek_open(&self) -> Option<(u32, &Transmission)> {
        let open = |(_, t): &(usize, &Transmission)| t.fate == Fate::Open;
        let (skipped, transmission) =
            self.transmissions.range(self.settled..).enumerate().find(open)?;
        Some((self.first_slot.wrapping_add((self.settled + skipped) as u32), transmission))
    }

    /// Takes back a transmission that never left.
    pub(crate) fn take_back(&mut self, slot: u32) {
        self.decide(slot, Fate::Void);
        if slot.wrapping_add(1) != self.next_slot() {
            return;
        }
        self.transmissions.pop_back();
        self.settled = self.settled.min(self.transmissions.len());
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
            self.settled = self.settled.saturating_sub(1);
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

    fn transmission(message: u32) -> Transmission {
        Transmission {
            departs_ns: 0,
            message,
            index: 0,
            turn: 0,
            round: 0,
            fate: Fate::Open,
            probed: false,
        }
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
            let mut flight = Flight { first_slot: start, ..Flight::default() };
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
                            open.insert(flight.push(transmission(7)));
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
                let oldest = open.iter().copied().min_by_key(|slot| slot.wrapping_sub(start));
                prop_assert_eq!(flight.first_open().map(|(slot, _)| slot), oldest);
            }
        }
    }

    #[test]
    fn reclaim__keeps_lost_transmissions_as_told() {
        let mut flight = Flight::default();
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
