//! Answers as bytes.

use super::checked::{Checked, ensure};
use super::{Stored, from_bytes, to_bytes};
use crate::part::Part;
use crate::stratum::MESSAGES_MAX;
use crate::{AnswerError, Estimate};

impl Estimate {
    /// The answer as bytes, with its warnings and with what a [`crate::Planner`] needs: JSON, as
    /// the guide's page *Stored samples* states it.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self)
    }

    /// The answer of [`Estimate::to_bytes`].
    ///
    /// # Errors
    /// The bytes are no answer, are of another version, or contradict themselves.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        from_bytes(bytes)
    }
}

impl Stored for Estimate {
    const FORMAT: &'static str = "approx-answers estimate";

    fn check(&self) -> Checked {
        let Self { value, low, high, messages, messages_sent, .. } = self;
        ensure(value.is_finite() && low <= value && value <= high, "a value beyond its interval")?;
        ensure(self.degrees_of_freedom >= 0.0, "negative degrees of freedom")?;
        ensure(messages_sent.is_none_or(|sent| sent >= *messages), "more messages than sent")?;
        let spread = &self.spread;
        ensure(spread.fixed >= 0.0 && !spread.degrees_max.is_nan(), "a negative variance")?;
        spread.parts.iter().try_for_each(check_part)
    }
}

fn check_part(part: &Part) -> Checked {
    ensure(part.sent.is_none_or(|sent| sent >= part.arrived), "a part with more than sent")?;
    ensure(part.arrived > 0 && part.nonzero <= part.arrived, "a part of no messages")?;
    ensure(part.arrived <= MESSAGES_MAX && part.alike <= part.nonzero, "a part of too many")?;
    // Those of messages, or of groups of them.
    let degrees = part.degrees_of_freedom;
    let are_of_messages = (0.0..=part.arrived as f64).contains(&degrees) && degrees.fract() == 0.0;
    ensure(are_of_messages, "degrees of freedom of no messages")?;
    // An interval without bounds may have parts that aren't numbers.
    let is_negative = part.square < 0.0 || part.extreme_share < 0.0;
    ensure(!is_negative, "a part with a negative variance")
}
