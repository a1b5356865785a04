//! A sketch of values for ranks: exact while it is small, then KLL (Karnin, Lang and Liberty 2016).
//!
//! The crate `datasketches` has KLL as well, but draws from the thread's generator: no run could be
//! repeated. This one also sums up the error that its compactions made.

use crate::groups::mix;
use crate::keyed::Cell;

/// The capacity of the highest level. Fifty sketches of this size have a rank error of 0.1 %
/// together.
const CAPACITY: usize = 128;
/// Lower levels have this share of the capacity of the next one.
const SHRINK: f64 = 2.0 / 3.0;
const CAPACITY_MIN: usize = 8;

/// Values of which each at level `l` stands for `2^l`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankSketch {
    levels: Vec<Vec<f64>>,
    values: u64,
    /// Mixed from a seed and from values, so that sketches err independently of each other. With
    /// ties, values alone would give the sketches of all groups the same draws.
    state: u64,
    error_variance: f64,
    /// The smallest and the largest value, which compactions may drop.
    ends: Option<(f64, f64)>,
    /// The memory of the levels, summed up when it changes.
    bytes: usize,
}

impl Cell for RankSketch {
    fn seeded(seed: u64) -> Self {
        Self { state: seed, ..Self::default() }
    }

    fn push(&mut self, value: f64) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let capacity = self.levels[0].capacity();
        self.levels[0].push(value);
        self.values += 1;
        self.widen((value, value));
        if self.compact() || self.levels[0].capacity() != capacity {
            self.bytes = self.bytes_of_levels();
        }
    }

    fn merge(&mut self, other: &Self) {
        if self.levels.len() < other.levels.len() {
            self.levels.resize(other.levels.len(), Vec::new());
        }
        for (own, others) in self.levels.iter_mut().zip(&other.levels) {
            own.extend_from_slice(others);
        }
        self.values += other.values;
        other.ends.into_iter().for_each(|ends| self.widen(ends));
        self.state = mix(self.state ^ other.state);
        self.error_variance += other.error_variance;
        self.compact();
        self.bytes = self.bytes_of_levels();
    }

    fn records(&self) -> u64 {
        self.values
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl RankSketch {
    /// The variance that the sketch adds to the number of values up to a value.
    pub fn error_variance(&self) -> f64 {
        self.error_variance
    }

    /// The smallest and the largest value; `None` without values.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.ends
    }

    fn widen(&mut self, (low, high): (f64, f64)) {
        let (least, most) = self.ends.unwrap_or((low, high));
        self.ends = Some((least.min(low), most.max(high)));
    }

    /// The values that are kept, each with the number that it stands for.
    pub fn weighted(&self) -> impl Iterator<Item = (f64, f64)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, values)| {
            values.iter().map(move |&value| (value, (1u64 << level) as f64))
        })
    }

    /// The number of values that are at most `value`.
    pub fn up_to(&self, value: f64) -> f64 {
        self.weighted().filter(|(kept, _)| *kept <= value).map(|(_, weight)| weight).sum()
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
    fn compact(&mut self) -> bool {
        let (mut level, mut any) = (0, false);
        while level < self.levels.len() {
            if self.levels[level].len() > self.capacity(level) {
                self.compact_level(level);
                any = true;
            }
            level += 1;
        }
        any
    }

    /// Keeps every second value, each for two. If an odd number of values lies below a value, its
    /// rank changes by the weight, up or down with the same probability. So the error of
    /// a compaction has a mean of zero, and half of the weight's square as its variance.
    fn compact_level(&mut self, level: usize) {
        if level + 1 == self.levels.len() {
            self.levels.push(Vec::new());
        }
        let values = &mut self.levels[level];
        values.sort_unstable_by(f64::total_cmp);
        let ends = [values[0], values[values.len() / 2], values[values.len() - 1]];
        self.state = ends.into_iter().fold(self.state, |state, end| mix(state ^ end.to_bits()));
        let first = (self.state & 1) as usize;
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
    use rand::{RngExt, seq::SliceRandom};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn up_to__is_exact_for_few_values() {
        let mut sketch = RankSketch::default();
        (0..CAPACITY).rev().for_each(|value| sketch.push(value as f64));
        assert_eq!((sketch.up_to(9.0), sketch.records()), (10.0, CAPACITY as u64));
        assert_eq!(sketch.error_variance(), 0.0);
    }

    #[test]
    fn up_to__errs_no_more_than_the_sketch_states() {
        for seed in 0..20 {
            let mut draws = ChaCha8Rng::seed_from_u64(seed);
            let mut values: Vec<u32> = (0..100_000).collect();
            values.shuffle(&mut draws);
            let mut parts = vec![RankSketch::default(); 4];
            values.iter().for_each(|&v| parts[draws.random_range(0..4)].push(v.into()));
            let mut sketch = RankSketch::default();
            parts.iter().for_each(|part| sketch.merge(part));
            let total: f64 = sketch.weighted().map(|(_, weight)| weight).sum();
            assert_eq!((total, sketch.records()), (1e5, 100_000));
            let stated = sketch.error_variance().sqrt();
            assert!(stated < 0.01 * 1e5, "{stated}");
            for rank in [1e2, 1e4, 5e4, 9e4] {
                let error = sketch.up_to(rank - 1.0) - rank;
                assert!(error.abs() < 4.0 * stated, "seed {seed}, rank {rank}: {error}");
            }
            assert!(sketch.weighted().count() < 5 * CAPACITY);
            for sketch in parts.iter().chain([&sketch]) {
                assert_eq!(sketch.bytes(), sketch.bytes_of_levels());
            }
        }
    }

    /// Draws from the values alone were the same in all sketches of a column with ties, and shifted
    /// this sum by nine standard deviations.
    #[test]
    fn up_to__of_tied_values_errs_independently() {
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let (mut error, mut stated) = (0.0, 0.0);
        for seed in 0..1_000 {
            let mut sketch = RankSketch::seeded(mix(seed));
            let values: Vec<u32> = (0..300).map(|_| draws.random_range(0..3)).collect();
            values.iter().for_each(|&value| sketch.push(value.into()));
            let zeros = values.iter().filter(|value| **value == 0).count() as f64;
            error += sketch.up_to(0.0) - zeros;
            stated += sketch.error_variance();
        }
        // A normal number is beyond 4.9 standard deviations once in a million times.
        assert!(error.abs() < 4.9 * stated.sqrt(), "{error}, {}", stated.sqrt());
        assert!(error != 0.0);
    }
}
