//! The error that a user accepts.

use std::fmt;

use crate::{AnswerError, Estimate};

/// The first MSR of an absolute error, which says nothing about a rate.
const FIRST_MSR: f64 = 0.9;
const FIRST_MSR_MIN: f64 = 0.1;

/// The largest accepted distance from an answer to an end of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptedError {
    error: f64,
    is_relative: bool,
}

impl AcceptedError {
    /// A distance in the unit of the answer.
    ///
    /// # Errors
    /// The number isn't above 0, or isn't finite.
    pub fn absolute(error: f64) -> Result<Self, AnswerError> {
        Self::new(error, false)
    }

    /// A distance as a share of the answer, such as 0.05.
    ///
    /// # Errors
    /// As [`AcceptedError::absolute`].
    pub fn relative(share: f64) -> Result<Self, AnswerError> {
        Self::new(share, true)
    }

    fn new(error: f64, is_relative: bool) -> Result<Self, AnswerError> {
        let is_fine = error.is_finite() && error > 0.0;
        let accepted = Self { error, is_relative };
        is_fine.then_some(accepted).ok_or(AnswerError::AcceptedError { given: error })
    }

    /// The rule of thumb for the first MSR: 0.9 for a relative error of 10 % (NetApprox §6).
    pub fn first_msr(self) -> f64 {
        if self.is_relative { (1.0 - self.error).max(FIRST_MSR_MIN) } else { FIRST_MSR }
    }

    /// The accepted error of an answer, in its unit.
    pub(super) fn of(self, estimate: &Estimate) -> f64 {
        if self.is_relative { self.error * estimate.value.abs() } else { self.error }
    }

    pub(super) fn is_relative(self) -> bool {
        self.is_relative
    }

    /// The reach of an answer's interval, in the unit of the accepted error.
    pub(super) fn reached(self, estimate: &Estimate) -> f64 {
        let reach = estimate.reach();
        if reach == 0.0 || !self.is_relative {
            return reach;
        }
        reach / estimate.value.abs()
    }

    /// Whether an error in the unit of the accepted one is as small as that.
    pub(super) fn allows(self, reached: f64) -> bool {
        reached <= self.error
    }

    /// A number in the unit of the accepted error, in words.
    pub(super) fn in_words(self, error: f64) -> String {
        if self.is_relative { format!("{:.2} %", 100.0 * error) } else { format!("{error:.4}") }
    }
}

impl fmt::Display for AcceptedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(self.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_msr__is_the_paper_s_rule_of_thumb() {
        assert!((AcceptedError::relative(0.1).unwrap().first_msr() - 0.9).abs() < 1e-12);
        assert_eq!(AcceptedError::relative(3.0).unwrap().first_msr(), FIRST_MSR_MIN);
        assert_eq!(AcceptedError::absolute(3.0).unwrap().first_msr(), FIRST_MSR);
    }

    #[test]
    fn new__takes_positive_numbers() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(AcceptedError::relative(bad).is_err() && AcceptedError::absolute(bad).is_err());
        }
    }
}
