//! Values for ranks: all of them while memory allows, then a sketch.

mod exact;
mod sketch;

use serde::{Deserialize, Serialize};

use crate::groups::mix;
use crate::keyed::Cell;
use exact::Exact;
use sketch::Sketch;

/// Values whose ranks are asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Values {
    pub(crate) kept: Kept,
    pub(crate) values: u64,
    /// Mixed from a seed and, once there is a sketch, from values.
    state: u64,
    /// The smallest and the largest value, which a sketch may drop.
    ends: Option<(f64, f64)>,
}

/// All values, or a sketch of them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kept {
    All(Exact),
    Some(Sketch),
}

impl Default for Kept {
    fn default() -> Self {
        Self::All(Exact::default())
    }
}

impl Cell for Values {
    fn seeded(seed: u64) -> Self {
        Self { state: seed, ..Self::default() }
    }

    fn push(&mut self, value: f64) {
        let value = value + 0.0; // Equal numbers are one value: -0.0 becomes 0.0.
        match &mut self.kept {
            Kept::All(exact) => exact.push(value),
            Kept::Some(sketch) => sketch.push(value, &mut self.state),
        }
        self.values += 1;
        self.widen((value, value));
    }

    fn merge(&mut self, other: &Self) {
        if matches!(other.kept, Kept::Some(_)) {
            self.thin();
        }
        self.state = mix(self.state ^ other.state);
        match (&mut self.kept, &other.kept) {
            (Kept::All(own), Kept::All(theirs)) => own.merge(theirs),
            (Kept::Some(own), Kept::Some(theirs)) => own.merge(theirs, &mut self.state),
            (Kept::Some(own), Kept::All(theirs)) => own.add(theirs.clone(), &mut self.state),
            (Kept::All(_), Kept::Some(_)) => unreachable!("thinned above"),
        }
        self.values += other.values;
        other.ends.into_iter().for_each(|ends| self.widen(ends));
    }

    fn records(&self) -> u64 {
        self.values
    }

    fn bytes(&self) -> usize {
        match &self.kept {
            Kept::All(exact) => exact.bytes(),
            Kept::Some(sketch) => sketch.bytes(),
        }
    }

    fn thin(&mut self) {
        if let Kept::All(exact) = &mut self.kept {
            let mut sketch = Sketch::default();
            sketch.add(std::mem::take(exact), &mut self.state);
            self.kept = Kept::Some(sketch);
        }
    }
}

impl Values {
    /// The variance that is added to the number of values up to a value; 0 while all are kept.
    pub fn error_variance(&self) -> f64 {
        match &self.kept {
            Kept::All(_) => 0.0,
            Kept::Some(sketch) => sketch.error_variance(),
        }
    }

    /// The smallest and the largest value; `None` without values.
    pub fn ends(&self) -> Option<(f64, f64)> {
        self.ends
    }

    /// Calls `on` with the values that are kept, each with the number that it stands for, in no
    /// order.
    pub fn each(&self, mut on: impl FnMut(f64, f64)) {
        match &self.kept {
            Kept::All(exact) => exact.counted().for_each(|(value, count)| on(value, count as f64)),
            Kept::Some(sketch) => sketch.weighted().for_each(|(value, count)| on(value, count)),
        }
    }

    /// The number of values that are at most `value`.
    pub fn up_to(&self, value: f64) -> f64 {
        let mut sum = 0.0;
        self.each(|kept, count| sum += if kept <= value { count } else { 0.0 });
        sum
    }

    fn widen(&mut self, (low, high): (f64, f64)) {
        let (least, most) = self.ends.unwrap_or((low, high));
        self.ends = Some((least.min(low), most.max(high)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, seq::SliceRandom};
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn thin__errs_no_more_than_is_stated() {
        for seed in 0..20 {
            let mut draws = ChaCha8Rng::seed_from_u64(seed);
            let mut shuffled: Vec<u32> = (0..100_000).collect();
            shuffled.shuffle(&mut draws);
            let mut parts = vec![Values::default(); 4];
            // Some are thinned at once, others when they have many values, the last one never.
            parts[0].thin();
            let (early, late) = shuffled.split_at(50_000);
            early.iter().for_each(|&v| parts[draws.random_range(0..4)].push(v.into()));
            parts[1].thin();
            late.iter().for_each(|&v| parts[draws.random_range(0..4)].push(v.into()));
            parts[2].thin();
            let mut values = Values::default();
            parts.iter().for_each(|part| values.merge(part));
            assert_eq!((values.up_to(1e9), values.records()), (1e5, 100_000));
            assert_eq!(values.ends(), Some((0.0, 99_999.0)));
            let stated = values.error_variance().sqrt();
            assert!(stated > 0.0 && stated < 0.01 * 1e5, "{stated}");
            for rank in [1e2, 1e4, 5e4, 9e4] {
                let error = values.up_to(rank - 1.0) - rank;
                assert!(error.abs() < 4.0 * stated, "seed {seed}, rank {rank}: {error}");
            }
            assert!(values.bytes() < 1 << 14, "{}", values.bytes());
        }
    }

    #[test]
    fn merge__of_exact_values_is_exact() {
        let of = |values: std::ops::Range<u32>| {
            let mut kept = Values::default();
            values.for_each(|value| kept.push(f64::from(value * 7919 % 1_000)));
            kept
        };
        let mut values = of(0..700);
        values.merge(&of(700..2_000));
        assert_eq!((values.up_to(249.0), values.records()), (500.0, 2_000));
        assert_eq!((values.error_variance(), values.ends()), (0.0, Some((0.0, 999.0))));
    }

    #[test]
    fn push__takes_both_zeros_for_one_value() {
        let mut values = Values::default();
        (0..100).for_each(|i| values.push(if i % 9 == 0 { -0.0 } else { 0.0 }));
        values.each(|value, _| assert!(value.is_sign_positive()));
        assert_eq!(values.up_to(-0.0), 100.0);
    }

    /// Draws from the values alone were the same in all sketches of a column with ties, and shifted
    /// this sum by nine standard deviations.
    #[test]
    fn up_to__of_tied_values_errs_independently() {
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let (mut error, mut stated) = (0.0, 0.0);
        for seed in 0..1_000 {
            let mut values = Values::seeded(mix(seed));
            values.thin();
            let pushed: Vec<u32> = (0..300).map(|_| draws.random_range(0..3)).collect();
            pushed.iter().for_each(|&value| values.push(value.into()));
            let zeros = pushed.iter().filter(|value| **value == 0).count() as f64;
            error += values.up_to(0.0) - zeros;
            stated += values.error_variance();
        }
        // A normal number is beyond 4.9 standard deviations once in a million times.
        assert!(error.abs() < 4.9 * stated.sqrt(), "{error}, {}", stated.sqrt());
        assert!(error != 0.0);
    }
}
