//! All values. Equal ones are counted.

use serde::{Deserialize, Serialize};

/// Values that may stay as they came, however few there are.
const FRESH_MIN: usize = 16;

/// All values, in order but for the last ones.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exact {
    /// In order, each value once, with its number.
    counted: Vec<(f64, u64)>,
    /// As they came, at most a quarter as many as the others: a new value then moves four of those.
    fresh: Vec<(f64, u64)>,
}

impl Exact {
    pub fn push(&mut self, value: f64) {
        self.fresh.push((value, 1));
        self.settle();
    }

    pub fn merge(&mut self, other: &Self) {
        self.fresh.extend(other.counted());
        self.settle();
    }

    /// The values, each with its number. A value may come more than once.
    pub fn counted(&self) -> impl Iterator<Item = (f64, u64)> {
        self.counted.iter().chain(&self.fresh).copied()
    }

    /// The values in order, each once, with its number.
    pub fn into_ordered(mut self) -> Vec<(f64, u64)> {
        self.counted.append(&mut self.fresh);
        // A stable sort merges what is in order already.
        self.counted.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.counted.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        self.counted
    }

    /// The memory of the values.
    pub fn bytes(&self) -> usize {
        size_of::<(f64, u64)>() * (self.counted.capacity() + self.fresh.capacity())
    }

    fn settle(&mut self) {
        if self.fresh.len() >= FRESH_MIN.max(self.counted.len() / 4) {
            self.counted = std::mem::take(self).into_ordered();
            self.counted.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn numbers(exact: &Exact) -> BTreeMap<i32, u64> {
        let mut numbers = BTreeMap::new();
        exact
            .counted()
            .for_each(|(value, count)| *numbers.entry(value as i32).or_default() += count);
        numbers
    }

    proptest! {
        #[test]
        fn counted__has_every_value(
            parts in prop::collection::vec(prop::collection::vec(-300..300, 0..900), 1..4),
        ) {
            let mut expected: BTreeMap<i32, u64> = BTreeMap::new();
            let mut merged = Exact::default();
            for part in parts {
                let mut exact = Exact::default();
                for value in part {
                    *expected.entry(value).or_default() += 1;
                    exact.push(value.into());
                }
                merged.merge(&exact);
            }
            prop_assert_eq!(numbers(&merged), expected);
        }
    }

    #[test]
    fn bytes__follow_different_values() {
        let mut exact = Exact::default();
        (0..1_000_000).for_each(|value| exact.push(f64::from(value % 3)));
        assert!(exact.bytes() < 600, "{}", exact.bytes());
        (0..100_000).for_each(|value| exact.push(f64::from(value)));
        assert!(exact.bytes() < 24 * 100_000, "{}", exact.bytes());
        assert_eq!(numbers(&exact)[&2], 333_334);
    }
}
