//! The answers of one function of a query.

use super::input_row::is_missing_word;
use super::names::split;
use super::records::Texts;
use super::state::{Part, State};
use super::{Function, Query, Row};
use crate::check::{key_warnings, seen_from};
use crate::{AnswerError, Confidence, Estimate, Sample, Warning};

/// The answers of one function.
pub(super) struct OfFunction {
    /// Each key with its answer.
    pub rows: Vec<(Vec<String>, Estimate)>,
    pub separates: Option<bool>,
    pub keys_seen_from: Option<u64>,
    pub warnings: Vec<Warning>,
}

impl OfFunction {
    /// With the place of the function.
    pub fn into_rows(self, function: usize) -> impl Iterator<Item = Row> {
        self.rows.into_iter().map(move |(key, estimate)| Row { key, function, estimate })
    }
}

impl Part {
    /// The answers of this part of a query.
    pub fn answers(
        &self,
        query: &Query,
        confidence: Confidence,
    ) -> Result<OfFunction, AnswerError> {
        let Texts { na_rows, has_text } = self.texts;
        let mut found = match &self.state {
            State::Top(_) => self.ranking(confidence),
            _ if query.by.is_empty() => {
                let rows = vec![(Vec::new(), self.of_all(query, confidence)?)];
                let warnings = Vec::new();
                Ok(OfFunction { rows, separates: None, keys_seen_from: None, warnings })
            }
            _ => self.by_key(query, confidence),
        }?;
        let of_na = Warning::NaInText { rows: na_rows };
        found.warnings.extend((na_rows > 0 && has_text).then_some(of_na));
        Ok(found)
    }

    /// The answer over all keys.
    pub fn of_all(&self, query: &Query, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let none = String::new();
        match &self.state {
            State::Sums(sample) | State::Ratios(sample) => {
                self.of_sample(query, sample, confidence)
            }
            State::Grouped(by) => self.of_sample(query, by.all(), confidence),
            State::Top(_) => Err(AnswerError::UnknownKey),
            // Their only key is empty.
            _ => self.of_key(&none, confidence).map_err(|error| match error {
                AnswerError::UnknownKey => self.no_value(),
                error => error,
            }),
        }
    }

    /// The error of a function that no record has a value for.
    fn no_value(&self) -> AnswerError {
        match self.state.all().messages() {
            0 => AnswerError::NoMessages,
            _ if matches!(self.state, State::Quantiles(_)) => AnswerError::NoMessages,
            _ => AnswerError::ZeroDenominator,
        }
    }

    /// The answer of a sum, count, mean or ratio over all records that match.
    fn of_sample(
        &self,
        query: &Query,
        sample: &Sample,
        confidence: Confidence,
    ) -> Result<Estimate, AnswerError> {
        let is_filtered = query.filter.is_some();
        let mut estimate = match self.function {
            Function::Sum { .. } => sample.sum(confidence),
            Function::Count { column: None } if !is_filtered => sample.count(confidence),
            Function::Count { .. } => sample.count_of_total(confidence),
            _ => sample.mean(confidence),
        }?;
        if is_filtered {
            // The rows that match are a domain, as those of a key are.
            let parts = sample.parts()?;
            let with = |number| sample.moments(number).map_or(0, |moments| moments.nonzero());
            key_warnings(&mut estimate.warnings, &parts, with);
        }
        Ok(estimate)
    }

    /// The answer of a key of which a record was counted.
    fn of_key(&self, key: &String, confidence: Confidence) -> Result<Estimate, AnswerError> {
        match (&self.state, &self.function) {
            (State::Grouped(by), Function::Sum { .. }) => by.sum(key, confidence),
            (State::Grouped(by), Function::Count { .. }) => by.count_of_total(key, confidence),
            (State::Grouped(by), _) => by.mean(key, confidence),
            (State::Deviations(by), Function::Variance { .. }) => by.variance(key, confidence),
            (State::Deviations(by), _) => by.deviation(key, confidence),
            (State::Quantiles(by), Function::Quantile { rank, .. }) => {
                by.quantile(key, *rank, confidence)
            }
            (State::Extremes(of), _) => of.bound(key, confidence),
            _ => Err(AnswerError::UnknownKey),
        }
    }

    /// The answer of a key whose records have no value.
    fn of_no_record(&self, key: &str, confidence: Confidence) -> Result<Estimate, AnswerError> {
        match (&self.state, &self.function) {
            (State::Grouped(by), Function::Sum { .. }) => {
                by.of_no_record(|all| all.sum_of_key(confidence))
            }
            (State::Grouped(by), Function::Count { .. }) => {
                by.of_no_record(|all| all.count_of_total(confidence))
            }
            (State::Extremes(of), Function::Distinct { .. }) => of.bound(key, confidence),
            _ => Err(AnswerError::ZeroDenominator),
        }
    }

    fn by_key(&self, query: &Query, confidence: Confidence) -> Result<OfFunction, AnswerError> {
        let (mut keys, is_whole, mut warnings) = match &self.state {
            State::Grouped(by) => (by.keys(), by.uncounted_records() == 0, by.warnings()),
            State::Deviations(by) => (by.keys(), by.uncounted_records() == 0, by.warnings()),
            State::Quantiles(by) => (by.keys(), by.uncounted_records() == 0, by.warnings()),
            State::Extremes(of) => (of.keys(), of.is_whole(), of.warnings().into_iter().collect()),
            State::Sums(_) | State::Ratios(_) | State::Top(_) => (Vec::new(), true, Vec::new()),
        };
        // Records of a key beyond the limits aren't counted: it may have some.
        keys.extend(self.without_value.keys(|key| !is_whole || self.state.has(key)));
        keys.sort_unstable();
        let (mut rows, mut without) = (Vec::new(), Vec::new());
        for key in keys {
            let answer = match self.state.has(key) {
                true => self.of_key(key, confidence),
                false => self.of_no_record(key, confidence),
            };
            match answer {
                Ok(estimate) => rows.push((split(key, query.by.len()), estimate)),
                Err(AnswerError::ZeroDenominator) => without.push(key),
                Err(error) => return Err(error),
            }
        }
        warnings.extend(without.first().map(|first| Warning::KeysWithoutValue {
            keys: without.len() as u64,
            first: split(first, query.by.len()).join(", "),
        }));
        let keys_seen_from = is_whole.then(|| seen_from(self.state.all())).flatten();
        Ok(OfFunction { rows, separates: None, keys_seen_from, warnings })
    }

    fn ranking(&self, confidence: Confidence) -> Result<OfFunction, AnswerError> {
        let (State::Top(top), Function::Top { ranks, .. }) = (&self.state, &self.function) else {
            return Err(AnswerError::NoMessages);
        };
        let mut ranking = top.largest(*ranks, confidence)?;
        let has_na = ranking.ranks.iter().any(|(key, _)| is_missing_word(key));
        ranking.warnings.extend(has_na.then_some(Warning::NaRanked));
        Ok(OfFunction {
            rows: ranking.ranks.into_iter().map(|(key, e)| (vec![key], e)).collect(),
            separates: Some(ranking.separates),
            keys_seen_from: top.is_whole().then(|| seen_from(top.all())).flatten(),
            warnings: ranking.warnings,
        })
    }
}
