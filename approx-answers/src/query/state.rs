//! The state of a query's functions, from the messages that arrived.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::extremes::{self, Extremes, Kind};
use super::records::{Counted, Records, Taken, Texts};
use super::without_value::WithoutValue;
use super::{Function, Query};
use crate::deviations::{self, Deviations};
use crate::stratum::check_value;
use crate::total::Total;
use crate::{
    AnswerError, Delivery, GroupBy, Quantiles, QueryError, Sample, Top, group_by, quantiles,
};

/// Keys of sums, counts, means and rankings.
const KEYS_MAX: usize = 10_000;
/// Keys of quantiles, which take more memory.
pub(super) const QUANTILE_KEYS_MAX: usize = 250;

/// A function of a query, and what it keeps.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub function: Function,
    pub state: State,
    pub texts: Texts,
    pub without_value: WithoutValue,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    /// Sums and counts: all rows of each message, and the total of those with a value.
    Sums(Box<Sample>),
    /// Means and ratios: the two totals of each message.
    Ratios(Box<Sample>),
    Grouped(Box<GroupBy<String>>),
    Deviations(Box<Deviations>),
    Quantiles(Box<Quantiles<String>>),
    Extremes(Box<Extremes>),
    Top(Box<Top<String>>),
}

/// A message that is being added to a state.
enum Pending {
    Totals {
        x: Total,
        y: Total,
        has_values: bool,
    },
    Grouped(group_by::Adding),
    Deviations(Box<deviations::Adding>),
    Extremes(extremes::Adding),
    /// The records are gone through twice: random groups follow from their contents.
    Quantiles {
        records: u64,
        contents: u64,
    },
    Top {
        records: u64,
        contents: DefaultHasher,
    },
}

/// Adds a message to all parts, or leaves it out as a whole: it is checked by all of them before
/// the first one takes it. Returns the message's rows.
pub(super) fn push(
    parts: &mut [Part],
    stratum: u32,
    mut records: impl Records,
) -> Result<Counted, QueryError> {
    let mut pending: Vec<Pending> = parts.iter().map(|part| part.state.begin(stratum)).collect();
    let mut without_values = vec![WithoutValue::default(); parts.len()];
    // Of records that come once.
    let (keeps, mut kept) = (!records.is_repeatable(), Vec::new());
    let read = records.each(|key, at, taken| {
        let state = &mut parts[at].state;
        match taken {
            Some(taken) => {
                if keeps && state.goes_twice() {
                    kept.push((key.to_owned(), at, taken.y));
                }
                Ok(state.add(stratum, &mut pending[at], key, taken)?)
            }
            None => {
                without_values[at].note(key);
                Ok(())
            }
        }
    });
    let counted = records.counted().clone();
    let rows = counted.rows;
    let checked = read.and_then(|()| {
        let mut all = parts.iter().zip(&mut pending);
        Ok(all.try_for_each(|(part, pending)| part.state.check(stratum, pending, rows))?)
    });
    if checked.is_err() {
        let all = parts.iter_mut().zip(pending);
        all.for_each(|(part, pending)| part.state.leave_out(pending));
        return checked.map(|()| counted);
    }
    let mut again: Vec<Option<_>> = Vec::new();
    for (part, pending) in parts.iter_mut().zip(pending) {
        again.push(part.state.end(stratum, pending, rows)?);
    }
    if again.iter().any(Option::is_some) {
        let mut add = |key: &str, at: usize, y: f64| match (&mut parts[at].state, &again[at]) {
            (State::Quantiles(by), Some(adding)) => by.keyed().add(adding, key, y),
            (State::Top(top), Some(adding)) => top.keyed().add(adding, key, y),
            _ => {}
        };
        match keeps {
            true => kept.iter().for_each(|(key, at, y)| add(key, *at, *y)),
            false => records.each(|key, at, taken| {
                taken.into_iter().for_each(|taken| add(key, at, taken.y));
                Ok(())
            })?,
        }
    }
    for ((part, without_value), texts) in parts.iter_mut().zip(without_values).zip(&counted.texts) {
        match &mut part.state {
            State::Quantiles(by) => by.keyed().end(),
            State::Top(top) => top.keyed().end(),
            _ => {}
        }
        part.texts.add(*texts);
        let state = &part.state;
        part.without_value.add(without_value, |key| state.has(key));
    }
    Ok(counted)
}

