//! Answers as bytes.

use super::checked::{Checked, ensure};
use super::{Stored, from_bytes, to_bytes};
use crate::part::Part;
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
    // An interval without bounds may have parts that aren't numbers.
    let is_negative = |number: f64| number < 0.0;
    let has_negative = is_negative(part.square) || is_negative(part.degrees_of_freedom);
    ensure(!has_negative, "a part with a negative variance")
}
