//! The answer of a query, from rows of text that arrive message by message.

use super::{
    Function, Query,
    records::{Columns, Counted, Once, Records, is_missing_word},
    without_value::WithoutValue,
};
use crate::check::{contradictions, seen_from};
use crate::total::Total;
use crate::{
    AnswerError, Confidence, Delivery, Estimate, GroupBy, Quantiles, QueryError, Sample, Top,
    Totals, Warning,
};

/// Keys of sums, counts, means and rankings.
const KEYS_MAX: usize = 10_000;
/// Keys of quantiles, which take more memory.
const QUANTILE_KEYS_MAX: usize = 250;

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
/// for (key, mean) in &answers.rows {
///     println!("{}: {mean}", key.as_deref().unwrap_or("all"));
/// }
/// assert_eq!(answers.rows[1].0.as_deref(), Some("UA"));
/// # Ok::<(), approx_answers::QueryError>(())
/// ```
///
/// A missing number is empty, `NA`, `N/A`, `null` or `\N`, in any case; rows without one of the
/// query's numbers are left out. `count(column)` counts none of these, and warns of the words in a
/// column of text. A key may be such a word, and is missing in `top` if it is empty. At most 10,000
/// keys are counted, and 250 of a quantile; fewer if they take more than 256 MiB.
#[derive(Clone, Debug)]
pub struct Answering {
    query: Query,
    columns: Columns,
    state: State,
    /// The rows of each message, for functions whose state doesn't count them.
    rows: Sample,
    counted: Counted,
    without_value: WithoutValue,
}

/// The answers of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// Each key with its answer, in the order of the keys; the largest first for `top`. Without
    /// `by`, the only row has no key. A key without an answer, such as a mean of no values, has no
    /// row, and a warning tells its name.
    pub rows: Vec<(Option<String>, Estimate)>,
    /// Whether the sample shows that the keys of a `top` query are the largest; `None` otherwise.
    pub separates: Option<bool>,
    /// Keys in at least this many messages have a row with a probability of at least 95 %; in `top`
    /// they were counted. `None` without keys, with keys beyond the limits
    /// ([`Warning::UncountedRecords`]), if the number of messages sent is unknown, or if those that
    /// arrived may be no fair sample; 0 if all of them arrived.
    pub keys_seen_from: Option<u64>,
    /// Rows that arrived without one of the query's numbers, which are left out. `count(*)` and
    /// `top` need none.
    pub missing: u64,
    /// Warnings about all rows together.
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Sums and counts: all rows of each message, and the total of those with a value.
    Sums(Box<Sample>),
    /// Means and ratios: the two totals of each message.
    Ratios(Box<Sample>),
    Grouped(Box<GroupBy<String>>),
    Quantiles(Box<Quantiles<String>>),
    Top(Box<Top<String>>),
}

impl State {
    /// Adds a message, or leaves it out as a whole. Quantiles and rankings go through its records
    /// twice. Returns the keys of its rows without a value.
    pub(super) fn push(
        &mut self,
        stratum: u32,
        records: &mut impl Records,
    ) -> Result<WithoutValue, QueryError> {
        let mut without_value = WithoutValue::default();
        let pushed: Result<(), QueryError> = match self {
            Self::Sums(sample) => {
                let (_, y, has_values) = totals(records)?;
                let rows = Total::of(records.counted().rows as f64);
                Ok(sample.push_counted(stratum, rows, y, has_values)?)
            }
            Self::Ratios(sample) => {
                let (x, y, _) = totals(records)?;
                Ok(sample.push_totals(stratum, x, y)?)
            }
            Self::Grouped(by) => by.push_by(stratum, |tally| {
                records.each(|key, numbers| match numbers {
                    Some((x, y)) => Ok(tally.add(key, x, y)?),
                    None => {
                        tally.add_without_value();
                        without_value.note(key);
                        Ok(())
                    }
                })
            }),
            Self::Quantiles(by) => by.push_by(stratum, |on| {
                records.each(|key, numbers| match numbers {
                    Some((_, y)) => Ok(on(key, y)?),
                    None => {
                        without_value.note(key);
                        Ok(())
                    }
                })
            }),
            Self::Top(top) => top.push_by(stratum, |on| {
                records.each(|key, numbers| numbers.map_or(Ok(()), |(x, _)| Ok(on(key, x)?)))
            }),
        };
        pushed.map(|()| without_value)
    }