impl Part {
    /// The function of a query at this place.
    pub fn new(query: &Query, function: &Function) -> Self {
        let (by_key, of) = (!query.by.is_empty(), query.functions.len());
        let state = match function {
            Function::Quantile { .. } => {
                State::Quantiles(Box::new(Quantiles::new(QUANTILE_KEYS_MAX).one_of(of)))
            }
            Function::Top { .. } => State::Top(Box::new(Top::new(KEYS_MAX))),
            Function::Deviation { .. } | Function::Variance { .. } => {
                State::Deviations(Box::new(Deviations::new(KEYS_MAX, of)))
            }
            Function::Minimum { .. } => {
                State::Extremes(Box::new(Extremes::new(Kind::Least, KEYS_MAX, of)))
            }
            Function::Maximum { .. } => {
                State::Extremes(Box::new(Extremes::new(Kind::Most, KEYS_MAX, of)))
            }
            Function::Distinct { .. } => {
                State::Extremes(Box::new(Extremes::new(Kind::Distinct, KEYS_MAX, of)))
            }
            Function::Sum { .. } | Function::Count { .. } if by_key => {
                State::Grouped(Box::new(GroupBy::of_sums(KEYS_MAX).one_of(of)))
            }
            Function::Sum { .. } | Function::Count { .. } => State::Sums(Box::default()),
            Function::Average { .. } | Function::Ratio { .. } if by_key => {
                State::Grouped(Box::new(GroupBy::new(KEYS_MAX).one_of(of)))
            }
            Function::Average { .. } | Function::Ratio { .. } => State::Ratios(Box::default()),
        };
        let (texts, without_value) = (Texts::default(), WithoutValue::default());
        Self { function: function.clone(), state, texts, without_value }
    }
}

impl State {
    /// Begins a message.
    fn begin(&self, stratum: u32) -> Pending {
        match self {
            Self::Sums(_) | Self::Ratios(_) => {
                Pending::Totals { x: Total::default(), y: Total::default(), has_values: false }
            }
            Self::Grouped(by) => Pending::Grouped(by.begin(stratum)),
            Self::Deviations(by) => Pending::Deviations(Box::new(by.begin(stratum))),
            Self::Extremes(_) => Pending::Extremes(extremes::Adding::default()),
            Self::Quantiles(_) => Pending::Quantiles { records: 0, contents: 0 },
            Self::Top(_) => Pending::Top { records: 0, contents: DefaultHasher::new() },
        }
    }

    fn goes_twice(&self) -> bool {
        matches!(self, Self::Quantiles(_) | Self::Top(_))
    }

