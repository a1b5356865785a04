//! One stratum: the messages of one sender and group.

use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, Facts};
use crate::total::Total;
use crate::{AnswerError, Moments};

/// The third powers of larger numbers may overflow.
pub(crate) const VALUE_MAX: f64 = 1e60;
/// Strata have a few hundred bytes each. A bound keeps hostile numbers from filling memory.
pub(crate) const STRATA_MAX: usize = 65_536;
/// Numbers of messages of all strata add up without an overflow.
pub(crate) const MESSAGES_MAX: u64 = 1 << 40;

/// The arrived messages of a stratum, and the totals that its sender gave.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stratum {
    /// Left out of stored samples without messages: then they are infinite.
    #[serde(default, skip_serializing_if = "Moments::is_empty")]
    pub moments: Moments,
    pub sent: Option<u64>,
    /// The exact total of `x` over all messages, arrived or not.
    #[serde(rename = "exact")]
    pub exact_x: Option<Exact>,
    /// `None` if nothing is known of the delivery.
    #[serde(rename = "delivery")]
    pub facts: Option<Facts>,
    /// The end of the ids of its lost messages. At least this number of messages was sent.
    #[serde(rename = "lost_end")]
    pub ids: u64,
    /// Records that arrived without a value.
    pub missing: u64,
}

/// An exact total of a sender.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exact {
    pub total: f64,
    /// The number of messages that it is of, if the sender stated it.
    messages: Option<u64>,
}

impl Stratum {
    /// The exact total of `x` over all messages sent. A sender that ended before it had sent all of
    /// its table has stated the total of more messages.
    pub fn exact_x(&self) -> Option<f64> {
        let exact = self.exact_x?;
        let is_of_sent = exact.messages.zip(self.sent).is_none_or(|(one, other)| one == other);
        is_of_sent.then_some(exact.total)
    }

    pub fn arrived(&self) -> u64 {
        self.moments.messages()
    }

    pub fn is_complete(&self) -> bool {
        self.sent == Some(self.arrived())
    }

    /// A stratum that sent nothing has no part in any answer.
    pub fn is_empty(&self) -> bool {
        self.arrived() == 0 && self.stated_sent() == Some(0)
    }

    /// A stratum of which nothing but its delivery is known.
    pub fn is_unknown(&self) -> bool {
        self.sent.is_none() && self.arrived() == 0 && self.exact_x.is_none()
    }

    /// The number of messages sent, or else that which its exact total is of.
    pub fn stated_sent(&self) -> Option<u64> {
        self.sent.or(self.exact_x.and_then(|exact| exact.messages))
    }

    /// The finite-population correction `1 - m/N`; 1 if N is unknown.
    pub fn missing_share(&self) -> f64 {
        self.sent.map_or(1.0, |sent| 1.0 - self.arrived() as f64 / sent.max(1) as f64)
    }

    /// Sets N. A sender that announced more may end with fewer: N is then the number of messages
    /// sent. It can't send more than announced, so a larger N is another source's.
    pub fn set_sent(&mut self, stratum: u32, sent: u64) -> Result<(), AnswerError> {
        check_arrived(stratum, self.arrived(), Some(sent))?;
        if let Some(announced) = self.sent.filter(|announced| sent > *announced) {
            return Err(sent_conflict(stratum, announced, sent));
        }
        if sent < self.ids {
            return Err(sent_conflict(stratum, self.ids, sent));
        }
        self.sent = Some(sent);
        Ok(())
    }

    /// Sets how its messages were sent and which are missing.
    pub fn set_delivery(&mut self, delivery: &Delivery) {
        // The messages may not have been added yet, and their number not be set.
        let last = delivery.lost.iter().flatten().map(|run| run.end).max().unwrap_or(0);
        let messages = self.sent.unwrap_or(0).max(self.arrived()).max(last);
        self.ids = last;
        self.facts = Some(Facts::new(delivery, messages));
    }

    /// Sets the exact total of `x`: of this number of messages, or else of all that were sent.
    pub fn set_exact_x(
        &mut self,
        stratum: u32,
        total: f64,
        messages: Option<u64>,
    ) -> Result<(), AnswerError> {
        check_value(stratum, "exact total", total)?;
        let known = self.exact_x.unwrap_or(Exact { total, messages });
        if known.total != total {
            let (field, one) = ("exact total", known.total);
            return Err(AnswerError::Conflict { stratum, field, one, other: total });
        }
        if let Some((one, other)) = known.messages.zip(messages).filter(|(one, other)| one != other)
        {
            let (field, one, other) = ("messages of the exact total", one as f64, other as f64);
            return Err(AnswerError::Conflict { stratum, field, one, other });
        }
        self.exact_x = Some(Exact { total, messages: messages.or(known.messages) });
        Ok(())
    }

    /// Adds a message. `is_nonzero`: as in [`Moments::push_counted`].
    pub fn push(
        &mut self,
        stratum: u32,
        x: Total,
        y: Total,
        is_nonzero: bool,
    ) -> Result<(), AnswerError> {
        self.check(stratum, x, y)?;
        self.moments.push_counted(x, y, is_nonzero);
        Ok(())
    }

    /// Whether the stratum takes a message with these numbers.
    pub fn check(&self, stratum: u32, x: Total, y: Total) -> Result<(), AnswerError> {
        check_value(stratum, "denominator", x.value())?;
        check_value(stratum, "total", y.value())?;
        check_arrived(stratum, self.arrived() + 1, self.sent)
    }

    /// The stratum with the messages and facts of another part of it.
    pub fn merged(mut self, stratum: u32, other: &Self) -> Result<Self, AnswerError> {
        // Nothing is known of a part's messages without facts.
        let facts = |part: &Self| part.facts.or((part.arrived() > 0).then(Facts::default));
        self.facts = match (facts(&self), facts(other)) {
            (Some(own), Some(theirs)) => Some(own.merged(theirs)),
            (own, theirs) => own.or(theirs),
        };
        let arrived = self.arrived().saturating_add(other.arrived());
        check_arrived(stratum, arrived, self.sent.or(Some(MESSAGES_MAX)))?;
        self.moments.merge(&other.moments);
        self.ids = self.ids.max(other.ids);
        self.missing = self.missing.saturating_add(other.missing);
        match (self.sent, other.sent) {
            // Nothing tells which part is right.
            (Some(one), Some(other)) if one != other => {
                return Err(sent_conflict(stratum, one, other));
            }
            (one, other) => {
                if let Some(sent) = one.or(other) {
                    self.set_sent(stratum, sent)?;
                }
            }
        }
        if let Some(Exact { total, messages }) = other.exact_x {
            self.set_exact_x(stratum, total, messages)?;
        }
        Ok(self)
    }
}

fn sent_conflict(stratum: u32, one: u64, other: u64) -> AnswerError {
    let (one, other) = (one as f64, other as f64);
    AnswerError::Conflict { stratum, field: "messages sent", one, other }
}

pub(crate) fn check_value(
    stratum: u32,
    field: &'static str,
    given: f64,
) -> Result<(), AnswerError> {
    // NaN is in no range.
    let is_fine = (-VALUE_MAX..=VALUE_MAX).contains(&given);
    is_fine.then_some(()).ok_or(AnswerError::Value { stratum, field, given })
}

pub(crate) fn check_arrived(
    stratum: u32,
    arrived: u64,
    sent: Option<u64>,
) -> Result<(), AnswerError> {
    match sent {
        Some(sent) if arrived > sent => Err(AnswerError::MoreThanSent { stratum, arrived, sent }),
        _ => Ok(()),
    }
}