    /// Whether a record has the key.
    fn has(&self, key: &String) -> bool {
        match self {
            Self::Grouped(by) => by.has(key),
            Self::Quantiles(by) => by.has(key),
            Self::Sums(_) | Self::Ratios(_) | Self::Top(_) => true,
        }
    }
}

/// The totals of a message, and whether a record has a value.
fn totals(records: &mut impl Records) -> Result<(Total, Total, bool), QueryError> {
    let (mut x, mut y, mut has_values) = (Total::default(), Total::default(), false);
    records.each(|_, numbers| {
        has_values |= numbers.is_some();
        let (own_x, own_y) = numbers.unwrap_or_default();
        x.add(&Total::of(own_x));
        y.add(&Total::of(own_y));
        Ok(())
    })?;
    Ok((x, y, has_values))
}

impl Answering {
    /// A query of a table with these columns.
    ///
    /// # Errors
    /// The table lacks a column of the query.
    pub fn new<S: AsRef<str>>(query: Query, columns: &[S]) -> Result<Self, QueryError> {
        let columns = Columns::new(&query, columns)?;
        let state = match &query.function {
            Function::Quantile { .. } => {
                State::Quantiles(Box::new(Quantiles::new(QUANTILE_KEYS_MAX)))
            }
            Function::Top { .. } => State::Top(Box::new(Top::new(KEYS_MAX))),
            Function::Sum { .. } | Function::Count { .. } if query.by.is_some() => {
                State::Grouped(Box::new(GroupBy::of_sums(KEYS_MAX)))
            }
            Function::Sum { .. } | Function::Count { .. } => State::Sums(Box::default()),
            _ if query.by.is_some() => State::Grouped(Box::new(GroupBy::new(KEYS_MAX))),
            _ => State::Ratios(Box::default()),
        };
        let (counted, without_value) = (Counted::default(), WithoutValue::default());
        Ok(Self { query, columns, state, rows: Sample::new(), counted, without_value })
    }

    /// Whether the state counts all rows of each message.
    fn is_of_rows(&self) -> bool {
        matches!(self.query.function, Function::Sum { .. } | Function::Count { .. })
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The positions of the columns that the query uses, in no particular order. Rows need no other
    /// values.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.columns.positions()
    }

