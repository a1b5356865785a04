//! An answer with its interval.

use std::fmt;

use crate::{AnswerError, Confidence, Sample, Warning};

/// An answer, and the interval that contains the true one with a stated confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The answer.
    pub value: f64,
    /// The lower end. It is negative infinity if one message can't show how messages vary.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: Confidence,
    /// Degrees of freedom of Student's t; infinite if every message arrived.
    pub degrees_of_freedom: f64,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that were sent; `None` if a stratum hasn't said so.
    pub messages_sent: Option<u64>,
    /// Reasons to doubt the interval.
    pub warnings: Vec<Warning>,
}

impl Estimate {
    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the interval contains a number.
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }
}

/// Writes `12.30 (11.90 to 12.70, 95 %)` with the precision of the formatter, or two places.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(2);
        // 100 * 0.57 is 56.99999999999999.
        let percent = (1e8 * self.confidence.level()).round() / 1e6;
        let Self { value, low, high, .. } = self;
        write!(f, "{value:.places$} ({low:.places$} to {high:.places$}, {percent} %)")
    }
}

/// The variance of an answer, as a sum over strata.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variance {
    total: f64,
    /// The sum of `v * v / degrees` over strata.
    squares_per_degree: f64,
}

impl Variance {
    /// Adds a stratum's part. A part that no degree of freedom supports is infinite.
    pub(crate) fn add(&mut self, variance: f64, degrees_of_freedom: f64) {
        if degrees_of_freedom < 1.0 {
            self.total = f64::INFINITY;
        } else {
            self.total += variance;
            self.squares_per_degree += variance * variance / degrees_of_freedom;
        }
    }

    pub(crate) fn standard_error(&self) -> f64 {
        self.total.sqrt()
    }

    /// Welch and Satterthwaite: strata have variances of their own, and a stratum with a large
    /// part of the variance decides about the degrees of freedom. The alternative, messages less
    /// strata, is right only if all strata vary alike, and then both agree. Complete strata have
    /// no part.
    pub(crate) fn degrees_of_freedom(&self) -> f64 {
        if self.total.is_infinite() {
            0.0
        } else if self.squares_per_degree > 0.0 {
            // Ratios first: the square of a total may overflow.
            self.total / self.squares_per_degree * self.total
        } else {
            f64::INFINITY
        }
    }

    /// The answer of `sample` with this variance.
    pub(crate) fn estimate(
        &self,
        value: f64,
        confidence: Confidence,
        what: &'static str,
        sample: &Sample,
    ) -> Result<Estimate, AnswerError> {
        let (low, high) = self.interval(value, confidence, what)?;
        Ok(Estimate {
            value,
            low,
            high,
            confidence,
            degrees_of_freedom: self.degrees_of_freedom(),
            messages: sample.messages(),
            messages_sent: sample.messages_sent(),
            warnings: Vec::new(),
        })
    }

    /// The ends of an interval around a value.
    fn interval(
        &self,
        value: f64,
        confidence: Confidence,
        what: &'static str,
    ) -> Result<(f64, f64), AnswerError> {
        if !value.is_finite() || self.total.is_nan() || self.squares_per_degree.is_nan() {
            return Err(AnswerError::Overflow { what });
        }
        if self.total == 0.0 {
            return Ok((value, value));
        }
        let half_width = confidence.student(self.degrees_of_freedom()) * self.standard_error();
        Ok((value - half_width, value + half_width))
    }
}
