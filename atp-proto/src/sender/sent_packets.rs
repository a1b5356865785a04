//! The transmissions from the oldest remembered one to the latest, in order of sending. Each has
//! one slot.

use super::members::{Member, Members};
use atp_common::maps::ack_ring::{self, SLOTS_PER_WORD};
use std::collections::VecDeque;

/// The acknowledgment ring of a flow, with the layout of [`atp_common::maps::ack_ring`].
pub trait AckRing {
    /// The word at `position`, which is below the configured number of words.
    fn word(&self, position: u32) -> u64;
}

/// The state of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransmissionState {
    /// Neither acknowledged nor lost so far.
    InFlight,
    /// The transmission reached the peer's host.
    Acked,
    /// Declared lost; an acknowledgment may still prove that wrong.
    Lost,
    /// The transmission never left, or its window has ended.
    Void,
}

/// One transmission of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmission {
    /// When it leaves this host, estimated, nanoseconds. Never before an earlier one of its lane.
    pub(crate) departs_ns: u64,
    /// The transmission's number in its lane.
    pub(crate) number: u32,
    /// The index of its message's group in the configuration, and of its lane.
    pub(crate) group: u8,
    /// The message's attempt.
    pub(crate) attempt: u8,
    pub(crate) state: TransmissionState,
    /// The number of its window is odd.
    pub(crate) odd_window: bool,
    /// The id of its message in the group: the first one of a packed packet.
    pub(crate) message: u32,
    /// The packet's index in the message, as in the header.
    pub(crate) index: u32,
    /// The packet's position in the attempt's order of sending, as in the ledger.
    pub(crate) position: u32,
    /// The transmission gets no ACK of its own: the caller sends PROBEs.
    pub(crate) no_ack: bool,
    /// Messages in a packed packet; 0 if it is not packed.
    pub(crate) members: u16,
    /// The number of the first member.
    pub(crate) first_member: u32,
}

/// The packet of one message in a transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The message's id in the group.
    pub(crate) message: u32,
    /// The message's attempt.
    pub(crate) attempt: u8,
    /// The packet's position in the attempt's order of sending.
    pub(crate) position: u32,
    /// A member of a packed packet that had been declared lost before.
    pub(crate) was_lost: bool,
}

impl Transmission {
    /// Takes a slot, but can neither arrive nor be lost.
    pub(crate) const VOID: Self = Self {
        departs_ns: 0,
        number: 0,
        group: 0,
        attempt: 0,
        state: TransmissionState::Void,
        odd_window: false,
        message: 0,
        index: 0,
        position: 0,
        no_ack: false,
        members: 0,
        first_member: 0,
    };

    /// The number of messages of which it has a packet.
    pub(crate) fn parts(&self) -> u16 {
        self.members.max(1)
    }
}

/// The transmissions from the oldest remembered one to the latest.
#[derive(Debug)]
pub(crate) struct SentPackets {
    transmissions: VecDeque<Transmission>,
    members: Members,
    first_slot: u32,
    lanes: Vec<Lane>,
    in_flight: u32,
    /// Bits of the ring that were read, one word per 32 slots from `first_slot / 32` on.
    seen: VecDeque<u32>,
}

/// Transmissions of one group.
#[derive(Clone, Debug, Default)]
struct Lane {
    in_flight: u32,
    /// No transmission before this slot is in flight.
    oldest_in_flight: u32,
    /// Transmissions in flight before this slot are overdue.
    overdue_until: u32,
    overdue: u32,
    /// The number of the next transmission.
    number: u32,
    /// When the latest transmission leaves.
    departs_ns: u64,
}

impl Lane {
    /// A transmission is no longer in flight.
    fn forget(&mut self, slot: u32) {
        self.in_flight -= 1;
        self.overdue -= u32::from(is_before(slot, self.overdue_until));
    }
}

/// Whether a slot comes before another one.
fn is_before(slot: u32, other: u32) -> bool {
    (slot.wrapping_sub(other) as i32) < 0
}

