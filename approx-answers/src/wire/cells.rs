//! The stored form of a key of quantiles and rankings.

use super::checked::{Checked, ensure};
use super::keyed::StoredCell;
use crate::keyed::Keyed;
use crate::stratum::VALUE_MAX;
use crate::values::{Kept, Values};
use crate::{AnswerError, Quantiles, Top, top};

/// Records of one key add up to more than a value may be.
const TOTAL_MAX: f64 = 1e80;
/// Numbers of records of all groups add up without an overflow.
const RECORDS_MAX: u64 = 1 << 47;
/// A value of a level above stands for more records than there are.
const LEVELS_MAX: usize = 48;

impl Quantiles<String> {
    /// The quantiles as bytes, as [`crate::Sample::to_bytes`] has those of a sample.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.keyed.to_bytes()
    }

    /// The quantiles of [`Quantiles::to_bytes`].
    ///
    /// # Errors
    /// As [`crate::Sample::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        Ok(Self { keyed: Keyed::from_bytes(bytes)? })
    }
}

impl Top<String> {
    /// The ranking as bytes, as [`crate::Sample::to_bytes`] has those of a sample.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.keyed.to_bytes()
    }

    /// The ranking of [`Top::to_bytes`].
    ///
    /// # Errors
    /// As [`crate::Sample::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        Ok(Self { keyed: Keyed::from_bytes(bytes)? })
    }
}

impl StoredCell for top::Total {
    const FORMAT: &'static str = "approx-answers top";

    fn check(&self) -> Checked {
        let is_sum = self.sum.abs() <= TOTAL_MAX && (self.records > 0 || self.sum == 0.0);
        ensure(is_sum && self.records <= RECORDS_MAX, "a total out of range")
    }
}

impl StoredCell for Values {
    const FORMAT: &'static str = "approx-answers quantiles";

    fn check(&self) -> Checked {
        let ends = self.ends();
        ensure(ends.is_some() == (self.values > 0), "the ends of no values")?;
        let (low, high) = ends.unwrap_or_default();
        ensure(low <= high && low.abs().max(high.abs()) <= VALUE_MAX, "ends out of range")?;
        let is_within = |value: f64| (low..=high).contains(&value);
        let mut values = Some(0u64);
        let mut add = |value: f64, count: Option<u64>| {
            values = values.zip(count).and_then(|(sum, count)| sum.checked_add(count));
            is_within(value) && count.is_some_and(|count| count > 0)
        };
        let is_fine = match &self.kept {
            Kept::All(exact) => exact.counted().all(|(value, count)| add(value, Some(count))),
            Kept::Some(sketch) => {
                let variance = sketch.error_variance();
                ensure(sketch.levels.len() <= LEVELS_MAX, "a sketch of too many levels")?;
                ensure((0.0..=TOTAL_MAX).contains(&variance), "a sketch with such an error")?;
                let levels = sketch.levels.iter().zip(0..);
                let mut values =
                    levels.flat_map(|(kept, level)| kept.iter().map(move |v| (*v, level)));
                values.all(|(value, level)| add(value, 1u64.checked_shl(level)))
            }
        };
        ensure(is_fine && values == Some(self.values), "values beyond their ends or number")?;
        ensure(self.values <= RECORDS_MAX, "too many values")
    }

    fn settle(&mut self) {
        if let Kept::Some(sketch) = &mut self.kept {
            sketch.count_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Delivery};

    /// As if all values took more memory than they may.
    #[test]
    fn from_bytes__of_sketches_gives_the_same_quantiles() {
        let mut sketched = Quantiles::new(2);
        sketched.keyed.room.exact_bytes_max = 0;
        sketched.set_messages_sent(0, 400).unwrap();
        sketched.set_delivery(0, &Delivery::shuffled()).unwrap();
        let mut push = |from: u32| {
            let values = (from..from + 100).map(|n| ("a".to_owned(), f64::from(n * 7919 % 9973)));
            sketched.push_message(0, values).unwrap();
        };
        (0..200).for_each(|message| push(100 * message));
        assert!(sketched.keyed.is_thinned);
        let mut again = Quantiles::from_bytes(&sketched.to_bytes()).unwrap();
        assert_eq!(again.to_bytes(), sketched.to_bytes());
        let bytes = |of: &Quantiles<String>| of.keyed.room.held_bytes;
        assert!(bytes(&again) > 0 && bytes(&again) <= bytes(&sketched));
        let median = |of: &Quantiles<String>| of.quantile(&"a".to_owned(), 0.5, Confidence::P95);
        assert!(median(&sketched).unwrap().standard_error() > 0.0);
        assert_eq!(median(&again), median(&sketched));
        let other = again.clone();
        assert_eq!(again.merge(&other).is_ok(), sketched.merge(&other).is_ok());
        assert_eq!(median(&again), median(&sketched));
    }
}
