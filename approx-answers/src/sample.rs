//! A sample of messages: what arrived of each stratum of a job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stratum::{STRATA_MAX, Stratum};
use crate::total::Total;
use crate::{AnswerError, Delivery, Moments};

/// The messages of a job that arrived, summed up.
///
/// Each message brings the number of its records, and their total of one column. A stratum is the
/// part of a job that one sender sends in one group, under a number of the caller's choice. Memory
/// depends on the number of strata alone.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    #[serde(deserialize_with = "crate::wire::strata::deserialize")]
    pub(crate) strata: BTreeMap<u32, Stratum>,
}

impl Sample {
    /// An empty sample.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of `records` records, whose values add up to `total`.
    ///
    /// # Errors
    /// The total is NaN, infinite or huge, or more messages arrive than were sent. The sample stays
    /// as it was.
    pub fn push(&mut self, stratum: u32, records: u64, total: f64) -> Result<(), AnswerError> {
        self.push_pair(stratum, records as f64, total)
    }

    /// Adds a message with the totals of two columns, for [`Sample::ratio`].
    ///
    /// # Errors
    /// As [`Sample::push`].
    pub fn push_pair(
        &mut self,
        stratum: u32,
        denominator: f64,
        numerator: f64,
    ) -> Result<(), AnswerError> {
        self.push_totals(stratum, Total::of(denominator), Total::of(numerator))
    }

    /// Adds a message of `records` records without a value, such as NaN. Answers leave them out and
    /// say so: [`crate::Warning::MissingValues`].
    ///
    /// # Errors
    /// More messages arrive than were sent. The sample stays as it was.
    pub fn push_missing(&mut self, stratum: u32, records: u64) -> Result<(), AnswerError> {
        self.push(stratum, 0, 0.0)?;
        self.note_missing(stratum, records);
        Ok(())
    }

    /// Notes records without a value, of a message that was added.
    pub(crate) fn note_missing(&mut self, stratum: u32, records: u64) {
        if let Some(own) = self.strata.get_mut(&stratum) {
            own.missing = own.missing.saturating_add(records);
        }
    }

    /// Records that arrived without a value.
    pub fn missing(&self) -> u64 {
        self.strata.values().fold(0, |sum, stratum| sum.saturating_add(stratum.missing))
    }

    /// Adds a message whose numbers are sums of records.
    pub(crate) fn push_totals(
        &mut self,
        stratum: u32,
        denominator: Total,
        numerator: Total,
    ) -> Result<(), AnswerError> {
        let is_nonzero = denominator.value() != 0.0 || numerator.value() != 0.0;
        self.push_counted(stratum, denominator, numerator, is_nonzero)
    }

    /// As [`Self::push_totals`]. `is_nonzero`: as in [`Moments::push_counted`].
    pub(crate) fn push_counted(
        &mut self,
        stratum: u32,
        denominator: Total,
        numerator: Total,
        is_nonzero: bool,
    ) -> Result<(), AnswerError> {
        self.change(stratum, |own| own.push(stratum, denominator, numerator, is_nonzero))
    }

    /// Whether the sample takes a message with these numbers.
    pub(crate) fn check_push(
        &self,
        stratum: u32,
        denominator: Total,
        numerator: Total,
    ) -> Result<(), AnswerError> {
        self.check_room(stratum)?;
        let own = self.strata.get(&stratum).copied().unwrap_or_default();
        own.check(stratum, denominator, numerator)
    }

