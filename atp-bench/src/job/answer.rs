//! Answers to the queries from any subset of the rows, and their error against the full answers.

use std::collections::BTreeMap;

use anyhow::Result;
use csv::StringRecord;
use serde::{Deserialize, Serialize};

use super::query::Query;

/// The denominator of a relative error is at least this share of the column's mean absolute value.
/// Otherwise an error of one second would be huge for an average delay near zero.
const NEAR_ZERO: f64 = 0.01;

/// The sums over the rows with one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub rows: u64,
    /// Rows whose value isn't missing.
    pub values: u64,
    pub sum: f64,
    pub sum_abs: f64,
}

impl Tally {
    fn average(&self) -> Option<f64> {
        (self.values > 0).then(|| self.sum / self.values as f64)
    }
}

/// Tallies by key, one map per query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers(Vec<BTreeMap<String, Tally>>);

/// The error of one query's answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryError {
    /// Mean of `|sampled - full| / |full|` over the keys; 1 for a key without a sampled value.
    MeanRelativeError(f64),
    /// Share of the most frequent keys that the sampled answer lacks.
    MissedShare(f64),
}

impl QueryError {
    pub fn value(self) -> f64 {
        match self {
            QueryError::MeanRelativeError(error) | QueryError::MissedShare(error) => error,
        }
    }
}

impl Answers {
    pub fn new(queries: usize) -> Answers {
        Answers(vec![BTreeMap::new(); queries])
    }

    /// Adds a row. Values that aren't numbers count as missing, because tables are checked on load.
    pub fn add(&mut self, queries: &[Query], row: &StringRecord) {
        for (tallies, query) in self.0.iter_mut().zip(queries) {
            let Some(key) = row.get(query.key()) else { continue };
            let tally = match tallies.get_mut(key) {
                Some(tally) => tally,
                None => tallies.entry(key.to_owned()).or_default(),
            };
            tally.rows += 1;
            let text = query.value().and_then(|column| row.get(column));
            if let Some(Ok(Some(value))) = text.map(parse_number) {
                tally.values += 1;
                tally.sum += value;
                tally.sum_abs += value.abs();
            }
        }
    }

    /// Adds the rows of a message.
    ///
    /// # Errors
    /// The message isn't CSV.
    pub fn add_message(&mut self, queries: &[Query], message: &[u8]) -> Result<()> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(message);
        let mut row = StringRecord::new();
        while reader.read_record(&mut row)? {
            self.add(queries, &row);
        }
        Ok(())
    }

    /// The number of rows with a value for this query.
    pub fn values(&self, query: usize) -> u64 {
        self.0[query].values().map(|tally| tally.values).sum()
    }

    /// The average of a key.
    pub fn average(&self, query: usize, key: &str) -> Option<f64> {
        self.0[query].get(key).and_then(Tally::average)
    }

    /// The average over all keys.
    pub fn overall_average(&self, query: usize) -> Option<f64> {
        let sum: f64 = self.0[query].values().map(|tally| tally.sum).sum();
        let values = self.values(query);
        (values > 0).then(|| sum / values as f64)
    }

    /// The number of a key's rows.
    pub fn rows(&self, query: usize, key: &str) -> Option<f64> {
        self.0[query].get(key).map(|tally| tally.rows as f64)
    }

    /// The error of each query's answer against that of the whole table.
    pub fn errors(&self, full: &Answers, queries: &[Query]) -> Vec<QueryError> {
        let pairs = self.0.iter().zip(&full.0);
        pairs
            .zip(queries)
            .map(|((sampled, full), query)| match *query {
                Query::Average { .. } => {
                    QueryError::MeanRelativeError(relative_error(sampled, full))
                }
                Query::MostFrequent { count, .. } => {
                    QueryError::MissedShare(missed_share(sampled, full, count))
                }
            })
            .collect()
    }
}

/// A single error for all queries: the mean of their errors.
pub fn answer_error(errors: &[QueryError]) -> f64 {
    let sum: f64 = errors.iter().map(|error| error.value()).sum();
    sum / errors.len().max(1) as f64
}

/// The number in a field, `None` if it is missing.
pub fn parse_number(text: &str) -> Result<Option<f64>, ()> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ if approx_answers::is_missing(text) => Ok(None),
        _ => Err(()),
    }
}

