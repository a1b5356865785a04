//! The answers of a query: rows of keys and functions.

use crate::{Estimate, Warning};

/// The answers of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// A row for each key and function, in the order of the keys and, for each key, of the query's
    /// functions; the largest first for `top`. A function without an answer for a key, such as a
    /// mean of no values, has no row there, and a warning tells the key.
    pub rows: Vec<Row>,
    /// The functions of the query in words, such as `avg(dep_delay)`.
    pub functions: Vec<String>,
    /// Whether the sample shows that the keys of a `top` query are the largest; `None` otherwise.
    pub separates: Option<bool>,
    /// Keys in at least this many messages have a row with a probability of at least 95 %; in `top`
    /// they were counted. `None` without keys, with keys beyond the limits
    /// ([`Warning::UncountedRecords`]), if the number of messages sent is unknown, or if those that
    /// arrived may be no fair sample; 0 if all of them arrived.
    pub keys_seen_from: Option<u64>,
    /// Rows that arrived and meet the condition, but lack one of the query's numbers: functions of
    /// that number leave them out. `count(*)` and `top` need none.
    pub missing: u64,
    /// Warnings about all rows together.
    pub warnings: Vec<Warning>,
}

/// The answer of one function for one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The values of the key's columns, of which `top` has one. Empty without `by`.
    pub key: Vec<String>,
    /// The place of the function in [`Answers::functions`].
    pub function: usize,
    /// The answer.
    pub estimate: Estimate,
}

impl Row {
    /// The key as one text: its values with commas between them. Empty without `by`.
    pub fn key_text(&self) -> String {
        self.key.join(", ")
    }
}

impl Answers {
    /// The rows by key: all functions of a key together.
    pub fn by_key(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|one, next| one.key == next.key)
    }
}