    /// Sets the number of messages that a stratum sent: the N of its announcement or summary. A
    /// sender may end after fewer messages than it announced, so a smaller number replaces an
    /// earlier one.
    ///
    /// # Errors
    /// More have arrived, a smaller number was set, or a message with a larger id is lost.
    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        self.change(stratum, |own| own.set_sent(stratum, messages))
    }

    /// Sets the exact number of records in all messages of a stratum, arrived or not, as its
    /// sender stated it in an exact group. After [`Sample::push_pair`] it is the exact total of the
    /// denominator. A sum is then the mean per record times the number of records, and varies less
    /// if the totals of messages follow their records. Each stratum with an exact number needs
    /// a message for all answers but [`Sample::count`].
    ///
    /// # Errors
    /// The number is NaN, infinite or huge, or another number was set.
    pub fn set_exact_records(&mut self, stratum: u32, records: f64) -> Result<(), AnswerError> {
        self.set_exact_records_of(stratum, records, None)
    }

    /// Sets the exact number of records in `messages` messages: it has no part in the answer if
    /// fewer were sent.
    pub(crate) fn set_exact_records_of(
        &mut self,
        stratum: u32,
        records: f64,
        messages: Option<u64>,
    ) -> Result<(), AnswerError> {
        self.change(stratum, |own| own.set_exact_x(stratum, records, messages))
    }

    /// Sets how the messages of a stratum were sent, and which of them are missing. Later facts
    /// replace earlier ones. Set the number of messages before, or the lost ones tell it.
    ///
    /// # Errors
    /// There are too many strata.
    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        self.change(stratum, |own| {
            own.set_delivery(delivery);
            Ok(())
        })
    }

    /// Takes all messages of a stratum out.
    pub(crate) fn remove_stratum(&mut self, stratum: u32) {
        self.strata.remove(&stratum);
    }

    /// Adds the messages of another part of the job. No message may be in both.
    ///
    /// # Errors
    /// The parts contradict each other about a stratum. The sample stays as it was.
    pub fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        let mut strata = self.strata.clone(); // so that an error changes nothing
        for (&number, theirs) in &other.strata {
            check_room(&strata, number)?;
            let own = strata.entry(number).or_default();
            *own = own.merged(number, theirs)?;
        }
        self.strata = strata;
        Ok(())
    }

    /// Messages that arrived.
    pub fn messages(&self) -> u64 {
        self.strata.values().map(Stratum::arrived).sum()
    }

    /// Messages that were sent; `None` if a stratum hasn't said so.
    pub fn messages_sent(&self) -> Option<u64> {
        let mut sent = self.strata.values().map(|stratum| stratum.sent);
        sent.try_fold(0, |sum: u64, sent| Some(sum.saturating_add(sent?)))
    }

    /// The moments of a stratum's messages.
    pub fn moments(&self, stratum: u32) -> Option<&Moments> {
        self.strata.get(&stratum).map(|stratum| &stratum.moments)
    }

    /// Whether the sample has this stratum, or room for it.
    pub(crate) fn check_room(&self, stratum: u32) -> Result<(), AnswerError> {
        check_room(&self.strata, stratum)
    }

    /// Changes a stratum. A refused change leaves no new, empty stratum behind.
    fn change(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut Stratum) -> Result<(), AnswerError>,
    ) -> Result<(), AnswerError> {
        if let Some(stratum) = self.strata.get_mut(&number) {
            return change(stratum);
        }
        check_room(&self.strata, number)?;
        let mut stratum = Stratum::default();
        change(&mut stratum)?;
        self.strata.insert(number, stratum);
        Ok(())
    }

    /// Strata that take part in answers; each has a message.
    pub(crate) fn parts(&self) -> Result<Vec<(u32, &Stratum)>, AnswerError> {
        self.parts_if(|stratum| stratum.arrived() > 0)
    }

    /// Strata that take part in a count of records; each has a message or an exact number.
    pub(crate) fn parts_of_count(&self) -> Result<Vec<(u32, &Stratum)>, AnswerError> {
        self.parts_if(|stratum| stratum.arrived() > 0 || stratum.exact_x().is_some())
    }

    /// Strata that take part in answers, if all of them have what an answer needs.
    fn parts_if(
        &self,
        is_enough: impl Fn(&Stratum) -> bool,
    ) -> Result<Vec<(u32, &Stratum)>, AnswerError> {
        let is_part = |stratum: &Stratum| !stratum.is_empty() && !stratum.is_unknown();
        let parts = self.strata.iter().filter(|(_, stratum)| is_part(stratum));
        let parts: Vec<(u32, &Stratum)> = parts.map(|(&number, part)| (number, part)).collect();
        if let Some(&(stratum, part)) = parts.iter().find(|(_, part)| !is_enough(part)) {
            return Err(match part.stated_sent() {
                Some(sent) => AnswerError::EmptyStratum { stratum, sent },
                None => AnswerError::NoMessages,
            });
        }
        if parts.is_empty() && self.strata.values().any(Stratum::is_unknown) {
            return Err(AnswerError::NoMessages);
        }
        Ok(parts)
    }
}

fn check_room(strata: &BTreeMap<u32, Stratum>, stratum: u32) -> Result<(), AnswerError> {
    let is_full = strata.len() >= STRATA_MAX && !strata.contains_key(&stratum);
    (!is_full).then_some(()).ok_or(AnswerError::TooManyStrata { stratum, limit: STRATA_MAX })
}