    /// Adds a record to a message, or its contents if records are gone through twice.
    #[inline(always)]
    fn add(
        &mut self,
        stratum: u32,
        pending: &mut Pending,
        key: &str,
        Taken { x, y, text, code }: Taken<'_>,
    ) -> Result<(), AnswerError> {
        match (self, pending) {
            (Self::Grouped(by), Pending::Grouped(adding)) => by.add(adding, (key, code), x, y),
            (Self::Deviations(by), Pending::Deviations(adding)) => by.add(adding, key, y),
            (Self::Extremes(of), Pending::Extremes(adding)) => {
                of.add(stratum, adding, key, y, text)
            }
            (_, Pending::Totals { x: of_x, y: of_y, has_values }) => {
                *has_values = true;
                of_x.add(&Total::of(x));
                of_y.add(&Total::of(y));
                Ok(())
            }
            (_, Pending::Quantiles { records, contents }) => {
                check_value(stratum, "value", y)?;
                *records += 1;
                *contents = quantiles::mixed(*contents, y);
                Ok(())
            }
            (_, Pending::Top { records, contents }) => {
                *records += 1;
                (key, y.to_bits()).hash(contents);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a message with this number of rows fits in.
    fn check(&self, stratum: u32, pending: &mut Pending, rows: u64) -> Result<(), AnswerError> {
        match (self, pending) {
            (Self::Sums(sample), Pending::Totals { x, y, .. }) => {
                *x = Total::of(rows as f64);
                sample.check_push(stratum, *x, *y)
            }
            (Self::Ratios(sample), Pending::Totals { x, y, .. }) => {
                sample.check_push(stratum, *x, *y)
            }
            (Self::Grouped(by), Pending::Grouped(adding)) => {
                by.set_rows(adding, rows);
                by.check(adding)
            }
            (Self::Deviations(by), Pending::Deviations(adding)) => by.check(adding),
            (Self::Extremes(of), Pending::Extremes(_)) => of.check(stratum),
            (Self::Quantiles(by), Pending::Quantiles { records, .. }) => {
                by.check(stratum, *records)
            }
            (Self::Top(top), Pending::Top { records, .. }) => top.check(stratum, *records),
            _ => Ok(()),
        }
    }

    /// Leaves a message out.
    fn leave_out(&mut self, pending: Pending) {
        // The refusal is that of the message.
        let refused = Err(AnswerError::NoMessages);
        match (self, pending) {
            (Self::Grouped(by), Pending::Grouped(adding)) => {
                let _: Result<(), AnswerError> = by.end(adding, refused);
            }
            (Self::Deviations(by), Pending::Deviations(adding)) => by.leave_out(*adding),
            _ => {}
        }
    }

    /// Takes a message that was checked. Returns the place of its records, if they are gone through
    /// again.
    fn end(
        &mut self,
        stratum: u32,
        pending: Pending,
        rows: u64,
    ) -> Result<Option<crate::keyed::Adding>, AnswerError> {
        match (self, pending) {
            (Self::Sums(sample), Pending::Totals { y, has_values, .. }) => {
                sample.push_counted(stratum, Total::of(rows as f64), y, has_values)?;
            }
            (Self::Ratios(sample), Pending::Totals { x, y, .. }) => {
                sample.push_totals(stratum, x, y)?;
            }
            (Self::Grouped(by), Pending::Grouped(adding)) => by.end(adding, Ok(()))?,
            (Self::Deviations(by), Pending::Deviations(adding)) => by.end(*adding)?,
            (Self::Extremes(of), Pending::Extremes(adding)) => of.end(stratum, adding)?,
            (Self::Quantiles(by), Pending::Quantiles { records, contents }) => {
                return by.keyed().begin(stratum, records, contents).map(Some);
            }
            (Self::Top(top), Pending::Top { records, contents }) => {
                return top.keyed().begin(stratum, records, contents.finish()).map(Some);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Whether a record has the key.
    pub fn has(&self, key: &String) -> bool {
        match self {
            Self::Grouped(by) => by.has(key),
            Self::Deviations(by) => by.has(key),
            Self::Quantiles(by) => by.has(key),
            Self::Extremes(of) => of.has(key),
            Self::Sums(_) | Self::Ratios(_) | Self::Top(_) => true,
        }
    }

    /// All messages.
    pub fn all(&self) -> &Sample {
        match self {
            Self::Sums(sample) | Self::Ratios(sample) => sample,
            Self::Grouped(by) => by.all(),
            Self::Deviations(by) => by.all(),
            Self::Quantiles(by) => by.all(),
            Self::Extremes(of) => &of.messages,
            Self::Top(top) => top.all(),
        }
    }

    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        match self {
            Self::Sums(sample) | Self::Ratios(sample) => {
                sample.set_messages_sent(stratum, messages)
            }
            Self::Grouped(by) => by.set_messages_sent(stratum, messages),
            Self::Deviations(by) => by.set_messages_sent(stratum, messages),
            Self::Quantiles(by) => by.set_messages_sent(stratum, messages),
            Self::Extremes(of) => of.messages.set_messages_sent(stratum, messages),
            Self::Top(top) => top.set_messages_sent(stratum, messages),
        }
    }

    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        match self {
            Self::Sums(sample) | Self::Ratios(sample) => sample.set_delivery(stratum, delivery),
            Self::Grouped(by) => by.set_delivery(stratum, delivery),
            Self::Deviations(by) => by.set_delivery(stratum, delivery),
            Self::Quantiles(by) => by.set_delivery(stratum, delivery),
            Self::Extremes(of) => of.messages.set_delivery(stratum, delivery),
            Self::Top(top) => top.set_delivery(stratum, delivery),
        }
    }

    pub fn remove_stratum(&mut self, stratum: u32) {
        match self {
            Self::Sums(sample) | Self::Ratios(sample) => sample.remove_stratum(stratum),
            Self::Grouped(by) => by.remove_stratum(stratum),
            Self::Deviations(by) => by.remove_stratum(stratum),
            Self::Quantiles(by) => by.remove_stratum(stratum),
            Self::Extremes(of) => of.remove_stratum(stratum),
            Self::Top(top) => top.remove_stratum(stratum),
        }
    }
}
