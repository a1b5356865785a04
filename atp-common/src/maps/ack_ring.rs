//! The ring of delivery bits of a flow. eBPF writes it, and the library reads it without a system
//! call.
//!
//! Every transmission of a packet gets the next *slot* of a 32-bit sequence. Bit `slot % 32` of
//! word `slot / 32` is set once this transmission reached its host. From these bits the library
//! keeps the delivery mask of each message.
//!
//! The ring is reused without being cleared. The upper half of every 64-bit word is a tag: the
//! number of its 32 slots. So bits of an earlier lap are never taken for bits of this lap, and an
//! ACK that is a lap late changes nothing.

/// Slots of one word.
pub const SLOTS_PER_WORD: u32 = 32;

/// The position of the word of `slot` in a ring of `words` (a power of two).
#[inline(always)]
pub const fn position(slot: u32, words: u32) -> u32 {
    (slot / SLOTS_PER_WORD) & (words - 1)
}

/// Whether the packet of `slot` was acknowledged, according to `word`.
pub const fn contains(word: u64, slot: u32) -> bool {
    (word >> 32) as u32 == tag(slot) && word & bit(slot) != 0
}

/// The word after an ACK for `slot`; `None` if the ACK is a duplicate or of an earlier lap.
#[inline(always)]
pub const fn acknowledged(word: u64, slot: u32) -> Option<u64> {
    merged(word, slot, bit(slot) as u32)
}

/// The word after merging `bits`, the delivery bits of the 32 slots that begin at the multiple of
/// 32 at or below `slot`. `None` if no bit is new, or if the bits are of an earlier lap. A word of
/// zero has no slots yet.
#[inline(always)]
pub const fn merged(word: u64, slot: u32, bits: u32) -> Option<u64> {
    let behind = tag(slot).wrapping_sub((word >> 32) as u32) & TAG_MASK;
    // Serial-number arithmetic: less than half of all tags ahead is newer.
    let next = if behind == 0 {
        word | bits as u64
    } else if word == 0 || behind <= TAG_MASK / 2 {
        (tag(slot) as u64) << 32 | bits as u64
    } else {
        word
    };
    if bits == 0 || next == word { None } else { Some(next) }
}

/// The bits of the 32 slots that begin at the multiple of 32 at or below `slot`; zero if the word
/// has other slots.
#[inline(always)]
pub const fn bits(word: u64, slot: u32) -> u32 {
    if (word >> 32) as u32 == tag(slot) { word as u32 } else { 0 }
}

const TAG_MASK: u32 = u32::MAX / SLOTS_PER_WORD;

const fn tag(slot: u32) -> u32 {
    slot / SLOTS_PER_WORD
}

const fn bit(slot: u32) -> u64 {
    1 << (slot % SLOTS_PER_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        // Against a set of the slots of the last lap.
        #[test]
        fn acknowledged__is_a_set_of_the_latest_lap(
            start: u32,
            steps in proptest::collection::vec((0u32..64, 0u32..600), 1..400),
        ) {
            const WORDS: u32 = 4;
            let mut ring = [0u64; WORDS as usize];
            let mut acked = HashSet::new();
            let mut head = start;
            // A lane's ring begins at tag 0. This one begins at the tags of the first slots.
            for word in 0..WORDS {
                let slot = start.wrapping_add(word * SLOTS_PER_WORD);
                ring[position(slot, WORDS) as usize] = u64::from(tag(slot)) << 32;
            }
            for (advance, back) in steps {
                head = head.wrapping_add(advance);
                let slot = head.wrapping_sub(back);
                let word = &mut ring[position(slot, WORDS) as usize];
                let before = *word;
                if let Some(next) = acknowledged(*word, slot) {
                    *word = next;
                    acked.retain(|&s| position(s, WORDS) != position(slot, WORDS) || tag(s) == tag(slot));
                    acked.insert(slot);
                    prop_assert!(contains(next, slot));
                } else {
                    prop_assert!(contains(before, slot) || (before >> 32) as u32 != tag(slot));
                }
            }
            for &slot in &acked {
                prop_assert!(contains(ring[position(slot, WORDS) as usize], slot));
            }
            let bits: u32 = ring.iter().map(|w| (*w as u32).count_ones()).sum();
            prop_assert_eq!(bits as usize, acked.len());
        }
    }

    #[test]
    fn acknowledged__rejects_an_earlier_lap() {
        let newer = acknowledged(0, 32 * 8).unwrap();
        assert_eq!(acknowledged(newer, 0), None);
        assert!(contains(newer, 32 * 8) && !contains(newer, 0));
    }
}
