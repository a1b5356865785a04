//! Confidence intervals of the answers, from the messages that arrived. Each sender is a stratum.

use anyhow::Result;
use approx_answers::{Confidence, Estimate, GroupBy, Top};
use csv::{ReaderBuilder, StringRecord};
use serde::{Deserialize, Serialize};

use super::answer::{Answers, parse_number};
use super::query::Query;

/// More than the keys of any table that the job is meant for.
const KEYS_MAX: usize = 10_000;

/// The answer for one key, with its interval of 95 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub key: String,
    pub value: f64,
    /// Very large numbers where the interval has no end.
    pub low: f64,
    pub high: f64,
}

/// The intervals of a query, beside the answers of the full table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Coverage {
    pub intervals: usize,
    /// Those that contain the answer of the full table.
    pub containing: usize,
    /// The mean half-width of intervals, as a share of the answer. Intervals without ends and
    /// answers of 0 are left out.
    pub half_width_share: f64,
}

/// The intervals of each query. Message `i` is of sender `i mod senders`.
///
/// # Errors
/// A message isn't CSV.
pub fn intervals(
    queries: &[Query],
    messages: &[(usize, Vec<u8>)],
    senders: usize,
    number: usize,
) -> Result<Vec<Vec<Interval>>> {
    queries.iter().map(|query| of_query(query, messages, senders, number)).collect()
}

fn of_query(
    query: &Query,
    messages: &[(usize, Vec<u8>)],
    senders: usize,
    number: usize,
) -> Result<Vec<Interval>> {
    let sent = |sender: usize| (number + senders - 1 - sender) / senders;
    let strata = (0..senders).map(|sender| (sender as u32, sent(sender) as u64));
    match *query {
        Query::Average { value, key } => {
            let mut by = GroupBy::<String>::new(KEYS_MAX);
            for (stratum, sent) in strata {
                by.set_messages_sent(stratum, sent)?;
            }
            for (index, data) in messages {
                let rows = rows(data)?;
                let values = rows.iter().filter_map(|row| {
                    let value = parse_number(row.get(value)?).ok().flatten()?;
                    Some((row.get(key)?.to_owned(), value))
                });
                let values: Vec<(String, f64)> = values.collect();
                let records = values.iter().map(|(key, value)| (key, 1.0, *value));
                by.push_pairs((index % senders) as u32, records)?;
            }
            // A key of which no value arrived has no interval, nor has any key without a message of
            // some sender.
            let of_key = |key: &&String| Some(interval(key, &by.mean(key, Confidence::P95).ok()?));
            Ok(by.keys().iter().filter_map(of_key).collect())
        }
        Query::MostFrequent { key, count } => {
            let mut top = Top::<String>::new(KEYS_MAX);
            for (stratum, sent) in strata {
                top.set_messages_sent(stratum, sent)?;
            }
            for (index, data) in messages {
                let rows = rows(data)?;
                let keys: Vec<String> =
                    rows.iter().filter_map(|row| Some(row.get(key)?.to_owned())).collect();
                top.push_message((index % senders) as u32, keys.iter().map(|key| (key, 1.0)))?;
            }
            let ranks = top.largest(count, Confidence::P95).map(|ranking| ranking.ranks);
            let ranks = ranks.unwrap_or_default();
            Ok(ranks.iter().map(|(key, estimate)| interval(key, estimate)).collect())
        }
    }
}

fn rows(data: &[u8]) -> Result<Vec<StringRecord>> {
    let reader = ReaderBuilder::new().has_headers(false).from_reader(data);
    Ok(reader.into_records().collect::<Result<_, _>>()?)
}

fn interval(key: &str, estimate: &Estimate) -> Interval {
    // JSON has no infinite numbers.
    let end = |end: f64| end.clamp(f64::MIN, f64::MAX);
    Interval {
        key: key.to_owned(),
        value: estimate.value,
        low: end(estimate.low),
        high: end(estimate.high),
    }
}

/// Compares the intervals with the answers of the full table.
pub fn coverage(query: usize, kind: &Query, intervals: &[Interval], full: &Answers) -> Coverage {
    let truth = |key: &str| match kind {
        Query::Average { .. } => full.average(query, key),
        Query::MostFrequent { .. } => full.rows(query, key),
    };
    // Sums of floats in another order differ in their last digits.
    let slack = |truth: f64| 1e-9 * truth.abs();
    let contains = |interval: &&Interval| {
        truth(&interval.key).is_some_and(|truth| {
            (interval.low - slack(truth)..=interval.high + slack(truth)).contains(&truth)
        })
    };
    let widths: Vec<f64> = intervals
        .iter()
        .filter(|i| i.value != 0.0 && i.low > f64::MIN && i.high < f64::MAX)
        .map(|i| (i.high - i.low) / 2.0 / i.value.abs())
        .collect();
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

    /// 400 messages of two senders; every fifth is missing.
    fn arrived() -> (Vec<(usize, Vec<u8>)>, Answers) {
        let message = |index: usize| {
            let row = |row: usize| {
                let key = if (index + row).is_multiple_of(3) { "b" } else { "a" };
                format!("{key},{}\n", (index * 7 + row * 3) % 11)
            };
            (0..5).map(row).collect::<String>().into_bytes()
        };
        let mut full = Answers::new(2);
        (0..400).for_each(|index| full.add_message(&QUERIES, &message(index)).unwrap());
        (
            (0..400).filter(|index| index % 5 != 3).map(|index| (index, message(index))).collect(),
            full,
        )
    }

    #[test]
    fn intervals__contain_the_full_answers() {
        let (messages, full) = arrived();
        let all = intervals(&QUERIES, &messages, 2, 400).unwrap();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
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
    fn intervals__of_nothing() {
        let none = intervals(&QUERIES, &[], 2, 400).unwrap();
        assert!(none.iter().all(Vec::is_empty));
    }
}
