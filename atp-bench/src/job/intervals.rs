//! Confidence intervals of the answers, from the messages that arrived. Each sender is a stratum.

use anyhow::Result;
use approx_answers::{AnswerError, Confidence, Delivery, Estimate, GroupBy, Top};
use csv::{ReaderBuilder, StringRecord};
use serde::{Deserialize, Serialize};

use super::answer::{Answers, parse_number};
use super::query::Query;

/// More than the keys of any table that the job is meant for.
const KEYS_MAX: usize = 10_000;

/// An answer with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// None: over all keys.
    pub key: Option<String>,
    pub value: f64,
    /// Very large numbers where the interval has no end.
    pub low: f64,
    pub high: f64,
    /// Reasons to doubt the interval, such as few messages.
    pub warnings: Vec<String>,
}

/// The intervals of a query, beside the answers of the full table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    pub intervals: usize,
    /// Intervals that contain the answer of the full table.
    pub containing: usize,
    /// The mean half-width of intervals, as a share of the answer. Intervals without ends and
    /// answers of 0 are left out.
    pub half_width_share: f64,
}

impl Interval {
    fn new(key: Option<&str>, estimate: &Estimate) -> Interval {
        // JSON has no infinite numbers.
        let end = |end: f64| end.clamp(f64::MIN, f64::MAX);
        Interval {
            key: key.map(str::to_owned),
            value: estimate.value,
            low: end(estimate.low),
            high: end(estimate.high),
            warnings: estimate.warnings.iter().map(ToString::to_string).collect(),
        }
    }

    /// Half of the width as a share of the answer. None without an end, or for an answer of 0.
    pub fn half_width_share(&self) -> Option<f64> {
        self.has_share().then(|| (self.high - self.low) / 2.0 / self.value.abs())
    }

    /// The distance to the farther end as a share of the answer. None without an end, or for an
    /// answer of 0.
    pub fn reach_share(&self) -> Option<f64> {
        let reach = (self.high - self.value).max(self.value - self.low);
        self.has_share().then(|| reach / self.value.abs())
    }

    fn has_share(&self) -> bool {
        self.value != 0.0 && self.low > f64::MIN && self.high < f64::MAX
    }

    /// Whether the interval contains this answer.
    pub fn contains(&self, truth: f64) -> bool {
        // Sums of floats in another order differ in their last digits.
        let slack = 1e-9 * truth.abs();
        (self.low - slack..=self.high + slack).contains(&truth)
    }
}

/// The arrived messages, summed up for each query. Message `i` is of sender `i mod senders`.
pub struct Estimators {
    senders: usize,
    queries: Vec<Estimator>,
}

enum Estimator {
    Average { value: usize, key: usize, by: GroupBy<String> },
    MostFrequent { key: usize, count: usize, top: Top<String> },
}

impl Estimators {
    /// Estimators for `number` messages in all.
    pub fn new(queries: &[Query], senders: usize, number: usize) -> Result<Estimators> {
        let strata = || {
            (0..senders).map(|sender| {
                let sent = (number + senders - 1 - sender) / senders;
                (sender as u32, sent as u64)
            })
        };
        // The messages were shuffled before they were dealt to the senders.
        let delivery = Delivery::shuffled();
        let estimator = |query: &Query| match *query {
            Query::Average { value, key } => {
                let mut by = GroupBy::new(KEYS_MAX);
                strata().try_for_each(|(stratum, sent)| {
                    by.set_messages_sent(stratum, sent)?;
                    by.set_delivery(stratum, &delivery)
                })?;
                Ok(Estimator::Average { value, key, by })
            }
            Query::MostFrequent { key, count } => {
                let mut top = Top::new(KEYS_MAX);
                strata().try_for_each(|(stratum, sent)| {
                    top.set_messages_sent(stratum, sent)?;
                    top.set_delivery(stratum, &delivery)
                })?;
                Ok(Estimator::MostFrequent { key, count, top })
            }
        };
        Ok(Estimators { senders, queries: queries.iter().map(estimator).collect::<Result<_>>()? })
    }

    /// Adds an arrived message.
    ///
    /// # Errors
    /// The message isn't CSV, or more messages arrive than were sent.
    pub fn push(&mut self, index: usize, message: &[u8]) -> Result<()> {
        let reader = ReaderBuilder::new().has_headers(false).from_reader(message);
        let rows: Vec<StringRecord> = reader.into_records().collect::<Result<_, _>>()?;
        let stratum = (index % self.senders) as u32;
        for query in &mut self.queries {
            match query {
                Estimator::Average { value, key, by } => {
                    let records = rows.iter().filter_map(|row| {
                        let value = parse_number(row.get(*value)?).ok().flatten()?;
                        Some((row.get(*key)?.to_owned(), 1.0, value))
                    });
                    by.push_pairs(stratum, records)?;
                }
                Estimator::MostFrequent { key, top, .. } => {
                    let keys = rows.iter().filter_map(|row| Some((row.get(*key)?.to_owned(), 1.0)));
                    top.push_message(stratum, keys)?;
                }
            }
        }
        Ok(())
    }

