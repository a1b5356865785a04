//! Sums that lose nothing to the order or to cancellation.

use serde::{Deserialize, Serialize};

use crate::wire::checked::{Checked, ensure};

/// The largest integer up to which every integer is a number of 64 bits.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;
/// The rounding of a number that isn't one of 64 bits, relative to it.
const HALF_ULP: f64 = f64::EPSILON / 2.0;
/// More than all records of at most 1e60 add up to.
const ROUNDED_MAX: f64 = 1e80;
/// The relative error that counts as exact where numbers have fractions.
const EXACT_SHARE: f64 = 1e-9;

/// A sum as two numbers that don't overlap: 106 bits in place of 53 (Dekker 1971, TwoSum of
/// Knuth). Sums of up to 2^50 integers below 2^53 are exact, whatever cancels.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Total {
    high: f64,
    low: f64,
    /// The sum of the absolute values of numbers that may have been rounded when they were read:
    /// those with a fraction, and those that aren't below 2^53.
    rounded: f64,
    /// Some number had a fraction.
    has_fractions: bool,
}

impl Total {
    /// The sum of one number.
    pub fn of(number: f64) -> Self {
        let is_below = number.abs() < INTEGER_MAX;
        // Rounding is a call on processors of the baseline, and no number above has a fraction.
        let has_fraction = is_below && number as i64 as f64 != number;
        let is_exact = is_below && !has_fraction;
        let rounded = if is_exact { 0.0 } else { number.abs() };
        Self { high: number, low: 0.0, rounded, has_fractions: has_fraction }
    }

    pub fn add(&mut self, other: &Self) {
        let (high, error) = two_sum(self.high, other.high);
        (self.high, self.low) = two_sum(high, error + self.low + other.low);
        self.rounded += other.rounded;
        self.has_fractions |= other.has_fractions;
    }

    /// Whether this may be a sum whose numbers add up to `most` at most, by their absolute values.
    pub fn check(&self, most: f64) -> Checked {
        // Sums of sums round, too.
        let most = 2.0 * most;
        ensure(self.high.abs() <= most, "a total beyond all values")?;
        ensure(
            self.low.abs() <= f64::EPSILON * self.high.abs(),
            "a total with two parts that overlap",
        )?;
        // Records of a message may cancel.
        ensure((0.0..=ROUNDED_MAX).contains(&self.rounded), "more rounding than values")
    }

    /// The sum, rounded once.
    pub fn value(&self) -> f64 {
        self.high + self.low
    }

    /// The most by which [`Total::value`] may differ from the sum of the numbers as they were
    /// written, if that matters: of integers always, of numbers with a fraction beyond nine digits.
    /// A fraction that is lost when its number is read, as that of 1000000000000000.05, counts as
    /// none.
    pub fn rounding(&self) -> f64 {
        let last = if self.low == 0.0 { 0.0 } else { HALF_ULP * self.high.abs() };
        let error = HALF_ULP * self.rounded + last;
        let harmless = if self.has_fractions { EXACT_SHARE * self.value().abs() } else { 0.0 };
        if error > harmless { error } else { 0.0 }
    }
}

impl FromIterator<f64> for Total {
    fn from_iter<I: IntoIterator<Item = f64>>(numbers: I) -> Self {
        let mut total = Self::default();
        numbers.into_iter().for_each(|number| total.add(&Self::of(number)));
        total
    }
}

/// The rounded sum, and what it lacks.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(numbers: &[f64]) -> Total {
        numbers.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn value__of_integers_is_exact_in_any_order(
            numbers in prop::collection::vec(-(1i64 << 53) + 1..1 << 53, 0..200),
        ) {
            let exact: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
            let floats: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            let total = of(&floats);
            prop_assert_eq!(total.value(), exact as f64);
            // It says so if the sum has no exact number of 64 bits.
            prop_assert_eq!(total.rounding() > 0.0, total.value() as i128 != exact);
            let (one, other) = floats.split_at(floats.len() / 3);
            let mut merged = of(other);
            merged.add(&of(one));
            prop_assert_eq!(merged.value(), total.value());
        }
    }

    #[test]
    fn rounding__of_numbers_that_cancel() {
        assert_eq!(of(&[1e15, 3.0, -1e15]).rounding(), 0.0);
        // Fractions were rounded when they were read.
        let total = of(&[1e15 + 0.1, 3.0, -1e15 - 0.1]);
        assert_eq!(total.value(), 3.0);
        assert!((0.05..0.5).contains(&total.rounding()), "{}", total.rounding());
        assert_eq!(of(&[0.1; 1_000]).rounding(), 0.0);
        // 2^53 may be the text 9007199254740993.
        assert!(of(&[INTEGER_MAX]).rounding() >= 1.0);
    }
}
