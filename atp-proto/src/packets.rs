//! Sets of packet indices, and the state of each packet of one message.

/// A set of packet indices. Up to 64 packets it needs no allocation.
#[derive(Clone, Debug)]
pub(crate) enum PacketSet {
    Small(u64),
    Large(Box<Large>),
}

#[derive(Clone, Debug)]
pub(crate) struct Large {
    words: Box<[u64]>,
    /// No word below this one has an element.
    first_word: usize,
}

/// `number` set bits, at most 64.
#[inline]
const fn low_bits(number: u32) -> u64 {
    if number == 0 { 0 } else { u64::MAX >> (64 - number) }
}

// Apart from the constructors of `PacketSet`, so that those of short messages stay in registers.
impl Large {
    #[inline(never)]
    fn empty(count: u32) -> Box<Self> {
        let words = vec![0; count.div_ceil(64) as usize].into_boxed_slice();
        Box::new(Self { first_word: words.len(), words })
    }

    #[inline(never)]
    fn full(count: u32) -> Box<Self> {
        let mut words = vec![u64::MAX; count.div_ceil(64) as usize].into_boxed_slice();
        if !count.is_multiple_of(64) {
            words[count as usize / 64] = low_bits(count % 64);
        }
        Box::new(Self { first_word: 0, words })
    }
}

impl PacketSet {
    #[inline]
    pub(crate) fn empty(count: u32) -> Self {
        if count <= 64 { Self::Small(0) } else { Self::Large(Large::empty(count)) }
    }

    #[inline]
    pub(crate) fn full(count: u32) -> Self {
        if count <= 64 { Self::Small(low_bits(count)) } else { Self::Large(Large::full(count)) }
    }

    pub(crate) fn contains(&self, index: u32) -> bool {
        match self {
            Self::Small(word) => word >> index & 1 == 1,
            Self::Large(large) => large.words[index as usize / 64] >> (index % 64) & 1 == 1,
        }
    }

    /// Returns whether the element is new.
    pub(crate) fn insert(&mut self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        let word = match self {
            Self::Small(word) => word,
            Self::Large(large) => {
                large.first_word = large.first_word.min(index as usize / 64);
                &mut large.words[index as usize / 64]
            }
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let bit = 1 << (index % 64);
        match self {
            Self::Small(word) => *word &= !bit,
            Self::Large(large) => large.words[index as usize / 64] &= !bit,
        }
    }

    /// The least element. It remembers the words that it found empty: removing all elements of a
    /// large set one by one reads each word once.
    pub(crate) fn first(&mut self) -> Option<u32> {
        match self {
            Self::Small(0) => None,
            Self::Small(word) => Some(word.trailing_zeros()),
            Self::Large(large) => {
                let skipped = large.words[large.first_word..].iter().position(|&word| word != 0);
                large.first_word = skipped.map_or(large.words.len(), |n| large.first_word + n);
                let word = large.words.get(large.first_word)?;
                Some(large.first_word as u32 * 64 + word.trailing_zeros())
            }
        }
    }
}

/// The state of one packet of a message in the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketState {
    /// Never handed out.
    New,
    /// Handed out and declared lost, so it is to be retransmitted.
    Lost,
    /// Handed out, neither acknowledged nor lost.
    InFlight,
    /// Reached the peer's host.
    Acked,
}

/// The states of all packets of one message, two bits each, with counts.
#[derive(Clone, Debug)]
pub(crate) struct PacketStates {
    /// Packets that are new or lost.
    pending: PacketSet,
    /// Packets that are new or acked.
    new_or_acked: PacketSet,
    pub(crate) count: u32,
    pub(crate) new: u32,
    pub(crate) lost: u32,
    pub(crate) acked: u32,
}

