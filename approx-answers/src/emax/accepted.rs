//! The error that a user accepts.

use std::fmt;

use crate::{AnswerError, Estimate};

/// The first MSR of an absolute error, which says nothing about a rate.
const FIRST_MSR: f64 = 0.9;
const FIRST_MSR_MIN: f64 = 0.1;

/// The largest accepted half-width of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptedError {
    half_width: f64,
    is_relative: bool,
}

impl AcceptedError {
    /// A half-width in the unit of the answer.
    ///
    /// # Errors
    /// The number isn't above 0, or isn't finite.
    pub fn absolute(half_width: f64) -> Result<Self, AnswerError> {
        Self::new(half_width, false)
    }

    /// A half-width as a share of the answer, such as 0.05.
    ///
    /// # Errors
    /// As [`AcceptedError::absolute`].
    pub fn relative(share: f64) -> Result<Self, AnswerError> {
        Self::new(share, true)
    }

    fn new(half_width: f64, is_relative: bool) -> Result<Self, AnswerError> {
        let is_fine = half_width.is_finite() && half_width > 0.0;
        let accepted = Self { half_width, is_relative };
        is_fine.then_some(accepted).ok_or(AnswerError::AcceptedError { given: half_width })
    }

    /// The rule of thumb for the first MSR: 0.9 for a relative error of 10 % (NetApprox §6).
    pub fn first_msr(self) -> f64 {
        if self.is_relative { (1.0 - self.half_width).max(FIRST_MSR_MIN) } else { FIRST_MSR }
    }

    /// The accepted half-width of an answer, in its unit.
    pub(super) fn of(self, estimate: &Estimate) -> f64 {
        if self.is_relative { self.half_width * estimate.value.abs() } else { self.half_width }
    }

    pub(super) fn is_relative(self) -> bool {
        self.is_relative
    }

    /// The half-width of an answer, in the unit of the accepted one.
    pub(super) fn reached(self, estimate: &Estimate) -> f64 {
        let half_width = estimate.half_width();
        if half_width == 0.0 || !self.is_relative {
            return half_width;
        }
        half_width / estimate.value.abs()
    }

    /// A number in the unit of the accepted error, in words.
    pub(super) fn in_words(self, error: f64) -> String {
        if self.is_relative { format!("{:.2} %", 100.0 * error) } else { format!("{error:.4}") }
    }
}

impl fmt::Display for AcceptedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words(self.half_width))
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
