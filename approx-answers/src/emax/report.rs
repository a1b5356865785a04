//! The report of a planner: the error that was reached.

use std::fmt;

use super::AcceptedError;
use crate::{Confidence, Estimate, Warning};

/// Whether the accepted error was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The accepted error.
    pub accepted: AcceptedError,
    /// The largest distance from an answer to an end of its interval, in the unit of the accepted
    /// error.
    pub reached: f64,
    /// Why the error wasn't met; `None` if it was.
    pub because: Option<Reason>,
    /// The answers at the end. Their intervals have the confidence that was asked for; they are
    /// a little wider than those of a job that nobody looked at before.
    pub estimates: Vec<Estimate>,
    /// The level of the last look, which is stricter than the confidence: it pays for the looks.
    /// Use it for other answers of the same job, or later ones, to keep the confidence.
    pub level: Confidence,
    /// How often the planner looked.
    pub looks: u32,
}

impl Report {
    /// Whether each answer has an interval that reaches no farther than accepted, and no warning
    /// puts one in doubt.
    pub fn is_met(&self) -> bool {
        self.because.is_none()
    }

    /// The warnings of the answers, each once: reasons to doubt even an error that was met.
    pub fn warnings(&self) -> Vec<&Warning> {
        let mut all: Vec<&Warning> = Vec::new();
        for warning in self.estimates.iter().flat_map(|estimate| &estimate.warnings) {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
        all
    }
}

/// Why an accepted error wasn't met.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The sources ended, and messages are missing.
    Ended {
        /// Messages that are missing; `None` if a source hasn't said how many it sent.
        missing: Option<u64>,
    },
    /// An answer isn't known to differ from 0, of which no share is an error.
    NearZero,
    /// Too few messages carry an answer.
    FewMessages,
    /// The intervals are narrow enough, but a warning puts an answer in doubt.
    InDoubt,
    /// A ratio's denominator may be 0.
    DenominatorNearZero,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reached = self.accepted.in_words(self.reached);
        match self.because {
            None => {
                write!(f, "the error is {reached} of {} accepted", self.accepted)?;
                match self.warnings().len() {
                    0 => Ok(()),
                    1 => f.write_str(", with a warning"),
                    more => write!(f, ", with {more} warnings"),
                }
            }
            // The interval of few messages may be narrow by chance.
            Some(reason) if reason == Reason::InDoubt || self.accepted.allows(self.reached) => {
                write!(f, "the error is {reached} of {} accepted, but {reason}", self.accepted)
            }
            Some(reason) => write!(
                f,
                "the error is {reached}, more than the {} accepted, because {reason}",
                self.accepted
            ),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { missing: Some(0) } => f.write_str(
                "all messages arrived, and quantiles of many values have an error of rank of 0.1 %",
            ),
            Self::Ended { missing: Some(missing) } => write!(
                f,
                "the senders ended and {missing} messages are missing: begin with a higher MSR"
            ),
            Self::Ended { missing: None } => {
                f.write_str("the senders ended: begin with a higher MSR, and announce N")
            }
            Self::NearZero => {
                f.write_str("the answer may be 0: give the accepted error in its own unit")
            }
            Self::InDoubt => f.write_str("that is in doubt: see the warnings"),
            Self::FewMessages => f.write_str(
                "too few messages carry an answer: begin with a MSR of 1, or send smaller messages",
            ),
            Self::DenominatorNearZero => f.write_str(
                "a ratio's denominator may be 0: begin with a higher MSR, or ask for the two sums",
            ),
        }
    }
}