impl PacketStates {
    /// All packets are new.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            pending: PacketSet::full(count),
            new_or_acked: PacketSet::full(count),
            count,
            new: count,
            lost: 0,
            acked: 0,
        }
    }

    /// All packets are lost: everything is to be retransmitted.
    pub(crate) fn all_lost(count: u32) -> Self {
        Self {
            pending: PacketSet::full(count),
            new_or_acked: PacketSet::empty(count),
            count,
            new: 0,
            lost: count,
            acked: 0,
        }
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.count - self.new - self.lost - self.acked
    }

    /// Packets that the peer's host doesn't have, as far as is known.
    pub(crate) fn remaining(&self) -> u32 {
        self.count - self.acked
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.new + self.lost > 0
    }

    /// Hands out the first packet that is new or lost. Returns its index, and whether it was lost.
    pub(crate) fn hand_out(&mut self) -> Option<(u32, bool)> {
        let index = self.pending.first()?;
        self.pending.remove(index);
        let is_new = self.new_or_acked.contains(index);
        if is_new {
            self.new_or_acked.remove(index);
            self.new -= 1;
        } else {
            self.lost -= 1;
        }
        Some((index, !is_new))
    }

    /// Notes that a packet reached the peer's host. Returns `false` if that was known already.
    pub(crate) fn acknowledge(&mut self, index: u32) -> bool {
        if self.pending.contains(index) {
            self.set(index, PacketState::Acked);
            return true;
        }
        let is_new = self.new_or_acked.insert(index);
        self.acked += u32::from(is_new);
        is_new
    }

    pub(crate) fn state(&self, index: u32) -> PacketState {
        match (self.pending.contains(index), self.new_or_acked.contains(index)) {
            (true, true) => PacketState::New,
            (true, false) => PacketState::Lost,
            (false, false) => PacketState::InFlight,
            (false, true) => PacketState::Acked,
        }
    }

    pub(crate) fn set(&mut self, index: u32, to: PacketState) {
        match self.state(index) {
            PacketState::New => self.new -= 1,
            PacketState::Lost => self.lost -= 1,
            PacketState::Acked => self.acked -= 1,
            PacketState::InFlight => {}
        }
        match to {
            PacketState::New => self.new += 1,
            PacketState::Lost => self.lost += 1,
            PacketState::Acked => self.acked += 1,
            PacketState::InFlight => {}
        }
        put(&mut self.pending, index, matches!(to, PacketState::New | PacketState::Lost));
        put(&mut self.new_or_acked, index, matches!(to, PacketState::New | PacketState::Acked));
    }
}

fn put(set: &mut PacketSet, index: u32, contained: bool) {
    if contained {
        set.insert(index);
    } else {
        set.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn packet_set__is_a_set(
            count in 1u32..300,
            filled: bool,
            steps in proptest::collection::vec((any::<u32>(), any::<bool>()), 0..400),
        ) {
            let mut set = if filled { PacketSet::full(count) } else { PacketSet::empty(count) };
            let mut model: BTreeSet<u32> = if filled { (0..count).collect() } else { BTreeSet::new() };
            for (index, insert) in steps {
                let index = index % count;
                if insert {
                    prop_assert_eq!(set.insert(index), model.insert(index));
                } else {
                    set.remove(index);
                    model.remove(&index);
                }
                prop_assert_eq!(set.first(), model.first().copied());
                prop_assert!((0..count).all(|i| set.contains(i) == model.contains(&i)));
            }
        }

        #[test]
        fn packet_states__counts_agree_with_states(
            count in 1u32..200,
            steps in proptest::collection::vec((any::<u32>(), 0u8..6), 0..300),
        ) {
            let mut states = PacketStates::new(count);
            let mut model = vec![PacketState::New; count as usize];
            for (index, to) in steps {
                let index = index % count;
                let is_pending = |s: &PacketState| matches!(s, PacketState::New | PacketState::Lost);
                match to {
                    0..4 => {
                        let to = [PacketState::New, PacketState::Lost, PacketState::InFlight, PacketState::Acked]
                            [to as usize];
                        states.set(index, to);
                        model[index as usize] = to;
                    }
                    4 => {
                        let was = std::mem::replace(&mut model[index as usize], PacketState::Acked);
                        prop_assert_eq!(states.acknowledge(index), was != PacketState::Acked);
                    }
                    _ => {
                        let first = model.iter().position(is_pending);
                        let expected = first.map(|at| (at as u32, model[at] == PacketState::Lost));
                        prop_assert_eq!(states.hand_out(), expected);
                        first.into_iter().for_each(|at| model[at] = PacketState::InFlight);
                    }
                }
            }
            let number = |state| model.iter().filter(|&&s| s == state).count() as u32;
            prop_assert_eq!(states.new, number(PacketState::New));
            prop_assert_eq!(states.lost, number(PacketState::Lost));
            prop_assert_eq!(states.acked, number(PacketState::Acked));
            prop_assert_eq!(states.in_flight(), number(PacketState::InFlight));
            prop_assert!((0..count).all(|i| states.state(i) == model[i as usize]));
        }
    }
}
