//! A priority queue for small integer ranks.
//!
//! It has one list per rank, and a tree of bitmaps that finds the first non-empty list. Inserting,
//! removing and finding the first key cost a few instructions, for any number of messages.

use crate::list::{Links, List, NONE};

/// Keys by rank; first in, first out among equals.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    lists: Vec<List>,
    occupied: Levels,
    len: usize,
}

/// The rank of each key, and its neighbors in the list. Buckets that share `Ranks` have different
/// keys.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    links: Links,
    /// [`NONE`], or twice the rank, plus one in the second of two buckets.
    positions: Vec<u32>,
}

impl Ranks {
    /// The position of a key: the rank, and whether it is in the second of two buckets.
    fn get(&self, key: u32) -> Option<(u32, bool)> {
        let position =
            self.positions.get(key as usize).copied().filter(|&position| position != NONE)?;
        Some((position / 2, position % 2 == 1))
    }

    fn set(&mut self, key: u32, position: Option<(u32, bool)>) {
        if self.positions.len() <= key as usize {
            self.positions.resize(key as usize + 1, NONE);
        }
        self.positions[key as usize] =
            position.map_or(NONE, |(rank, second)| 2 * rank + u32::from(second));
    }
}

/// Moves `key` to the end of a rank in one of two buckets, or out of both. A key that has that rank
/// already stays in its position.
pub(crate) fn file(
    ranks: &mut Ranks,
    [first, second]: [&mut Buckets; 2],
    key: u32,
    position: Option<(u32, bool)>,
) {
    let before = ranks.get(key);
    if before == position {
        return;
    }
    if let Some((rank, is_second)) = before {
        let buckets = if is_second { &mut *second } else { &mut *first };
        buckets.take(&mut ranks.links, key, rank);
    }
    ranks.set(key, position);
    if let Some((rank, is_second)) = position {
        let buckets = if is_second { second } else { first };
        buckets.put(&mut ranks.links, key, rank);
    }
}

impl Buckets {
    /// The first key of the least rank, with its rank.
    pub(crate) fn first(&self) -> Option<(u32, u32)> {
        let rank = self.occupied.first()?;
        Some((rank, self.lists[rank as usize].head))
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn take(&mut self, links: &mut Links, key: u32, rank: u32) {
        let list = &mut self.lists[rank as usize];
        links.remove(list, key);
        self.len -= 1;
        if list.is_empty() {
            self.occupied.remove(rank);
        }
    }

    fn put(&mut self, links: &mut Links, key: u32, rank: u32) {
        if self.lists.len() <= rank as usize {
            self.lists.resize(rank as usize + 1, List::EMPTY);
        }
        let list = &mut self.lists[rank as usize];
        if list.is_empty() {
            self.occupied.insert(rank);
        }
        links.push_back(list, key);
        self.len += 1;
    }
}

/// A set of integers below 2^24. Bit `i` of level `n + 1` says whether word `i` of level `n` has
/// any bit set. Its size grows with its largest element so far.
#[derive(Debug, Default)]
struct Levels([Vec<u64>; 4]);

impl Levels {
    fn insert(&mut self, element: u32) {
        let mut at = element as usize;
        for level in &mut self.0 {
            if level.len() <= at / 64 {
                level.resize(at / 64 + 1, 0);
            }
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    fn remove(&mut self, element: u32) {
        let mut at = element as usize;
        for level in &mut self.0 {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    fn first(&self) -> Option<u32> {
        // Short messages have low ranks. The first word has them, without a walk down the tree.
        if let Some(word) = self.0[0].first().filter(|word| **word != 0) {
            return Some(word.trailing_zeros());
        }
        let mut at = 0;
        for level in self.0.iter().rev() {
            let word = level.get(at).copied().filter(|&word| word != 0)?;
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets__pop_in_the_order_of_a_sort(
            steps in proptest::collection::vec(
                (0u32..50, proptest::option::of((0u32..=300_000, any::<bool>()))), 1..300),
        ) {
            let (mut ranks, mut buckets) = (Ranks::default(), [Buckets::default(), Buckets::default()]);
            // (second, rank, stamp, key): the stamp is when the key came to its position.
            let mut model: Vec<(bool, u32, usize, u32)> = vec![];
            for (stamp, (key, position)) in steps.into_iter().enumerate() {
                file(&mut ranks, buckets.each_mut(), key, position);
                let before = model.iter().position(|entry| entry.3 == key);
                if before.map(|at| (model[at].1, model[at].0)) != position {
                    if let Some(at) = before {
                        model.remove(at);
                    }
                    model.extend(position.map(|(rank, second)| (second, rank, stamp, key)));
                }
                for (second, buckets) in [false, true].into_iter().zip(&buckets) {
                    let first = model.iter().filter(|entry| entry.0 == second).min();
                    prop_assert_eq!(buckets.first(), first.map(|&(_, rank, _, key)| (rank, key)));
                }
            }
        }
    }
}