impl SentPackets {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            transmissions: VecDeque::new(),
            members: Members::default(),
            first_slot: 0,
            lanes: vec![Lane::default(); lanes],
            in_flight: 0,
            seen: VecDeque::new(),
        }
    }

    /// The slot of the next transmission.
    pub(crate) fn next_slot(&self) -> u32 {
        self.first_slot.wrapping_add(self.transmissions.len() as u32)
    }

    /// The number of remembered slots.
    pub(crate) fn span(&self) -> u32 {
        self.transmissions.len() as u32
    }

    /// The number of transmissions in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The number of a lane's transmissions in flight, and how many of them are overdue.
    pub(crate) fn lane_in_flight(&self, lane: u8) -> (u32, u32) {
        let Lane { in_flight, overdue, .. } = self.lanes[usize::from(lane)];
        (in_flight, overdue)
    }

    /// Makes a lane's transmissions in flight overdue that left `overdue_ns` before `now_ns`, or
    /// earlier.
    pub(crate) fn set_overdue(&mut self, lane: u8, now_ns: u64, overdue_ns: u64) {
        while let Some((slot, departs_ns)) = self.first_awaited(lane) {
            let lane = &mut self.lanes[usize::from(lane)];
            if departs_ns.saturating_add(overdue_ns) > now_ns {
                lane.overdue_until = slot;
                return;
            }
            lane.overdue_until = slot.wrapping_add(1);
            lane.overdue += 1;
        }
    }

    /// The slot and the departure of a lane's oldest transmission in flight that isn't overdue.
    pub(crate) fn first_awaited(&self, lane: u8) -> Option<(u32, u64)> {
        let Lane { in_flight, overdue, overdue_until, .. } = self.lanes[usize::from(lane)];
        if in_flight == overdue {
            return None;
        }
        let found = self.find_from(lane, overdue_until);
        found.map(|(slot, transmission)| (slot, transmission.departs_ns))
    }

    /// Adds a transmission and returns its slot.
    pub(crate) fn push(&mut self, mut transmission: Transmission) -> u32 {
        let slot = self.next_slot();
        if transmission.state == TransmissionState::InFlight {
            let lane = &mut self.lanes[usize::from(transmission.group)];
            lane.departs_ns = lane.departs_ns.max(transmission.departs_ns);
            (transmission.departs_ns, transmission.number) = (lane.departs_ns, lane.number);
            lane.number = lane.number.wrapping_add(1);
            if lane.in_flight == 0 {
                lane.oldest_in_flight = slot;
            }
            // Slots that were taken back are given out again.
            if lane.in_flight == 0 || is_before(slot, lane.overdue_until) {
                lane.overdue_until = slot;
            }
            lane.in_flight += 1;
            self.in_flight += 1;
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

    /// The `n`-th part of a remembered transmission.
    pub(crate) fn part(&self, transmission: &Transmission, n: u16) -> Part {
        if transmission.members == 0 {
            let &Transmission { message, attempt, position, .. } = transmission;
            return Part { message, attempt, position, was_lost: false };
        }
        let Member { message, attempt, was_lost, .. } =
            self.members.get(transmission.first_member.wrapping_add(n.into()));
        Part { message, attempt, position: 0, was_lost }
    }

    /// The members of a remembered transmission.
    pub(crate) fn members(
        &self,
        transmission: &Transmission,
    ) -> impl Iterator<Item = Member> + use<'_> {
        let &Transmission { first_member, members, .. } = transmission;
        (members > 0).then(|| self.members.range(first_member, members)).into_iter().flatten()
    }

    /// The number of the next member.
    pub(crate) fn next_member(&self) -> u32 {
        self.members.next()
    }

    /// Adds a member of the packed transmission that is pushed next.
    pub(crate) fn push_member(&mut self, member: Member) {
        self.members.push(member);
    }

    /// Forgets the members from the number `from` on, which no transmission has.
    pub(crate) fn forget_members_from(&mut self, from: u32) {
        self.members.truncate(from);
    }

    /// The slots of packed transmissions in flight.
    pub(crate) fn packed_in_flight(&self) -> Vec<u32> {
        let is_packed = |t: &Transmission| t.state == TransmissionState::InFlight && t.members > 0;
        let slots = (self.first_slot..=u32::MAX).chain(0..).zip(&self.transmissions);
        slots.filter(|(_, transmission)| is_packed(transmission)).map(|(slot, _)| slot).collect()
    }

    /// Sets the state of a remembered transmission.
    pub(crate) fn set_state(&mut self, slot: u32, state: TransmissionState) {
        let at = slot.wrapping_sub(self.first_slot) as usize;
        let transmission = &mut self.transmissions[at];
        if transmission.state == TransmissionState::InFlight {
            self.lanes[usize::from(transmission.group)].forget(slot);
            self.in_flight -= 1;
        }
        transmission.state = state;
    }

    /// Treats all transmissions as if each had an ACK of its own.
    pub(crate) fn stop_probing(&mut self) {
        self.transmissions.iter_mut().for_each(|transmission| transmission.no_ack = false);
    }

    /// Voids all transmissions: their window has ended.
    pub(crate) fn void_all(&mut self) {
        let void = |transmission: &mut Transmission| transmission.state = TransmissionState::Void;
        self.transmissions.iter_mut().for_each(void);
        self.lanes.iter_mut().for_each(|lane| (lane.in_flight, lane.overdue) = (0, 0));
        self.in_flight = 0;
    }

    /// Voids the transmissions of one of two open windows, which has ended.
    pub(crate) fn void_window(&mut self, is_odd: bool) {
        let slots = (self.first_slot..=u32::MAX).chain(0..);
        let of_window = |(_, t): &(u32, &mut Transmission)| t.odd_window == is_odd;
        for (slot, transmission) in slots.zip(&mut self.transmissions).filter(of_window) {
            if transmission.state == TransmissionState::InFlight {
                self.lanes[usize::from(transmission.group)].forget(slot);
                self.in_flight -= 1;
            }
            transmission.state = TransmissionState::Void;
        }
    }

    /// The oldest transmission of a lane in flight, with its slot.
    pub(crate) fn first_in_flight(&mut self, lane: u8) -> Option<(u32, Transmission)> {
        let found = self.find_in_flight(lane)?;
        let lane = &mut self.lanes[usize::from(lane)];
        lane.oldest_in_flight = found.0;
        // Slots wrap, so a lane without a window must not leave it behind.
        if lane.overdue == 0 && is_before(lane.overdue_until, found.0) {
            lane.overdue_until = found.0;
        }
        Some(found)
    }

    /// Finds what [`SentPackets::first_in_flight`] finds, but doesn't remember the position for the
    /// next call.
    pub(crate) fn find_in_flight(&self, lane: u8) -> Option<(u32, Transmission)> {
        let Lane { in_flight, oldest_in_flight, .. } = self.lanes[usize::from(lane)];
        if in_flight == 0 {
            return None;
        }
        self.find_from(lane, oldest_in_flight).map(|(slot, transmission)| (slot, *transmission))
    }

    /// The oldest transmission of a lane in flight, of those from `slot` on.
    fn find_from(&self, lane: u8, slot: u32) -> Option<(u32, &Transmission)> {
        // The slot may be forgotten by now, or taken back.
        let skipped = (slot.wrapping_sub(self.first_slot) as i32).max(0) as usize;
        let skipped = skipped.min(self.transmissions.len());
        let matches = |t: &Transmission| t.state == TransmissionState::InFlight && t.group == lane;
        let at = skipped + self.transmissions.range(skipped..).position(matches)?;
        Some((self.first_slot.wrapping_add(at as u32), &self.transmissions[at]))
    }

    /// Takes back a transmission that never left.
    pub(crate) fn take_back(&mut self, slot: u32) {
        self.set_state(slot, TransmissionState::Void);
        if slot.wrapping_add(1) != self.next_slot() {
            return;
        }
        if let Some(last) = self.transmissions.pop_back() {
            self.lanes[usize::from(last.group)].number = last.number;
            if last.members > 0 {
                self.members.truncate(last.first_member);
            }
        }
        if slot.is_multiple_of(SLOTS_PER_WORD) {
            self.seen.pop_back();
        }
    }

    /// Forgets the oldest transmissions up to the first in flight. A lost one is forgotten only if
    /// `forget` agrees: an acknowledgment of a forgotten transmission can't be matched any more.
    pub(crate) fn reclaim(&mut self, forget: impl Fn(&Transmission) -> bool) {
        while let Some(first) = self.transmissions.front() {
            let done = match first.state {
                TransmissionState::InFlight => false,
                TransmissionState::Acked | TransmissionState::Void => true,
                TransmissionState::Lost => forget(first),
            };
            if !done {
                return;
            }
            self.members.forget(first.members);
            self.transmissions.pop_front();
            self.first_slot = self.first_slot.wrapping_add(1);
            if self.first_slot.is_multiple_of(SLOTS_PER_WORD) {
                self.seen.pop_front();
            }
        }
    }

    /// Appends to `newly_acked` the slots that `ring` (of `ring_words` words) shows as acknowledged
    /// for the first time, in order.
    pub(crate) fn scan(
        &mut self,
        ring: &impl AckRing,
        ring_words: u32,
        newly_acked: &mut Vec<u32>,
    ) {
        let first_word = self.first_slot / SLOTS_PER_WORD;
        // Slots of the first word that were forgotten are not new.
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
                newly_acked.push(base | bits.trailing_zeros());
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
        Transmission { group: lane as u8, state: TransmissionState::InFlight, ..Transmission::VOID }
    }

    proptest! {
        // Over the wrap of the slot sequence, against a set of slots.
        #[test]
        fn scan__finds_each_acknowledgment_once(
            before_wrap in 0u32..200,
            steps in proptest::collection::vec((0u8..5, 0u32..64), 1..400),
        ) {
            const WORDS: u32 = 8;
            const OVERDUE_NS: u64 = 5;
            let start = 0u32.wrapping_sub(before_wrap);
            let mut sent = SentPackets { first_slot: start, ..SentPackets::new(2) };
            // A ring that just reached `start` holds words of this lap or of the lap before.
            let ring = Ring(RefCell::new((0..WORDS).map(|word| {
                let slot = start.wrapping_add(word * SLOTS_PER_WORD);
                u64::from(slot / SLOTS_PER_WORD).wrapping_sub(u64::from(WORDS)) << 32
            }).collect()));
            let (mut waiting, mut in_flight) = (BTreeSet::new(), BTreeSet::new());
            let mut overdue = BTreeSet::new();
            for (action, argument) in steps {
                match action {
                    0 => for _ in 0..argument {
                        if sent.span() < WORDS * 16 {
                            let departs_ns = u64::from(argument) / 2;
                            let next = Transmission { departs_ns, ..transmission(argument % 2) };
                            in_flight.insert(sent.push(next));
                        }
                    },
                    1 => if let Some(&slot) = in_flight.iter().nth(argument as usize) {
                        let mut words = ring.0.borrow_mut();
                        let word = &mut words[ack_ring::position(slot, WORDS) as usize];
                        if let Some(next) = ack_ring::acknowledged(*word, slot) {
                            *word = next;
                            waiting.insert(slot);
                        }
                    },
                    2 => {
                        let last = sent.next_slot().wrapping_sub(1);
                        if in_flight.contains(&last) && !waiting.contains(&last) {
                            sent.take_back(last);
                            in_flight.remove(&last);
                            overdue.remove(&last);
                        }
                    }
                    3 => {
                        // All of a lane that left some time ago.
                        let (lane, now_ns) = (argument as u8 % 2, u64::from(argument));
                        let slots = in_flight.iter().copied();
                        overdue.extend(slots.filter(|slot| {
                            let sent = sent.get(*slot).unwrap();
                            sent.group == lane && sent.departs_ns + OVERDUE_NS <= now_ns
                        }));
                        sent.set_overdue(lane, now_ns, OVERDUE_NS);
                    }
                    _ => {
                        let mut newly_acked = vec![];
                        sent.scan(&ring, WORDS, &mut newly_acked);
                        prop_assert_eq!(newly_acked.iter().copied().collect::<BTreeSet<_>>(), std::mem::take(&mut waiting));
                        for slot in newly_acked {
                            prop_assert!(in_flight.remove(&slot));
                            overdue.remove(&slot);
                            sent.set_state(slot, TransmissionState::Acked);
                        }
                        sent.reclaim(|_| true);
                    }
                }
                prop_assert_eq!(sent.in_flight() as usize, in_flight.len());
                for lane in 0..2 {
                    let of_lane = |slot: &u32| sent.get(*slot).unwrap().group == lane;
                    let awaited = in_flight.difference(&overdue).copied().filter(of_lane).count();
                    let (all, late) = sent.lane_in_flight(lane);
                    prop_assert_eq!((all - late) as usize, awaited);
                    let oldest = in_flight.iter().copied().filter(of_lane);
                    let oldest = oldest.min_by_key(|slot| slot.wrapping_sub(start));
                    prop_assert_eq!(sent.first_in_flight(lane).map(|(slot, _)| slot), oldest);
                }
            }
        }
    }

    #[test]
    fn void_window__keeps_the_other_one_s() {
        let mut sent = SentPackets::new(1);
        for n in 0..6 {
            let departs_ns = n;
            sent.push(Transmission { departs_ns, odd_window: n % 2 == 1, ..transmission(0) });
        }
        sent.set_overdue(0, 2, 0);
        assert_eq!(sent.lane_in_flight(0), (6, 3));
        sent.void_window(true);
        assert_eq!(sent.lane_in_flight(0), (3, 2));
        sent.void_all();
        assert_eq!((sent.in_flight(), sent.lane_in_flight(0)), (0, (0, 0)));
    }

    #[test]
    fn reclaim__keeps_lost_transmissions_as_told() {
        let mut sent = SentPackets::new(1);
        let slots: Vec<_> = (0..3).map(|_| sent.push(transmission(0))).collect();
        sent.set_state(slots[0], TransmissionState::Lost);
        sent.set_state(slots[1], TransmissionState::Acked);
        sent.reclaim(|_| false);
        assert_eq!(sent.span(), 3);
        sent.reclaim(|_| true);
        assert_eq!(sent.span(), 1);
        assert!(sent.get(slots[0]).is_none());
    }
}
