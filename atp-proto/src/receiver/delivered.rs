//! Which messages are whole: a growing bitmap, bounded by the number of ids.

/// The set of whole messages.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    words: Vec<u64>,
    number: u32,
    /// All messages below it are whole.
    cumulative: u32,
}

impl Delivered {
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.word(id / 64) >> (id % 64) & 1 == 1
    }

    /// Adds `id`, which is new.
    pub(crate) fn insert(&mut self, id: u32) {
        let at = id as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (id % 64);
        self.number += 1;
        while self.word(self.cumulative / 64) >> (self.cumulative % 64) & 1 == 1 {
            let rest = self.word(self.cumulative / 64) >> (self.cumulative % 64);
            self.cumulative += rest.trailing_ones();
        }
    }

    /// How many.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn cumulative(&self) -> u32 {
        self.cumulative
    }

    /// 64 messages from `64 * index`.
    pub(crate) fn word(&self, index: u32) -> u64 {
        self.words.get(index as usize).copied().unwrap_or(0)
    }

    /// Words up to the last one with a whole message.
    pub(crate) fn words(&self) -> u32 {
        self.words.len() as u32
    }

    /// The ids below `ids` that are not whole, as ranges in order.
    pub(crate) fn missing(&self, ids: u32) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = self.find(next, ids, false)?;
            let end = self.find(start, ids, true).unwrap_or(ids);
            next = end;
            Some(start..end)
        })
    }

    /// The first id from `from` to below `ids` that is (or is not) whole.
    fn find(&self, from: u32, ids: u32, whole: bool) -> Option<u32> {
        let mut id = from;
        while id < ids {
            let word = if whole { self.word(id / 64) } else { !self.word(id / 64) };
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
        fn delivered__is_a_set(inserted in proptest::collection::vec(0u32..400, 0..500), ids in 0u32..420) {
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
            let ranges: Vec<_> = delivered.missing(ids).collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
