//! An answer with its interval.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spread::Spread;
use crate::wire::number;
use crate::{Confidence, Digits, Warning};

/// Decimals of an answer as a text.
const PLACES: u8 = 2;

/// An answer, and the interval that contains the true one with a stated confidence.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The answer.
    #[serde(with = "number")]
    pub value: f64,
    /// The lower end. It is negative infinity if one message can't show how messages vary.
    #[serde(with = "number")]
    pub low: f64,
    /// The upper end.
    #[serde(with = "number")]
    pub high: f64,
    /// The confidence of the interval.
    pub confidence: Confidence,
    /// Degrees of freedom of Student's t; infinite if every message arrived.
    #[serde(with = "number")]
    pub degrees_of_freedom: f64,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that were sent; `None` if a stratum hasn't said so.
    pub messages_sent: Option<u64>,
    /// Reasons to doubt the interval.
    pub warnings: Vec<Warning>,
    /// The level of the interval on its own: stricter than `confidence` if the answer was chosen
    /// from several.
    pub(crate) level: Confidence,
    /// The variance by stratum, for a plan of further messages.
    pub(crate) spread: Spread,
}

impl Estimate {
    /// Half of the interval's width. The interval of skewed values isn't symmetric:
    /// [`Estimate::reach`] is the larger part.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The distance from the answer to the farther end of the interval.
    pub fn reach(&self) -> f64 {
        (self.high - self.value).max(self.value - self.low)
    }

    /// The digits that the answer and its interval are written with; `places` decimals as a rule,
    /// see [`Digits::new`].
    pub fn digits(&self, places: u8) -> Digits {
        Digits::new([self.value, self.low, self.high], places)
    }

    /// The answer and its interval, short: `12.63 ± 0.75`, or the ends where the interval isn't
    /// symmetric. A bound is `at least` or `at most` what arrived. `places` as in
    /// [`Self::digits`].
    pub fn brief(&self, places: u8) -> String {
        let Self { value, low, high, .. } = *self;
        let is_even = (value - low - (high - value)).abs() <= 1e-6 * (high - low).abs();
        let digits = self.digits(places);
        let text = |number| digits.text(number);
        match (self.bound(), is_even || low == high) {
            (Some(bound), _) => format!("{bound} {}", text(value)),
            (None, true) => format!("{} ± {}", text(value), text(self.half_width())),
            (None, false) => format!("{} ({} to {})", text(value), text(low), text(high)),
        }
    }

    /// The standard error of the answer; infinite if nothing shows how messages vary.
    pub fn standard_error(&self) -> f64 {
        self.spread.variance().sqrt()
    }

    /// The side on which the answer bounds that of all rows; `None` for an answer with an interval.
    /// A minimum, a maximum or a number of different values is a bound until all rows arrived.
    pub fn bound(&self) -> Option<Bound> {
        match (self.low == self.value, self.high == self.value) {
            (true, false) if self.high == f64::INFINITY => Some(Bound::AtLeast),
            (false, true) if self.low == f64::NEG_INFINITY => Some(Bound::AtMost),
            _ => None,
        }
    }

    /// Whether the interval contains a number.
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }
}

/// The bound that an answer without an interval is for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The answer of all rows is as large, or larger.
    AtLeast,
    /// The answer of all rows is as small, or smaller.
    AtMost,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
        })
    }
}

/// Writes `12.30 (11.90 to 12.70, 95 %)` with the precision of the formatter, or two places, and
/// more if the interval's width needs them ([`Estimate::digits`]). Warnings are counted at the end:
/// `12.30 (11.90 to 12.70, 95 %; 1 warning)`. A bound is written as `at least 12.30`.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits(PLACES);
        let text = |number: f64| match f.precision() {
            Some(places) => format!("{number:.places$}"),
            None => digits.text(number),
        };
        if let Some(bound) = self.bound() {
            let end = match self.warnings.len() {
                0 => "",
                1 => " (1 warning)",
                _ => " (several warnings)",
            };
            return write!(f, "{bound} {}{end}", text(self.value));
        }
        let (value, low, high) = (text(self.value), text(self.low), text(self.high));
        // 100 * 0.57 is 56.99999999999999.
        let percent = (1e8 * self.confidence.level()).round() / 1e6;
        write!(f, "{value} ({low} to {high}, {percent} %")?;
        match self.warnings.len() {
            0 => f.write_str(")"),
            1 => f.write_str("; 1 warning)"),
            several => write!(f, "; {several} warnings)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Delivery, Sample};

    #[test]
    fn display__says_that_there_are_warnings() {
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 100).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        (0..50).for_each(|total| sample.push(0, 1, f64::from(total % 5)).unwrap());
        let mut estimate = sample.mean(Confidence::P95).unwrap();
        assert!(estimate.warnings.is_empty());
        assert!(estimate.to_string().ends_with(", 95 %)"), "{estimate}");
        estimate.warnings.push(Warning::ShortestFirst { stratum: 0 });
        assert!(estimate.to_string().ends_with(", 95 %; 1 warning)"), "{estimate}");
        estimate.warnings.push(Warning::EndOfRange);
        assert!(format!("{estimate:.1}").ends_with(", 95 %; 2 warnings)"), "{estimate}");
    }

    /// 31 errors of a million requests aren't none.
    #[test]
    fn display__shows_the_digits_that_the_interval_needs() {
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 1_000).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        (0..900).for_each(|n| sample.push(0, 1_000_000, f64::from(n % 3 + 30)).unwrap());
        let estimate = sample.mean(Confidence::P95).unwrap();
        assert_eq!(estimate.to_string(), "3.1000e-5 (3.0983e-5 to 3.1017e-5, 95 %)");
        assert_eq!(format!("{estimate:.6}"), "0.000031 (0.000031 to 0.000031, 95 %)");
    }
}
