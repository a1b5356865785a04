//! A sketch of values for ranks: KLL (Karnin, Lang and Liberty 2016).
//!
//! The crate `datasketches` has KLL as well, but draws from the thread's generator: no run could be
//! repeated. This one also sums up the error that its compactions made.

use serde::{Deserialize, Serialize};

use super::exact::Exact;
use crate::groups::mix;
use std::iter;

/// The capacity of the highest level. Fifty sketches of this size have a rank error of 0.1 %
/// together.
const CAPACITY: usize = 128;
/// Lower levels have this share of the capacity of the next one.
const SHRINK: f64 = 2.0 / 3.0;
const CAPACITY_MIN: usize = 8;

/// Values of which each at level `l` stands for `2^l`.
///
/// Draws follow from a state that is mixed from a seed and from values, so that sketches err
/// independently of each other. With ties, values alone would give the sketches of all groups the
/// same draws.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sketch {
    pub(crate) levels: Vec<Vec<f64>>,
    error_variance: f64,
    /// The memory of the levels, summed up when it changes.
    #[serde(skip)]
    bytes: usize,
}

impl Sketch {
    pub fn push(&mut self, value: f64, state: &mut u64) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let capacity = self.levels[0].capacity();
        self.levels[0].push(value);
        if self.compact(state) || self.levels[0].capacity() != capacity {
            self.bytes = self.bytes_of_levels();
        }
    }

    pub fn merge(&mut self, other: &Self, state: &mut u64) {
        if self.levels.len() < other.levels.len() {
            self.levels.resize(other.levels.len(), Vec::new());
        }
        for (own, others) in self.levels.iter_mut().zip(&other.levels) {
            own.extend_from_slice(others);
        }
        self.error_variance += other.error_variance;
        self.compact(state);
        self.bytes = self.bytes_of_levels();
    }

    /// Adds values of which all are known. A number of equal ones is put together from powers of
    /// two, without an error. A top level above that of as many different values would leave those
    /// below it too little room.
    pub fn add(&mut self, exact: Exact, state: &mut u64) {
        let counted = exact.into_ordered();
        if counted.is_empty() {
            return;
        }
        let values: u64 = counted.iter().map(|(_, count)| count).sum();
        let fits = |top: &u32| values >> top <= CAPACITY as u64;
        let top = (0..u64::BITS).find(fits).unwrap_or_default();
        let top = top.max(self.levels.len().saturating_sub(1) as u32);
        self.levels.resize(top as usize + 1, Vec::new());
        for (value, count) in counted {
            for level in (0..top).filter(|level| count >> level & 1 == 1) {
                self.levels[level as usize].push(value);
            }
            let of_top = (count >> top) as usize;
            self.levels[top as usize].extend(iter::repeat_n(value, of_top));
        }
        self.compact(state);
        self.levels.iter_mut().for_each(Vec::shrink_to_fit);
        self.bytes = self.bytes_of_levels();
    }

    /// The variance that the sketch adds to the number of values up to a value.
    pub fn error_variance(&self) -> f64 {
        self.error_variance
    }

    /// The values that are kept, each with the number that it stands for.
    pub fn weighted(&self) -> impl Iterator<Item = (f64, f64)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, values)| {
            values.iter().map(move |&value| (value, (1u64 << level) as f64))
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sums the memory of levels up that were read.
    pub fn count_bytes(&mut self) {
        self.bytes = self.bytes_of_levels();
    }

    fn bytes_of_levels(&self) -> usize {
        let values = self.levels.iter().map(Vec::capacity).sum::<usize>();
        size_of::<f64>() * values + size_of::<Vec<f64>>() * self.levels.capacity()
    }

    fn capacity(&self, level: usize) -> usize {
        let below_top = (self.levels.len() - 1 - level) as i32;
        ((CAPACITY as f64 * SHRINK.powi(below_top)) as usize).max(CAPACITY_MIN)
    }

    /// Halves the levels that are too long, from the lowest on. Returns whether there were any.
    fn compact(&mut self, state: &mut u64) -> bool {
        let (mut level, mut any) = (0, false);
        while level < self.levels.len() {
            if self.levels[level].len() > self.capacity(level) {
                self.compact_level(level, state);
                any = true;
            }
            level += 1;
        }
        any
    }

    /// Keeps every second value, each for two. If an odd number of values lies below a value, its
    /// rank changes by the weight, up or down with the same probability. So the error of
    /// a compaction has a mean of zero, and half of the weight's square as its variance.
    fn compact_level(&mut self, level: usize, state: &mut u64) {
        if level + 1 == self.levels.len() {
            self.levels.push(Vec::new());
        }
        let values = &mut self.levels[level];
        values.sort_unstable_by(f64::total_cmp);
        let ends = [values[0], values[values.len() / 2], values[values.len() - 1]];
        *state = ends.into_iter().fold(*state, |state, end| mix(state ^ end.to_bits()));
        let first = (*state & 1) as usize;
        let odd = if values.len() % 2 == 1 { values.pop() } else { None };
        let kept: Vec<f64> = values.drain(..).skip(first).step_by(2).collect();
        values.extend(odd);
        self.levels[level + 1].extend(kept);
        let weight = (1u64 << level) as f64;
        self.error_variance += weight * weight / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(sketch: &Sketch) -> f64 {
        sketch.weighted().map(|(_, weight)| weight).sum()
    }

    #[test]
    fn push__is_exact_for_few_values() {
        let (mut sketch, mut state) = (Sketch::default(), 0);
        (0..CAPACITY).rev().for_each(|value| sketch.push(value as f64, &mut state));
        assert_eq!((total(&sketch), sketch.error_variance()), (CAPACITY as f64, 0.0));
    }

    #[test]
    fn push__keeps_few_values() {
        let (mut sketch, mut state) = (Sketch::default(), 0);
        (0..100_000u32).for_each(|value| sketch.push(value.into(), &mut state));
        assert!(sketch.weighted().count() < 5 * CAPACITY);
        assert_eq!((total(&sketch), sketch.bytes()), (1e5, sketch.bytes_of_levels()));
    }

    fn of(values: impl Iterator<Item = u32>) -> Sketch {
        let (mut exact, mut sketch, mut state) = (Exact::default(), Sketch::default(), 0);
        values.for_each(|value| exact.push(value.into()));
        sketch.add(exact, &mut state);
        sketch
    }

    #[test]
    fn add__of_ties_has_no_error() {
        let sketch = of((0..100_000).map(|value| value % 7));
        assert_eq!((total(&sketch), sketch.error_variance()), (1e5, 0.0));
        let threes = sketch.weighted().filter(|(value, _)| *value == 3.0);
        assert_eq!(threes.map(|(_, weight)| weight).sum::<f64>(), 14_286.0);
        let few = of((0..CAPACITY as u32).map(|value| value.saturating_sub(64)));
        assert_eq!((total(&few), few.error_variance()), (CAPACITY as f64, 0.0));
    }

    /// One frequent value makes the ranks of others no less exact than as many different ones.
    #[test]
    fn add__of_a_frequent_value_errs_as_others() {
        let tied = of((0..140_000).map(|value| if value % 2 == 0 { 0 } else { value }));
        let different = of(0..140_000);
        assert_eq!(total(&tied), total(&different));
        assert!(tied.error_variance() <= different.error_variance());
    }
}
