//! The error that a user accepts.

use std::fmt;

use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Digits, Estimate};

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

    /// The number of records that a random sample of `records` needs, so that an interval of their
    /// average reaches no farther: `m* = N t^2 S^2 / (t^2 S^2 + N e^2)` with Student's quantile
    /// (Cochran, Sampling Techniques, 4.4). 30 at least, or all.
    ///
    /// Unlike a [`Planner`](crate::Planner), it knows all records: `average` and `variance` are
    /// theirs, the latter with the divisor N - 1. So it is for those who send them.
    ///
    /// ```
    /// use approx_answers::{AcceptedError, Confidence};
    ///
    /// // 2 % of an average of 50: 1. Two standard errors of (10^2 / n)^(1/2) are 1 at n = 400.
    /// let needed = AcceptedError::relative(0.02)?.records_needed(
    ///     1_000_000,
    ///     50.0,
    ///     100.0,
    ///     Confidence::P95,
    /// );
    /// assert_eq!(needed, 387);
    /// # Ok::<(), approx_answers::AnswerError>(())
    /// ```
    pub fn records_needed(
        self,
        records: u64,
        average: f64,
        variance: f64,
        confidence: Confidence,
    ) -> u64 {
        let error = if self.is_relative { self.error * average.abs() } else { self.error };
        let is_met = |sample: u64| {
            let left = 1.0 / sample as f64 - 1.0 / records as f64;
            let reach = confidence.student(sample as f64 - 1.0) * (variance * left).sqrt();
            // All records have no error, whatever their variance.
            sample >= records || reach <= error
        };
        // More records never have a wider interval: halve the range that holds the least number.
        let (mut from, mut to) = (MESSAGES_MIN.min(records), records);
        while from < to {
            let middle = from + (to - from) / 2;
            if is_met(middle) { to = middle } else { from = middle + 1 }
        }
        to
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
        let (number, places, unit) =
            if self.is_relative { (100.0 * error, 2, " %") } else { (error, 4, "") };
        // The error is the width of an interval.
        Digits::new([number, 0.0, number], places).text(number) + unit
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
    fn records_needed__is_the_least_number_that_meets_the_error() {
        let accepted = AcceptedError::relative(0.05).unwrap();
        let needed = |records, average, variance| {
            accepted.records_needed(records, average, variance, Confidence::P95)
        };
        let reach = |sample: f64, records: f64| {
            let square = Confidence::P95.student(sample - 1.0).powi(2);
            (square * (1.0 / sample - 1.0 / records)).sqrt()
        };
        // The error is 0.05, and the deviation 1.
        for records in [100u64, 1_000, 10_000, 1_000_000] {
            let sample = needed(records, -1.0, 1.0);
            assert!(sample == records || reach(sample as f64, records as f64) <= 0.05);
            assert!(reach(sample as f64 - 1.0, records as f64) > 0.05, "{records}: {sample}");
        }
        // Records that agree need no more than answers without a doubt do; an average of 0 needs
        // all, and so does a variance that is no number.
        assert_eq!(
            [needed(1_000, 1.0, 0.0), needed(20, 1.0, 0.0), needed(0, 1.0, 0.0)],
            [30, 20, 0]
        );
        assert_eq!([needed(99, 0.0, 1.0), needed(99, 1.0, f64::NAN)], [99, 99]);
    }

    #[test]
    fn new__takes_positive_numbers() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(AcceptedError::relative(bad).is_err() && AcceptedError::absolute(bad).is_err());
        }
    }

    #[test]
    fn in_words__shows_small_errors() {
        let words = |accepted: Result<AcceptedError, _>| accepted.unwrap().to_string();
        assert_eq!(words(AcceptedError::relative(0.05)), "5.00 %");
        assert_eq!(words(AcceptedError::relative(0.0123)), "1.23 %");
        assert_eq!(words(AcceptedError::relative(1e-6)), "1.0e-4 %");
        assert_eq!(words(AcceptedError::absolute(0.5)), "0.5000");
        assert_eq!(words(AcceptedError::absolute(2.5e-6)), "2.5e-6");
        let accepted = AcceptedError::absolute(0.1).unwrap();
        assert_eq!(accepted.in_words(f64::INFINITY), "inf");
        assert_eq!(accepted.in_words(0.0), "0.0000");
    }
}
