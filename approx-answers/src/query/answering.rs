//! The answer of a query, from rows of text that arrive message by message.

use super::{
    Function, Query,
    records::{Columns, Counted, NA, Once, Records},
    without_value::WithoutValue,
};
use crate::check::seen_from;
use crate::total::Total;
use crate::{
    AnswerError, Confidence, Delivery, Estimate, GroupBy, Quantiles, QueryError, Sample, Top,
    Warning,
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
/// A missing number is empty or `NA`; rows without one of the query's numbers are left out.
/// `count(column)` counts neither, and warns of `NA` in a column of text. A key may be `NA`, and is
/// missing in `top` if it is empty. At most 10,000 keys are counted, and 250 of a quantile; fewer
/// if they take more than 256 MiB.
#[derive(Clone, Debug)]
pub struct Answering {
    query: Query,
    columns: Columns,
    state: State,
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
    /// Of `top`: whether the sample shows that these keys are the largest.
    pub separates: Option<bool>,
    /// Keys in at least this many messages have a row with a probability of at least 95 %. `None`
    /// without keys, if the number of messages sent is unknown, or if those that arrived may be no
    /// fair sample; 0 if all of them arrived.
    pub keys_seen_from: Option<u64>,
    /// Warnings about all rows together.
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Whole(Box<Sample>),
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
            Self::Whole(sample) => {
                // Totals are enough.
                let (mut x, mut y) = (Total::default(), Total::default());
                records.each(|_, numbers| {
                    let (own_x, own_y) = numbers.unwrap_or_default();
                    x.add(&Total::of(own_x));
                    y.add(&Total::of(own_y));
                    Ok(())
                })?;
                Ok(sample.push_totals(stratum, x, y)?)
            }
            Self::Grouped(by) => by.push_by(stratum, |tally| {
                records.each(|key, numbers| match numbers {
                    Some((x, y)) => Ok(tally.add(key, x, y)?),
                    None => {
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
            Self::Whole(_) | Self::Top(_) => true,
        }
    }
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
            _ if query.by.is_some() => State::Grouped(Box::new(GroupBy::new(KEYS_MAX))),
            _ => State::Whole(Box::default()),
        };
        let (counted, without_value) = (Counted::default(), WithoutValue::default());
        Ok(Self { query, columns, state, counted, without_value })
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
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
            State::Whole(_) | State::Grouped(_) => {
                let without_value = state.push(stratum, &mut records)?;
                let counted = records.counted();
                self.note(counted, without_value);
            }
            State::Quantiles(_) | State::Top(_) => {
                let without_value = state.push(stratum, &mut records.kept()?)?;
                self.note(Counted::default(), without_value);
            }
        }
        Ok(())
    }

    /// Notes the missing values of a message that was added.
    pub(super) fn note(&mut self, counted: Counted, without_value: WithoutValue) {
        self.counted.add(counted);
        self.without_value.add(without_value, |key| self.state.has(key));
    }

    pub(super) fn columns_and_state(&mut self) -> (&Columns, &mut State) {
        (&self.columns, &mut self.state)
    }

    /// Sets the number of messages that a stratum sent.
    ///
    /// # Errors
    /// As [`Sample::set_messages_sent`].
    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        match &mut self.state {
            State::Whole(sample) => sample.set_messages_sent(stratum, messages),
            State::Grouped(by) => by.set_messages_sent(stratum, messages),
            State::Quantiles(by) => by.set_messages_sent(stratum, messages),
            State::Top(top) => top.set_messages_sent(stratum, messages),
        }
    }

    /// Sets the exact number of records in all messages of a stratum, arrived or not, as its sender
    /// stated it: rows with a value in the query's column, or for `ratio` the total of the column
    /// below. Sums over all keys then vary less, counts over all keys are exact, and all answers
    /// warn if the sample contradicts it.
    ///
    /// # Errors
    /// As [`Sample::set_exact_records`].
    pub fn set_exact_records(&mut self, stratum: u32, records: f64) -> Result<(), AnswerError> {
        match &mut self.state {
            State::Whole(sample) => sample.set_exact_records(stratum, records),
            State::Grouped(by) => by.set_exact_records(stratum, records),
            State::Quantiles(by) => by.set_exact_records(stratum, records),
            State::Top(top) => top.set_exact_records(stratum, records),
        }
    }

    /// Sets how the messages of a stratum were sent, and which of them are missing.
    ///
    /// # Errors
    /// As [`Sample::set_delivery`].
    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        match &mut self.state {
            State::Whole(sample) => sample.set_delivery(stratum, delivery),
            State::Grouped(by) => by.set_delivery(stratum, delivery),
            State::Quantiles(by) => by.set_delivery(stratum, delivery),
            State::Top(top) => top.set_delivery(stratum, delivery),
        }
    }

    /// Takes all messages of a stratum out of the answers, such as those of a source that never
    /// said how many it sends.
    pub fn remove_stratum(&mut self, stratum: u32) {
        match &mut self.state {
            State::Whole(sample) => sample.remove_stratum(stratum),
            State::Grouped(by) => by.remove_stratum(stratum),
            State::Quantiles(by) => by.remove_stratum(stratum),
            State::Top(top) => top.remove_stratum(stratum),
        }
    }

    /// Messages that arrived.
    pub fn messages(&self) -> u64 {
        match &self.state {
            State::Whole(sample) => sample.messages(),
            State::Grouped(by) => by.all().messages(),
            State::Quantiles(by) => by.all().messages(),
            State::Top(top) => top.all().messages(),
        }
    }

    /// The answers so far, a row for each key.
    ///
    /// # Errors
    /// No message has arrived yet, or a sum or a count lacks a stratum's number of messages sent.
    pub fn answers(&self, confidence: Confidence) -> Result<Answers, AnswerError> {
        let Counted { na_rows, has_text } = self.counted;
        let of_na = Some(Warning::NaInText { rows: na_rows }).filter(|_| na_rows > 0 && has_text);
        let plain = |rows, mut warnings: Vec<Warning>| {
            warnings.extend(of_na);
            Answers { rows, separates: None, keys_seen_from: None, warnings }
        };
        let rank = match self.query.function {
            Function::Quantile { rank, .. } => rank,
            _ => 0.5,
        };
        match &self.state {
            State::Whole(sample) => {
                let estimate = match self.query.function {
                    Function::Sum { .. } => sample.sum(confidence),
                    Function::Count { .. } => sample.count(confidence),
                    _ => sample.mean(confidence),
                };
                Ok(plain(vec![(None, estimate?)], Vec::new()))
            }
            State::Grouped(by) => {
                let ask = |key: &String| match (&self.query.function, by.has(key)) {
                    (Function::Sum { .. }, true) => by.sum(key, confidence),
                    (Function::Sum { .. }, false) => by.of_no_record(|all| all.sum(confidence)),
                    (Function::Count { .. }, true) => by.count(key, confidence),
                    (Function::Count { .. }, false) => by.of_no_record(|all| all.count(confidence)),
                    (_, true) => by.mean(key, confidence),
                    (_, false) => Err(AnswerError::ZeroDenominator),
                };
                // Records of a key beyond the limits aren't counted: it may have some.
                let is_whole = by.uncounted_records() == 0;
                let others = self.without_value.keys(|key| !is_whole || by.has(key));
                let (rows, without_value) = rows(by.keys(), others, ask)?;
                let warnings = by.warnings().into_iter().chain(without_value).collect();
                Ok(Answers { keys_seen_from: seen_from(by.all()), ..plain(rows, warnings) })
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
                Ok(Answers { keys_seen_from: seen_from(by.all()), ..plain(rows, warnings) })
            }
            State::Top(top) => {
                let Function::Top { ranks, .. } = self.query.function else {
                    return Err(AnswerError::NoMessages);
                };
                let mut ranking = top.largest(ranks, confidence)?;
                let has_na = ranking.ranks.iter().any(|(key, _)| key.trim() == NA);
                ranking.warnings.extend(has_na.then_some(Warning::NaRanked));
                let rows = ranking.ranks.into_iter().map(|(key, e)| (Some(key), e)).collect();
                Ok(Answers {
                    rows,
                    separates: Some(ranking.separates),
                    keys_seen_from: seen_from(top.all()),
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
            State::Whole(sample) => sample,
            State::Grouped(by) => by.all(),
            State::Quantiles(_) | State::Top(_) => return Ok(None),
        };
        let estimate = match self.query.function {
            Function::Sum { .. } => sample.sum(confidence),
            Function::Count { .. } => sample.count(confidence),
            _ => sample.mean(confidence),
        };
        estimate.map(Some)
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const P95: Confidence = Confidence::P95;
    const ROWS: [[&str; 3]; 4] =
        [["x", "1", "2"], ["y", "NA", "4"], ["x", "5", ""], ["y", "3", "6"]];

    fn complete(query: &str) -> Answers {
        let mut answering = Answering::new(query.parse().unwrap(), &["k", "a", "b"]).unwrap();
        answering.set_messages_sent(0, 1).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        answering.push_message(0, ROWS).unwrap();
        assert_eq!(answering.messages(), 1);
        answering.answers(P95).unwrap()
    }

    fn values(query: &str) -> Vec<(String, f64)> {
        let rows = complete(query).rows.into_iter();
        rows.map(|(key, estimate)| (key.unwrap_or_default(), estimate.value)).collect()
    }

    #[test]
    fn answers__of_a_complete_job_are_exact() {
        let one = |value| vec![(String::new(), value)];
        let two = |x, y| vec![("x".to_owned(), x), ("y".to_owned(), y)];
        for (query, expected) in [
            ("sum(a)", one(9.0)),
            ("avg(a)", one(3.0)),
            ("count(*)", one(4.0)),
            ("count(a)", one(3.0)),
            ("count(k)", one(4.0)),
            ("ratio(a, b)", one(0.5)),
            ("median(a)", one(3.0)),
            ("sum(a) by k", two(6.0, 3.0)),
            ("avg(a) by k", two(3.0, 3.0)),
            ("count(b) by k", two(1.0, 2.0)),
            ("ratio(b, a) by k", two(2.0, 2.0)),
            ("quantile(a, 0.9) by k", two(5.0, 3.0)),
            ("top(1, k)", vec![("x".to_owned(), 2.0)]),
        ] {
            assert_eq!(values(query), expected, "{query}");
        }
        assert_eq!(complete("top(1, k)").separates, Some(false));
        assert_eq!(complete("top(2, k)").separates, Some(true));
    }

    /// A count of no values is 0. Other answers of a key without values are none, and a warning
    /// names the key.
    #[test]
    fn answers__of_keys_whose_values_are_all_missing() {
        let rows = [["a", ""], ["a", "NA"], ["b", ""], ["b", "2"], ["c", "NA"]];
        let answers = |query: &str| {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "v"]).unwrap();
            answering.set_messages_sent(0, 2).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            answering.push_message(0, &rows[..3]).unwrap();
            answering.push_message(0, &rows[3..]).unwrap();
            let Answers { rows, warnings, .. } = answering.answers(P95).unwrap();
            let rows = rows.into_iter().map(|(key, e)| (key.unwrap(), e.value, e.low, e.high));
            (rows.collect::<Vec<_>>(), warnings)
        };
        let exact = |key: &str, value: f64| (key.to_owned(), value, value, value);
        let counts = vec![exact("a", 0.0), exact("b", 1.0), exact("c", 0.0)];
        assert_eq!(answers("count(v) by k"), (counts, vec![]));
        let sums = vec![exact("a", 0.0), exact("b", 2.0), exact("c", 0.0)];
        assert_eq!(answers("sum(v) by k"), (sums, vec![]));
        let without = vec![Warning::KeysWithoutValue { keys: 2, first: "a".to_owned() }];
        for query in ["avg(v) by k", "median(v) by k"] {
            assert_eq!(answers(query), (vec![exact("b", 2.0)], without.clone()), "{query}");
        }
        assert_eq!(answers("ratio(v, v) by k"), (vec![exact("b", 1.0)], without));
    }

    /// Keys whose values are all missing take no place of others.
    #[test]
    fn answers__of_many_keys_without_values() {
        let mut answering = Answering::new("median(v) by k".parse().unwrap(), &["k", "v"]).unwrap();
        let name = |number: usize| format!("k{number:04}");
        answering.push_message(0, (0..3_000).map(|key| [name(key), "NA".into()])).unwrap();
        let with_value = 2_900..2_900 + QUANTILE_KEYS_MAX;
        answering.push_message(0, with_value.clone().map(|key| [name(key), "7".into()])).unwrap();
        let Answers { rows, warnings, .. } = answering.answers(P95).unwrap();
        assert!(rows.iter().map(|(key, _)| key.clone().unwrap()).eq(with_value.map(name)));
        let first = Warning::KeysWithoutValue { keys: 1_000, first: name(0) };
        assert!(warnings.contains(&first), "{warnings:?}");
    }

    /// `NA` is a missing number, and Namibia.
    #[test]
    fn answers__of_na_in_a_column_of_text() {
        let rows = [["NA", "1"], ["DE", "NA"], ["NA", "3"], ["NA", ""], ["", "4"]];
        let answers = |query: &str| {
            let mut answering = Answering::new(query.parse().unwrap(), &["country", "v"]).unwrap();
            answering.set_messages_sent(0, 1).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            answering.push_message(0, rows).unwrap();
            let mut of_csv = Answering::of_csv(query.parse().unwrap(), b"country,v\n").unwrap();
            of_csv.set_messages_sent(0, 1).unwrap();
            of_csv.set_delivery(0, &Delivery::shuffled()).unwrap();
            of_csv.push_csv(0, b"NA,1\nDE,NA\nNA,3\nNA,\n,4\n").unwrap();
            let answers = answering.answers(P95).unwrap();
            assert_eq!(of_csv.answers(P95).unwrap(), answers, "{query}");
            let rows = answers.rows.into_iter().map(|(key, e)| (key.unwrap_or_default(), e.value));
            (rows.collect::<Vec<_>>(), answers.warnings)
        };
        let of = |key: &str, value: f64| (key.to_owned(), value);
        let in_text = vec![Warning::NaInText { rows: 3 }];
        assert_eq!(answers("count(country)"), (vec![of("", 1.0)], in_text));
        assert_eq!(answers("count(v)"), (vec![of("", 3.0)], vec![]));
        let ranks = vec![of("NA", 3.0), of("DE", 1.0)];
        assert_eq!(answers("top(2, country)"), (ranks, vec![Warning::NaRanked]));
        assert_eq!(answers("top(4, v)").1, vec![Warning::NaRanked]);
        let counts = vec![of("", 1.0), of("DE", 1.0), of("NA", 3.0)];
        assert_eq!(answers("count(*) by country"), (counts, vec![]));
    }

    #[test]
    fn push_message__bad_rows_leave_the_message_out() {
        for query in ["avg(a)", "avg(a) by k", "median(a)", "ratio(a, b)"] {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a", "b"]).unwrap();
            for bad in ["soon", "inf", "NaN", "1e99"] {
                let error = answering.push_message(0, [["x", "1", "1"], ["x", bad, "1"]]);
                let said = error.unwrap_err().to_string();
                assert!(!said.contains('\n') && answering.messages() == 0, "{query}: {said}");
            }
            let error = answering.push_message(0, [["x"]]).unwrap_err();
            assert!(error.to_string().contains("a row of 1 values lacks column"), "{error}");
            assert_eq!(answering.answers(P95).map(|answers| answers.rows.len()).unwrap_or(0), 0);
        }
        let error = Answering::new("avg(a) by k".parse().unwrap(), &["a", "k", "a"]).unwrap_err();
        assert!(error.to_string().starts_with("several columns"), "{error}");
        assert!(Answering::new("count(*) by k".parse().unwrap(), &["a", "k", "a"]).is_ok());
        let error = Answering::new("avg(c)".parse().unwrap(), &["k", "a"]).unwrap_err();
        assert_eq!(error.to_string(), "the table has no column \"c\": it has k, a");
    }

    #[test]
    fn overall__is_over_all_keys() {
        let mut answering =
            Answering::new("avg(a) by k".parse().unwrap(), &["k", "a", "b"]).unwrap();
        answering.push_message(0, ROWS).unwrap();
        assert_eq!(answering.overall(P95).unwrap().unwrap().value, 3.0);
        let Answers { warnings, keys_seen_from, .. } = answering.answers(P95).unwrap();
        assert_eq!((warnings, keys_seen_from), (vec![Warning::UnseenKeys { keys: None }], None));
    }

    #[test]
    fn set_exact_records__narrows_sums_and_checks_all_answers() {
        let answers = |query: &str, exact: Option<f64>| {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
            answering.set_messages_sent(0, 100).unwrap();
            answering.set_delivery(0, &Delivery::shuffled()).unwrap();
            for message in 0..80 {
                // 1 to 20 rows, which add up to some ten times as much.
                let rows = (0..=message * 7 % 20)
                    .map(|_| ["x", if message % 3 == 0 { "9" } else { "10" }]);
                answering.push_message(0, rows).unwrap();
            }
            exact.into_iter().for_each(|exact| answering.set_exact_records(0, exact).unwrap());
            let (_, row) = answering.answers(P95).unwrap().rows.remove(0);
            let overall = answering.overall(P95).unwrap().unwrap_or(row.clone());
            let is_one = |w: &&Warning| matches!(w, Warning::ContradictsExact { .. });
            let warnings = answering.answers(P95).unwrap().warnings;
            let contradicts = row.warnings.iter().chain(&warnings).any(|w| is_one(&w));
            (row.half_width(), overall.half_width(), contradicts)
        };
        let exact = Some(1_060.0);
        for query in ["sum(a)", "count(*)", "sum(a) by k", "avg(a)", "median(a) by k", "top(1, k)"]
        {
            assert!(!answers(query, None).2 && !answers(query, exact).2, "{query}");
            assert!(answers(query, Some(4_000.0)).2, "{query}");
        }
        assert!(answers("sum(a)", exact).0 < answers("sum(a)", None).0 / 3.0);
        assert_eq!(answers("count(*)", exact).0, 0.0);
        assert_eq!(answers("count(*) by k", exact).1, 0.0);
        assert!(answers("count(*) by k", exact).0 > 0.0);
    }

    /// The messages of the other stratum have the same answers as alone.
    #[test]
    fn remove_stratum__leaves_the_answers_of_the_others() {
        for query in ["sum(a)", "avg(a) by k", "median(a)", "median(a) by k", "top(3, k)"] {
            let with = |strata: &[u32]| {
                let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
                for stratum in strata {
                    let key = ["x", "y"][*stratum as usize];
                    for _ in 0..40 {
                        answering.push_message(*stratum, [[key, "7"], ["both", "5"]]).unwrap();
                    }
                }
                if strata.contains(&1) {
                    answering.remove_stratum(1);
                }
                (0..5).for_each(|_| answering.push_message(0, [["x", "9"]]).unwrap());
                answering.set_messages_sent(0, 45).unwrap();
                answering.set_delivery(0, &Delivery::shuffled()).unwrap();
                let Answers { rows, .. } = answering.answers(P95).unwrap();
                let values = rows.into_iter().map(|(key, e)| (key, e.value, e.messages));
                (answering.messages(), values.collect::<Vec<_>>())
            };
            assert_eq!(with(&[1, 0]), with(&[0]), "{query}");
        }
    }

    /// Found by fuzzing the C interface.
    #[test]
    fn set_messages_sent__takes_any_numbers() {
        for query in ["sum(a)", "avg(a) by k", "median(a)", "top(1, k)"] {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
            for stratum in 0..2 {
                answering.set_messages_sent(stratum, u64::MAX).unwrap();
                answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
                answering.push_message(stratum, [["x", "1"]]).unwrap();
            }
            let answers = answering.answers(P95).unwrap();
            assert_eq!(answers.rows[0].1.messages_sent, Some(u64::MAX), "{query}");
        }
    }

    proptest! {
        #[test]
        fn push_message__never_panics(
            query in prop_oneof![
                Just("sum(a)"), Just("avg(a) by k"), Just("median(a) by k"), Just("top(2, k)"),
                Just("ratio(a, k)"), Just("count(a) by k"),
            ],
            rows in prop::collection::vec(prop::collection::vec("[-0-9.eNA ]{0,5}", 0..4), 0..9),
        ) {
            let mut answering = Answering::new(query.parse().unwrap(), &["k", "a"]).unwrap();
            let _ = answering.push_message(0, &rows);
            let _ = answering.set_messages_sent(0, 3);
            if let Ok(answers) = answering.answers(P95) {
                for (_, estimate) in answers.rows {
                    prop_assert!(estimate.low <= estimate.high);
                }
            }
        }
    }
}
