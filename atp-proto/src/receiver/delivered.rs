//! The set of complete messages: a bitmap whose size grows with their number, not with their ids.

use super::sparse::Sparse;

/// The set of complete messages.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    bits: Sparse<u64>,
    /// Words up to the last one with a complete message.
    words: u32,
    number: u32,
    /// All messages with lower ids are complete.
    cumulative: u32,
}

impl Delivered {
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.word(id / 64) >> (id % 64) & 1 == 1
    }

    /// Adds `id`, which is new.
    pub(crate) fn insert(&mut self, id: u32) {
        *self.bits.entry(id / 64) |= 1 << (id % 64);
        self.words = self.words.max(id / 64 + 1);
        self.number += 1;
        while self.word(self.cumulative / 64) >> (self.cumulative % 64) & 1 == 1 {
            let rest = self.word(self.cumulative / 64) >> (self.cumulative % 64);
            self.cumulative += rest.trailing_ones();
        }
    }

    /// Whether adding `id` needs no more memory.
    pub(crate) fn has_entry(&self, id: u32) -> bool {
        self.bits.has_entry(id / 64)
    }

    /// The bytes of the bitmap on the heap.
    pub(crate) fn bytes(&self) -> u64 {
        self.bits.bytes()
    }

    /// The number of complete messages.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The id below which all messages are complete.
    pub(crate) fn cumulative(&self) -> u32 {
        self.cumulative
    }

    /// The bits of 64 messages from `64 * index` on.
    pub(crate) fn word(&self, index: u32) -> u64 {
        self.bits.read(index)
    }

    /// The first word, from `index` on, that may have a complete message. The skipped ones have
    /// none.
    pub(crate) fn next_word(&self, index: u32) -> Option<u32> {
        self.bits.skip_unwritten(index)
    }

    /// Words up to the last one with a complete message.
    pub(crate) fn words(&self) -> u32 {
        self.words
    }

    /// The ids below `ids` that are not complete, as ranges in order.
    pub(crate) fn missing(&self, ids: u32) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = self.find(next, ids, false)?;
            let end = self.find(start, ids, true).unwrap_or(ids);
            next = end;
            Some(start..end)
        })
    }

    /// The first id from `from` to below `ids` that is (or is not) complete.
    fn find(&self, from: u32, ids: u32, complete: bool) -> Option<u32> {
        let mut id = from;
        while id < ids {
            if complete {
                id = id.max(self.next_word(id / 64)? * 64);
            }
            let word = if complete { self.word(id / 64) } else { !self.word(id / 64) };
            let rest = word >> (id % 64);
            if rest != 0 {
                return Some(id + rest.trailing_zeros()).filter(|&found| found < ids);
            }
            id = (id / 64 + 1).checked_mul(64)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn delivered__is_a_set(
            inserted in proptest::collection::vec(prop_oneof![9 => 0u32..400, 1 => 0u32..1 << 24], 0..500),
            ids in 0u32..420,
            far in 0u32..1 << 24,
        ) {
            let mut delivered = Delivered::default();
            let mut model = BTreeSet::new();
            for id in inserted {
                prop_assert_eq!(delivered.contains(id), model.contains(&id));
                if model.insert(id) {
                    delivered.insert(id);
                }
                let cumulative = (0..).find(|id| !model.contains(id)).unwrap();
                prop_assert_eq!(delivered.cumulative(), cumulative);
            }
            prop_assert_eq!(delivered.number() as usize, model.len());
            let missing: Vec<u32> = delivered.missing(ids).flatten().collect();
            let expected: Vec<u32> = (0..ids).filter(|id| !model.contains(id)).collect();
            prop_assert_eq!(missing, expected);
            let ranges: Vec<_> = delivered.missing(far).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let missing: u32 = ranges.iter().map(|range| range.end - range.start).sum();
            prop_assert_eq!(missing as usize, far as usize - model.range(..far).count());
            prop_assert!(ranges.iter().all(|range| model.range(range.clone()).next().is_none()));
        }
    }
}