    /// Adds the rows of one message, each with its values in the order of the columns.
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
        let Self { columns, state, .. } = self;
        let mut records = Once::new(columns, rows.into_iter());
        match state {
            State::Sums(_) | State::Ratios(_) | State::Grouped(_) => {
                let without_value = state.push(stratum, &mut records)?;
                let counted = records.counted();
                self.note(stratum, counted, without_value);
            }
            State::Quantiles(_) | State::Top(_) => {
                let mut records = records.kept()?;
                let without_value = state.push(stratum, &mut records)?;
                self.note(stratum, records.counted(), without_value);
            }
        }
        Ok(())
    }

    /// Notes the rows of a message that was added, and their missing values.
    pub(super) fn note(&mut self, stratum: u32, counted: Counted, without_value: WithoutValue) {
        self.counted.add(counted);
        self.without_value.add(without_value, |key| self.state.has(key));
        if !self.is_of_rows() {
            // The state has the message. Its rows alone have too many strata: they only check.
            let _ = self.rows.push(stratum, counted.rows, 0.0);
        }
    }

    pub(super) fn columns_and_state(&mut self) -> (&Columns, &mut State) {
        (&self.columns, &mut self.state)
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
        match &mut self.state {
            State::Sums(sample) | State::Ratios(sample) => {
                sample.set_messages_sent(stratum, messages)?;
            }
            State::Grouped(by) => by.set_messages_sent(stratum, messages)?,
            State::Quantiles(by) => by.set_messages_sent(stratum, messages)?,
            State::Top(top) => top.set_messages_sent(stratum, messages)?,
        }
        if self.is_of_rows() { Ok(()) } else { self.rows.set_messages_sent(stratum, messages) }
    }

    /// Takes the totals message of a stratum, which its sender states in an exact group
    /// ([`crate::Table::TOTALS_MESSAGE`]), at any time of the job. With the number of records:
    ///
    /// | query | effect |
    /// |---|---|
    /// | `count(*)` | exact, whichever messages are missing |
    /// | other sums and counts, also by key | the mean per record times the records |
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
        let is_of_rows = self.is_of_rows();
        match &mut self.state {
            State::Sums(sample) => sample.set_exact_records_of(stratum, records, messages),
            State::Grouped(by) if is_of_rows => by.set_exact_records_of(stratum, records, messages),
            _ => self.rows.set_exact_records_of(stratum, records, messages),
        }
    }

    /// Sets how the messages of a stratum were sent, and which of them are missing.
    ///
    /// # Errors
    /// As [`Sample::set_delivery`].
    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        match &mut self.state {
            State::Sums(sample) | State::Ratios(sample) => sample.set_delivery(stratum, delivery),
            State::Grouped(by) => by.set_delivery(stratum, delivery),
            State::Quantiles(by) => by.set_delivery(stratum, delivery),
            State::Top(top) => top.set_delivery(stratum, delivery),
        }
    }

    /// Takes all messages of a stratum out of the answers, such as those of a source that never
    /// said how many it sends. Notes of its missing values stay: a key without values among them,
    /// and `NA` in text.
    pub fn remove_stratum(&mut self, stratum: u32) {
        match &mut self.state {
            State::Sums(sample) | State::Ratios(sample) => sample.remove_stratum(stratum),
            State::Grouped(by) => by.remove_stratum(stratum),
            State::Quantiles(by) => by.remove_stratum(stratum),
            State::Top(top) => top.remove_stratum(stratum),
        }
        self.rows.remove_stratum(stratum);
    }

    /// Messages that arrived.
    pub fn messages(&self) -> u64 {
        match &self.state {
            State::Sums(sample) | State::Ratios(sample) => sample.messages(),
            State::Grouped(by) => by.all().messages(),
            State::Quantiles(by) => by.all().messages(),
            State::Top(top) => top.all().messages(),
        }
    }

    /// The answers so far, a row for each key.
    ///
    /// # Errors
    /// No message has arrived yet, or none of a stratum whose totals are known, but for the count
    /// of all rows that totals state. A sum or a count lacks a stratum's number of messages sent.
    pub fn answers(&self, confidence: Confidence) -> Result<Answers, AnswerError> {
        let mut answers = self.without_contradictions(confidence)?;
        let found = self.contradictions()?;
        match self.state {
            State::Top(_) => answers.warnings.extend(found),
            _ => {
                let rows = answers.rows.iter_mut();
                rows.for_each(|(_, estimate)| estimate.warnings.extend(found.clone()));
            }
        }
        Ok(answers)
    }

    /// Warnings about exact totals of rows that the state doesn't check.
    fn contradictions(&self) -> Result<Vec<Warning>, AnswerError> {
        if self.is_of_rows() {
            return Ok(Vec::new());
        }
        Ok(contradictions(&self.rows.parts()?))
    }

    fn without_contradictions(&self, confidence: Confidence) -> Result<Answers, AnswerError> {
        let Counted { missing, na_rows, has_text, .. } = self.counted;
        let of_na = Some(Warning::NaInText { rows: na_rows }).filter(|_| na_rows > 0 && has_text);
        let plain = |rows, mut warnings: Vec<Warning>| {
            warnings.extend(of_na);
            Answers { rows, separates: None, keys_seen_from: None, missing, warnings }
        };
        let rank = match self.query.function {
            Function::Quantile { rank, .. } => rank,
            _ => 0.5,
        };
        match &self.state {
            State::Sums(sample) | State::Ratios(sample) => {
                Ok(plain(vec![(None, self.of_all(sample, confidence)?)], Vec::new()))
            }
            State::Grouped(by) => {
                let ask = |key: &String| match (&self.query.function, by.has(key)) {
                    (Function::Sum { .. }, true) => by.sum(key, confidence),
                    (Function::Sum { .. }, false) => {
                        by.of_no_record(|all| all.sum_of_key(confidence))
                    }
                    (Function::Count { .. }, true) => by.count_of_total(key, confidence),
                    (Function::Count { .. }, false) => {
                        by.of_no_record(|all| all.count_of_total(confidence))
                    }
                    (_, true) => by.mean(key, confidence),
                    (_, false) => Err(AnswerError::ZeroDenominator),
                };
                // Records of a key beyond the limits aren't counted: it may have some.
                let is_whole = by.uncounted_records() == 0;
                let others = self.without_value.keys(|key| !is_whole || by.has(key));
                let (rows, without_value) = rows(by.keys(), others, ask)?;
                let warnings = by.warnings().into_iter().chain(without_value).collect();
                let keys_seen_from = is_whole.then(|| seen_from(by.all())).flatten();
                Ok(Answers { keys_seen_from, ..plain(rows, warnings) })
            }
            State::Quantiles(by) if self.query.by.is_none() => {
                let estimate = by.quantile(&String::new(), rank, confidence);
                let estimate = estimate.map_err(|error| match error {
                    AnswerError::UnknownKey => AnswerError::NoMessages,
                    error => error,
                });
                Ok(plain(vec![(None, estimate?)], Vec::new()))
            }
            State::Quantiles(by) => {
                let ask = |key: &String| match by.has(key) {
                    true => by.quantile(key, rank, confidence),
                    false => Err(AnswerError::ZeroDenominator),
                };
                let is_whole = by.uncounted_records() == 0;
                let others = self.without_value.keys(|key| !is_whole || by.has(key));
                let (rows, without_value) = rows(by.keys(), others, ask)?;
                let warnings = by.warnings().into_iter().chain(without_value).collect();
                let keys_seen_from = is_whole.then(|| seen_from(by.all())).flatten();
                Ok(Answers { keys_seen_from, ..plain(rows, warnings) })
            }
            State::Top(top) => {
                let Function::Top { ranks, .. } = self.query.function else {
                    return Err(AnswerError::NoMessages);
                };
                let mut ranking = top.largest(ranks, confidence)?;
                let has_na = ranking.ranks.iter().any(|(key, _)| is_missing_word(key));
                ranking.warnings.extend(has_na.then_some(Warning::NaRanked));
                let rows = ranking.ranks.into_iter().map(|(key, e)| (Some(key), e)).collect();
                Ok(Answers {
                    rows,
                    separates: Some(ranking.separates),
                    keys_seen_from: top.is_whole().then(|| seen_from(top.all())).flatten(),
                    missing,
                    warnings: ranking.warnings,
                })
            }
        }
    }

    /// The answer over all keys of a sum, count, mean or ratio; `None` for other functions. It is
    /// what an accepted error of the whole job refers to.
    ///
    /// # Errors
    /// As [`Answering::answers`].
    pub fn overall(&self, confidence: Confidence) -> Result<Option<Estimate>, AnswerError> {
        let sample = match &self.state {
            State::Sums(sample) | State::Ratios(sample) => sample,
            State::Grouped(by) => by.all(),
            State::Quantiles(_) | State::Top(_) => return Ok(None),
        };
        let mut estimate = self.of_all(sample, confidence)?;
        estimate.warnings.extend(self.contradictions()?);
        Ok(Some(estimate))
    }

    /// The answer over all keys.
    fn of_all(&self, sample: &Sample, confidence: Confidence) -> Result<Estimate, AnswerError> {
        match self.query.function {
            Function::Sum { .. } => sample.sum(confidence),
            Function::Count { column: None } => sample.count(confidence),
            Function::Count { column: Some(_) } => sample.count_of_total(confidence),
            _ => sample.mean(confidence),
        }
    }
}

type Rows = Vec<(Option<String>, Estimate)>;

/// The answers of keys and of others without a value, in order, and a warning about those that have
/// none.
fn rows<'a>(
    mut keys: Vec<&'a String>,
    others: Vec<&'a String>,
    ask: impl Fn(&String) -> Result<Estimate, AnswerError>,
) -> Result<(Rows, Option<Warning>), AnswerError> {
    keys.extend(others);
    keys.sort_unstable();
    let (mut rows, mut without) = (Rows::new(), Vec::new());
    for key in keys {
        match ask(key) {
            Ok(estimate) => rows.push((Some(key.clone()), estimate)),
            Err(AnswerError::ZeroDenominator) => without.push(key),
            Err(error) => return Err(error),
        }
    }
    let warning = without.first().map(|first| Warning::KeysWithoutValue {
        keys: without.len() as u64,
        first: (*first).clone(),
    });
    Ok((rows, warning))
}

#[cfg(test)]
mod tests;
