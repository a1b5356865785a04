//! The answer of a query, from rows that arrive message by message.

use super::{
    Answers, Function, InputRow, Query,
    records::{Columns, Counted, Once, Repeated},
    state::{self, Part, State},
};
use crate::check::contradictions;
use crate::{AnswerError, Confidence, Delivery, Estimate, QueryError, Sample, Totals, Warning};

/// The answer of a query, at any time of its job.
///
/// ```
/// use approx_answers::{Answering, Confidence, Delivery};
///
/// let columns = ["carrier", "dep_delay"];
/// let mut answering = Answering::new("avg(dep_delay) by carrier".parse()?, &columns)?;
/// answering.set_messages_sent(0, 50)?;
/// answering.set_delivery(0, &Delivery::shuffled())?;
/// for message in 0..40 {
///     let delay_min = (message % 7).to_string();
///     answering.push_message(0, [["UA", &delay_min], ["AA", "3"], ["UA", "NA"]])?;
/// }
/// let answers = answering.answers(Confidence::P95)?;
/// for row in &answers.rows {
///     println!("{}: {}", row.key_text(), row.estimate);
/// }
/// assert_eq!(answers.rows[1].key, ["UA"]);
/// # Ok::<(), approx_answers::QueryError>(())
/// ```
///
/// In rows of text, a missing number is empty, `NA`, `N/A`, `null` or `\N`, in any case; rows
/// without one of the query's numbers are left out. `count(column)` counts none of these, and warns
/// of the words in a column of text. A key may be such a word, and is missing in `top` if it is
/// empty. Rows with types ([`InputRow`]) say themselves what is missing. At most 10,000
/// keys are counted, and 250 of a quantile, over all combinations of the key's columns; fewer if
/// they take more than 256 MiB. Several functions share that memory.
#[derive(Clone, Debug)]
pub struct Answering {
    query: Query,
    columns: Columns,
    parts: Vec<Part>,
    /// The rows of each message, for functions whose state doesn't count them.
    rows: Sample,
    /// Rows that lack one of the query's numbers.
    missing: u64,
}

impl Answering {
    /// A query of a table with these columns.
    ///
    /// # Errors
    /// The table lacks a column of the query, or the query has no function.
    pub fn new<S: AsRef<str>>(query: Query, columns: &[S]) -> Result<Self, QueryError> {
        if query.functions.is_empty() {
            return Err(QueryError::Function { given: query.to_string() });
        }
        let columns = Columns::new(&query, columns)?;
        let parts = query.functions.iter().map(|function| Part::new(&query, function)).collect();
        Ok(Self { query, columns, parts, rows: Sample::new(), missing: 0 })
    }

    /// Whether the states count all rows of each message.
    fn is_of_rows(&self) -> bool {
        self.query.functions.iter().all(Function::is_of_rows)
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The positions of the columns that the query uses, in order and each once: those of its
    /// functions, its keys and its condition. Rows need no other values.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.columns.positions()
    }

    /// Adds the rows of one message, each with its values as text in the order of the columns.
    ///
    /// # Errors
    /// A row lacks a column, or a value isn't a number; more messages arrive than were sent. The
    /// message is then left out.
    pub fn push_message<R, S>(
        &mut self,
        stratum: u32,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), QueryError>
    where
        R: AsRef<[S]>,
        S: AsRef<str>,
    {
        let (columns, parts) = self.columns_and_parts();
        let counted = state::push(parts, stratum, Once::new(columns, rows.into_iter()))?;
        self.note(stratum, &counted);
        Ok(())
    }

    /// Adds the rows of one message, whose values may have types. They may be gone through several
    /// times.
    ///
    /// # Errors
    /// As [`Answering::push_message`].
    pub fn push_rows(
        &mut self,
        stratum: u32,
        rows: impl IntoIterator<Item: InputRow, IntoIter: Clone>,
    ) -> Result<(), QueryError> {
        let (columns, parts) = self.columns_and_parts();
        let counted = state::push(parts, stratum, Repeated::new(columns, rows.into_iter()))?;
        self.note(stratum, &counted);
        Ok(())
    }

    /// Notes the rows of a message that was added.
    pub(super) fn note(&mut self, stratum: u32, counted: &Counted) {
        self.missing += counted.missing;
        if !self.is_of_rows() {
            // The states have the message. Its rows alone have too many strata: they only check.
            let _ = self.rows.push(stratum, counted.rows, 0.0);
        }
    }

    pub(super) fn columns_and_parts(&mut self) -> (&Columns, &mut [Part]) {
        (&self.columns, &mut self.parts)
    }