fn relative_error(sampled: &BTreeMap<String, Tally>, full: &BTreeMap<String, Tally>) -> f64 {
    let values: u64 = full.values().map(|tally| tally.values).sum();
    let sum_abs: f64 = full.values().map(|tally| tally.sum_abs).sum();
    let floor = NEAR_ZERO * sum_abs / values.max(1) as f64;
    let errors: Vec<f64> = full
        .iter()
        .filter_map(|(key, tally)| {
            let truth = tally.average()?;
            let Some(estimate) = sampled.get(key).and_then(Tally::average) else {
                return Some(1.0);
            };
            let off = (estimate - truth).abs();
            // In a column of zeros the denominator is 0, but so is every error.
            Some(if off == 0.0 { 0.0 } else { off / truth.abs().max(floor) })
        })
        .collect();
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

fn missed_share(
    sampled: &BTreeMap<String, Tally>,
    full: &BTreeMap<String, Tally>,
    count: usize,
) -> f64 {
    let truth = most_frequent(full, count);
    let found = most_frequent(sampled, count);
    let missed = truth.iter().filter(|key| !found.contains(key)).count();
    missed as f64 / truth.len().max(1) as f64
}

fn most_frequent(tallies: &BTreeMap<String, Tally>, count: usize) -> Vec<&str> {
    let mut keys: Vec<&String> = tallies.keys().collect();
    // The sort is stable and the keys come in order, so ties go to the first by name.
    keys.sort_by_key(|key| std::cmp::Reverse(tallies[*key].rows));
    keys.into_iter().take(count).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVERAGE: Query = Query::Average { value: 1, key: 0 };
    const FREQUENT: Query = Query::MostFrequent { key: 0, count: 2 };

    fn answers(queries: &[Query], csv: &str) -> Answers {
        let mut answers = Answers::new(queries.len());
        answers.add_message(queries, csv.as_bytes()).unwrap();
        answers
    }

    #[test]
    fn add_message__agrees_with_naive_sums() {
        let csv = "a,1\nb,-2\na,NA\n\"a\",4\nb,\n";
        let answers = answers(&[AVERAGE, FREQUENT], csv);
        let tally = |rows, values, sum, sum_abs| Tally { rows, values, sum, sum_abs };
        assert_eq!(answers.0[0]["a"], tally(3, 2, 5.0, 5.0));
        assert_eq!(answers.0[0]["b"], tally(2, 1, -2.0, 2.0));
        assert_eq!(answers.0[1]["a"], tally(3, 0, 0.0, 0.0));
        assert_eq!(answers.values(0), 3);
    }

    #[test]
    fn add_message__order_and_batches_do_not_matter() {
        let whole = answers(&[AVERAGE], "a,1\nb,2\na,3\n");
        let mut parts = answers(&[AVERAGE], "a,3\n");
        parts.add_message(&[AVERAGE], b"b,2\na,1\n").unwrap();
        assert_eq!(whole, parts);
    }

    #[test]
    fn errors__none_for_the_whole_table() {
        let queries = [AVERAGE, FREQUENT];
        let full = answers(&queries, "a,1\nb,0\nb,0\nc,NA\n");
        let errors = full.errors(&full, &queries);
        assert_eq!(errors, [QueryError::MeanRelativeError(0.0), QueryError::MissedShare(0.0)]);
        assert_eq!(answer_error(&errors), 0.0);
    }

    #[test]
    fn errors__of_averages_are_relative_to_the_full_ones() {
        let full = answers(&[AVERAGE], "a,1\na,3\nb,10\n");
        // a: 3 instead of 2 is 0.5; b is missing, which is 1.
        let sampled = answers(&[AVERAGE], "a,3\n");
        let errors = sampled.errors(&full, &[AVERAGE]);
        assert_eq!(errors, [QueryError::MeanRelativeError(0.75)]);
    }

    #[test]
    fn errors__averages_near_zero_are_held_off_it() {
        let full = answers(&[AVERAGE], "a,100\na,-100\nb,100\nb,100\n");
        let sampled = answers(&[AVERAGE], "a,0.5\nb,100\n");
        // a: 0.5 off a truth of 0, held at 1 % of the mean absolute value of 100.
        assert_eq!(sampled.errors(&full, &[AVERAGE]), [QueryError::MeanRelativeError(0.25)]);
    }

    #[test]
    fn errors__missed_share_breaks_ties_by_name() {
        let full = answers(&[FREQUENT], "c,\nc,\nb,\na,\n");
        assert_eq!(most_frequent(&full.0[0], 2), ["c", "a"]);
        let sampled = answers(&[FREQUENT], "c,\nb,\n");
        assert_eq!(sampled.errors(&full, &[FREQUENT]), [QueryError::MissedShare(0.5)]);
    }

    #[test]
    fn parse_number__missing_is_not_zero() {
        assert_eq!(parse_number(" 2.5 "), Ok(Some(2.5)));
        assert_eq!(parse_number("NA"), Ok(None));
        assert_eq!(parse_number(""), Ok(None));
        for bad in ["nan", "inf", "two", "1,5", "0x1"] {
            assert_eq!(parse_number(bad), Err(()), "{bad}");
        }
    }
}
