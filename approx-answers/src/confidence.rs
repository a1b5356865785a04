//! Confidence levels, and the quantiles of Student's t.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::AnswerError;

/// From here on the expansion is right to nine digits, and the library's inverse loses digits.
const DEGREES_EXPANDED_MIN: f64 = 1e3;
/// f64 must tell the tail from 0.
const TAIL_MIN: f64 = 1e-12;

/// The share of intervals that contain the true answer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd, Serialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Confidence(f64);

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = AnswerError;

    fn try_from(level: f64) -> Result<Self, AnswerError> {
        Self::new(level)
    }
}

impl Confidence {
    /// 95 %.
    pub const P95: Self = Self(0.95);
    /// 99 %.
    pub const P99: Self = Self(0.99);

    /// A level above 0 and below 1.
    ///
    /// # Errors
    /// The level is another number.
    pub fn new(level: f64) -> Result<Self, AnswerError> {
        let is_level = level > 0.0 && (1.0 - level) / 2.0 > TAIL_MIN;
        is_level.then_some(Self(level)).ok_or(AnswerError::Confidence { given: level })
    }

    /// This level, or the highest possible one.
    pub(crate) fn at_most(level: f64) -> Self {
        Self(level.min(1.0 - 4.0 * TAIL_MIN))
    }

    /// The level, between 0 and 1.
    pub fn level(self) -> f64 {
        self.0
    }

    /// The two-sided quantile of Student's t. Infinite degrees of freedom give that of the normal
    /// distribution, and none give infinity.
    pub fn student(self, degrees_of_freedom: f64) -> f64 {
        let below = 0.5 + self.0 / 2.0;
        if degrees_of_freedom.is_nan() || degrees_of_freedom <= 0.0 {
            return f64::INFINITY;
        }
        let t = (degrees_of_freedom < DEGREES_EXPANDED_MIN)
            .then(|| StudentsT::new(0.0, 1.0, degrees_of_freedom).ok())
            .flatten();
        match t {
            Some(t) => t.inverse_cdf(below),
            None => expanded(Normal::standard().inverse_cdf(below), degrees_of_freedom),
        }
    }
}

/// Student's quantile from the normal one, `z`, by the expansion of Cornish and Fisher.
fn expanded(z: f64, degrees_of_freedom: f64) -> f64 {
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * (5.0 * square * square + 16.0 * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    let per_degree = |term: f64| term / degrees_of_freedom;
    z + per_degree(first + per_degree(second + per_degree(third)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new__takes_levels_between_0_and_1() {
        for bad in [0.0, 1.0, -0.5, 95.0, f64::NAN, f64::INFINITY, 1.0 - 1e-16] {
            assert!(Confidence::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Confidence::new(0.95), Ok(Confidence::P95));
    }

    #[test]
    fn student__agrees_with_printed_tables() {
        let table = [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)];
        for (degrees, expected) in table {
            assert!((Confidence::P95.student(degrees) - expected).abs() < 6e-4, "{degrees}");
        }
        assert!((Confidence::P99.student(10.0) - 3.169).abs() < 6e-4);
        assert!((Confidence::P95.student(f64::INFINITY) - 1.959_964).abs() < 1e-6);
        assert_eq!(Confidence::P95.student(0.0), f64::INFINITY);
    }

    /// The first looks of a plan have levels like these.
    #[test]
    fn student__leaves_the_tail_that_the_level_states() {
        for tail in [1e-3, 1e-6, 1e-9, 1e-11] {
            for degrees in [1.5, 3.0, 29.0, 400.0, 990.0, 1_010.0, 20_000.0] {
                let level = Confidence::new(1.0 - 2.0 * tail).unwrap();
                let t = level.student(degrees);
                let found = StudentsT::new(0.0, 1.0, degrees).unwrap().cdf(-t);
                assert!((found / tail - 1.0).abs() < 1e-3, "{tail}, {degrees}: {t}, {found}");
            }
        }
    }

    #[test]
    fn student__is_continuous_where_the_expansion_begins() {
        let step = Confidence::P95.student(999.999) - Confidence::P95.student(1000.001);
        assert!(step.abs() < 1e-7, "{step}");
    }
}