    /// Sets the number of messages that a stratum sent.
    ///
    /// # Errors
    /// As [`Sample::set_messages_sent`].
    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        if !self.is_of_rows() {
            // The rows have all that the state knows, and totals of more strata. So they refuse
            // nothing else, once the state has taken it.
            self.rows.check_room(stratum)?;
        }
        for part in &mut self.parts {
            part.state.set_messages_sent(stratum, messages)?;
        }
        if self.is_of_rows() { Ok(()) } else { self.rows.set_messages_sent(stratum, messages) }
    }

    /// Takes the totals message of a stratum, which its sender states in an exact group
    /// ([`crate::Table::TOTALS_MESSAGE`]), at any time of the job. With the number of records:
    ///
    /// | query | effect |
    /// |---|---|
    /// | `count(*)` of all rows | exact, whichever messages are missing |
    /// | other sums and counts, also by key or with a condition | the mean per record times the records |
    /// | all | a warning if the sample contradicts the total ([`Warning::ContradictsExact`]) |
    ///
    /// The total is of all rows, so rows without a value or a key count, too. Strata without totals
    /// are estimated as ever. Totals have no effect if the stratum sent another number of messages
    /// than they state: its sender has ended before the end of its table.
    ///
    /// # Errors
    /// The message is no totals message ([`crate::Totals::parse`]), or other totals were set. The
    /// answers stay as they were.
    pub fn push_totals(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        Ok(self.set_totals(stratum, Totals::parse(message)?)?)
    }

    /// As [`Answering::push_totals`], of a message that was read.
    ///
    /// # Errors
    /// Other totals were set. The answers stay as they were.
    pub fn set_totals(&mut self, stratum: u32, totals: Totals) -> Result<(), AnswerError> {
        match totals.records {
            Some(records) => self.set_exact(stratum, records as f64, totals.messages),
            None => Ok(()),
        }
    }

    /// Sets the exact number of records in all messages of a stratum, arrived or not, as its sender
    /// stated it: all rows, with or without a value. The effect is that of
    /// [`Answering::push_totals`].
    ///
    /// # Errors
    /// As [`Sample::set_exact_records`].
    pub fn set_exact_records(&mut self, stratum: u32, records: f64) -> Result<(), AnswerError> {
        self.set_exact(stratum, records, None)
    }

    fn set_exact(
        &mut self,
        stratum: u32,
        records: f64,
        messages: Option<u64>,
    ) -> Result<(), AnswerError> {
        for part in &mut self.parts {
            match &mut part.state {
                State::Sums(sample) => {
                    sample.set_exact_records_of(stratum, records, messages)?;
                }
                State::Grouped(by) if part.function.is_of_rows() => {
                    by.set_exact_records_of(stratum, records, messages)?;
                }
                _ => {}
            }
        }
        if self.is_of_rows() {
            return Ok(());
        }
        self.rows.set_exact_records_of(stratum, records, messages)
    }

    /// Sets how the messages of a stratum were sent, and which of them are missing.
    ///
    /// # Errors
    /// As [`Sample::set_delivery`].
    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        self.parts.iter_mut().try_for_each(|part| part.state.set_delivery(stratum, delivery))
    }

    /// Takes all messages of a stratum out of the answers, such as those of a source that never
    /// said how many it sends. Notes of its missing values stay: a key without values among them,
    /// and `NA` in text.
    pub fn remove_stratum(&mut self, stratum: u32) {
        self.parts.iter_mut().for_each(|part| part.state.remove_stratum(stratum));
        self.rows.remove_stratum(stratum);
    }

    /// Messages that arrived.
    pub fn messages(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.state.all().messages())
    }

    /// The answers so far, a row for each key and function.
    ///
    /// # Errors
    /// No message has arrived yet, or none of a stratum whose totals are known, but for the count
    /// of all rows that totals state. A sum or a count lacks a stratum's number of messages sent.
    /// No function of several has an answer.
    pub fn answers(&self, confidence: Confidence) -> Result<Answers, AnswerError> {
        let mut rows = Vec::new();
        let (mut separates, mut keys_seen_from, mut warnings) = (None, None, Vec::new());
        let mut without = None;
        for (at, part) in self.parts.iter().enumerate() {
            let mut found = match part.answers(&self.query, confidence) {
                // Of the other functions there may be one.
                Err(error @ AnswerError::ZeroDenominator) => {
                    without = Some(error);
                    continue;
                }
                found => found?,
            };
            let contradicted = self.contradictions(part)?;
            match part.state {
                State::Top(_) => found.warnings.extend(contradicted),
                _ => {
                    let rows = found.rows.iter_mut();
                    rows.for_each(|(_, row)| row.warnings.extend(contradicted.clone()));
                }
            }
            separates = separates.or(found.separates);
            keys_seen_from = if at == 0 {
                found.keys_seen_from
            } else {
                keys_seen_from.zip(found.keys_seen_from).map(|(one, other)| one.max(other))
            };
            for warning in std::mem::take(&mut found.warnings) {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
            rows.extend(found.into_rows(at));
        }
        if let Some(error) = without.filter(|_| rows.is_empty()) {
            return Err(error);
        }
        if self.parts.len() > 1 {
            rows.sort_by(|one, other| (&one.key, one.function).cmp(&(&other.key, other.function)));
        }
        let functions = self.query.functions.iter().map(ToString::to_string).collect();
        let missing = self.missing;
        Ok(Answers { rows, functions, separates, keys_seen_from, missing, warnings })
    }

    /// Warnings about exact totals of rows that the state of a function doesn't check.
    fn contradictions(&self, part: &Part) -> Result<Vec<Warning>, AnswerError> {
        if part.function.is_of_rows() {
            return Ok(Vec::new());
        }
        Ok(contradictions(&self.rows.parts()?))
    }

    /// The answer over all keys of the query's first function, a sum, count, mean or ratio; `None`
    /// for other functions. It is what an accepted error of the whole job refers to.
    ///
    /// # Errors
    /// As [`Answering::answers`].
    pub fn overall(&self, confidence: Confidence) -> Result<Option<Estimate>, AnswerError> {
        let Some(part) = self.parts.first() else { return Ok(None) };
        if !matches!(part.state, State::Sums(_) | State::Ratios(_) | State::Grouped(_)) {
            return Ok(None);
        }
        let mut estimate = part.of_all(&self.query, confidence)?;
        estimate.warnings.extend(self.contradictions(part)?);
        Ok(Some(estimate))
    }
}

#[cfg(test)]
mod tests;