    /// The answers that an accepted error is of: averages over all keys, and the number of rows of
    /// each most frequent key.
    pub fn accepted(&self, level: Confidence) -> Result<Vec<Estimate>, AnswerError> {
        let mut estimates = Vec::new();
        for query in &self.queries {
            match query {
                Estimator::Average { by, .. } => estimates.push(by.all().mean(level)?),
                Estimator::MostFrequent { count, top, .. } => {
                    let ranks = top.largest(*count, level)?.ranks;
                    estimates.extend(ranks.into_iter().map(|(_, estimate)| estimate));
                }
            }
        }
        Ok(estimates)
    }

    /// The intervals of each query.
    pub fn intervals(&self, level: Confidence) -> Vec<Vec<Interval>> {
        self.queries.iter().map(|query| query.intervals(level)).collect()
    }
}

impl Estimator {
    fn intervals(&self, level: Confidence) -> Vec<Interval> {
        match self {
            Estimator::Average { by, .. } => {
                let all = by.all().mean(level).ok();
                // A key of which no value arrived has no interval, nor has any key without a
                // message of some sender.
                let of_key = |key: &&String| {
                    Some(Interval::new(Some(key.as_str()), &by.mean(key, level).ok()?))
                };
                let keys = by.keys();
                let keys = keys.iter().filter_map(of_key);
                all.iter().map(|all| Interval::new(None, all)).chain(keys).collect()
            }
            Estimator::MostFrequent { count, top, .. } => {
                let ranks = top.largest(*count, level).map(|ranking| ranking.ranks);
                let ranks = ranks.unwrap_or_default();
                ranks.iter().map(|(key, e)| Interval::new(Some(key.as_str()), e)).collect()
            }
        }
    }
}

/// The full table's answer to a query.
pub fn truth(query: usize, kind: &Query, key: Option<&str>, full: &Answers) -> Option<f64> {
    match (kind, key) {
        (Query::Average { .. }, Some(key)) => full.average(query, key),
        (Query::Average { .. }, None) => full.overall_average(query),
        (Query::MostFrequent { .. }, key) => full.rows(query, key?),
    }
}

/// Compares the intervals with the answers of the full table.
pub fn coverage(query: usize, kind: &Query, intervals: &[Interval], full: &Answers) -> Coverage {
    let contains = |interval: &&Interval| {
        let truth = truth(query, kind, interval.key.as_deref(), full);
        truth.is_some_and(|truth| interval.contains(truth))
    };
    let widths: Vec<f64> = intervals.iter().filter_map(Interval::half_width_share).collect();
    Coverage {
        intervals: intervals.len(),
        containing: intervals.iter().filter(contains).count(),
        half_width_share: widths.iter().sum::<f64>() / widths.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: [Query; 2] =
        [Query::Average { value: 1, key: 0 }, Query::MostFrequent { key: 0, count: 1 }];

    fn message(index: usize) -> Vec<u8> {
        let row = |row: usize| {
            let key = if (index + row).is_multiple_of(3) { "b" } else { "a" };
            format!("{key},{}\n", (index * 7 + row * 3) % 11)
        };
        (0..5).map(row).collect::<String>().into_bytes()
    }

    /// 400 messages of two senders; every fifth is missing.
    fn arrived() -> (Estimators, Answers) {
        let mut full = Answers::new(2);
        (0..400).for_each(|index| full.add_message(&QUERIES, &message(index)).unwrap());
        let mut estimators = Estimators::new(&QUERIES, 2, 400).unwrap();
        for index in (0..400).filter(|index| index % 5 != 3) {
            estimators.push(index, &message(index)).unwrap();
        }
        (estimators, full)
    }

    #[test]
    fn intervals__contain_the_full_answers() {
        let (estimators, full) = arrived();
        let all = estimators.intervals(Confidence::P95);
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(all[0][0].key, None);
        for (query, kind) in QUERIES.iter().enumerate() {
            let coverage = coverage(query, kind, &all[query], &full);
            assert_eq!(coverage.containing, coverage.intervals, "{:?}", all[query]);
            assert!((0.0001..0.2).contains(&coverage.half_width_share), "{coverage:?}");
        }
        // A wrong answer is seen.
        let wrong = Interval { value: 9.0, low: 8.9, high: 9.1, ..all[0][0].clone() };
        assert_eq!(coverage(0, &QUERIES[0], &[wrong], &full).containing, 0);
    }

    #[test]
    fn accepted__is_over_all_keys_and_of_each_rank() {
        let (estimators, full) = arrived();
        let accepted = estimators.accepted(Confidence::P95).unwrap();
        let truths = [full.overall_average(0).unwrap(), full.rows(1, "a").unwrap()];
        assert_eq!(accepted.len(), truths.len());
        assert!(accepted.iter().zip(truths).all(|(e, truth)| e.contains(truth)), "{accepted:?}");
    }

    #[test]
    fn intervals__of_nothing() {
        let none = Estimators::new(&QUERIES, 2, 400).unwrap();
        assert!(none.intervals(Confidence::P95).iter().all(Vec::is_empty));
        assert!(none.accepted(Confidence::P95).is_err());
    }
}
