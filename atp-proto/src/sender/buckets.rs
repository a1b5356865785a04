//! A priority queue for small integer ranks: one list per rank, and a tree of bitmaps that finds
//! the first list with something in it. Put, take and first cost a handful of instructions, however
//! many messages wait.

use crate::list::{Links, List, NONE};

/// Keys by rank; first in, first out among equals.
#[derive(Debug)]
pub(crate) struct Buckets {
    lists: Vec<List>,
    links: Links,
    rank_of: Vec<u32>,
    occupied: Levels,
}

impl Buckets {
    /// For ranks up to `rank_max`.
    pub(crate) fn new(rank_max: u32) -> Self {
        Self {
            lists: Vec::new(),
            links: Links::default(),
            rank_of: Vec::new(),
            occupied: Levels::new(rank_max as usize + 1),
        }
    }

    /// The first key of the least rank, with its rank.
    pub(crate) fn first(&self) -> Option<(u32, u32)> {
        let rank = self.occupied.first()?;
        Some((rank, self.lists[rank as usize].head))
    }

    /// Moves `key` to the end of `rank`, or out; leaves it where it is if it has that rank already.
    pub(crate) fn set(&mut self, key: u32, rank: Option<u32>) {
        let before = self.rank_of.get(key as usize).copied().unwrap_or(NONE);
        let after = rank.unwrap_or(NONE);
        if before == after {
            return;
        }
        if before != NONE {
            let list = &mut self.lists[before as usize];
            self.links.remove(list, key);
            if list.is_empty() {
                self.occupied.remove(before);
            }
        }
        if self.rank_of.len() <= key as usize {
            self.rank_of.resize(key as usize + 1, NONE);
        }
        self.rank_of[key as usize] = after;
        if after != NONE {
            self.append(key, after);
        }
    }

    fn append(&mut self, key: u32, rank: u32) {
        if self.lists.len() <= rank as usize {
            self.lists.resize(rank as usize + 1, List::EMPTY);
        }
        let list = &mut self.lists[rank as usize];
        if list.is_empty() {
            self.occupied.insert(rank);
        }
        self.links.push_back(list, key);
    }
}

/// A set of integers below a fixed bound: bit `i` of a word at level `n + 1` says whether word `i`
/// of level `n` has any bit set.
#[derive(Debug)]
struct Levels(Vec<Vec<u64>>);

impl Levels {
    fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64)]];
        while levels[levels.len() - 1].len() > 1 {
            let words = levels[levels.len() - 1].len().div_ceil(64);
            levels.push(vec![0; words]);
        }
        Self(levels)
    }

    fn insert(&mut self, element: u32) {
        let mut at = element as usize;
        for level in &mut self.0 {
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
        let mut at = 0;
        for level in self.0.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
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
            steps in proptest::collection::vec((0u32..50, proptest::option::of(0u32..=9_000)), 1..300),
        ) {
            let mut buckets = Buckets::new(9_000);
            // (rank, stamp, key): the stamp is when the key came to its rank.
            let mut model: Vec<(u32, usize, u32)> = vec![];
            for (stamp, (key, rank)) in steps.into_iter().enumerate() {
                buckets.set(key, rank);
                let before = model.iter().position(|entry| entry.2 == key);
                if before.map(|at| model[at].0) != rank {
                    if let Some(at) = before {
                        model.remove(at);
                    }
                    model.extend(rank.map(|rank| (rank, stamp, key)));
                }
                let first = model.iter().min().map(|&(rank, _, key)| (rank, key));
                prop_assert_eq!(buckets.first(), first);
            }
        }
    }
}
