//! The state of an answer in one line.

use crate::{printable, strata::Strata};
use approx_answers::{Answers, Query};
use std::fmt::Write;

/// The keys on the line.
const KEYS_MAX: usize = 4;
/// The decimals of numbers: more if the interval needs them.
const PLACES: u8 = 2;
/// The characters of a key.
const KEY_CHARS_MAX: usize = 16;

/// A line such as `avg(x): 12.63 (11.90 to 13.40, 95 %) from 420 of 1000 messages`.
pub fn of_answers(query: &Query, answers: &Answers, strata: &Strata) -> String {
    let mut line = format!("{query}:");
    let mut keys = answers.by_key();
    for rows in keys.by_ref().take(KEYS_MAX) {
        for (at, row) in rows.iter().enumerate() {
            if at == 0 && !row.key.is_empty() {
                _ = write!(line, " {}", printable(&row.key_text(), KEY_CHARS_MAX));
            }
            if answers.functions.len() > 1 {
                _ = write!(line, " {}", answers.functions[row.function]);
            }
            _ = write!(line, " {}", row.estimate.brief(PLACES));
        }
    }
    let more = keys.count();
    if more > 0 {
        _ = write!(line, " and {more} more");
    }
    let messages = answers.rows.first().map_or(0, |row| row.estimate.messages);
    match strata.sent() {
        Some(sent) => _ = write!(line, " from {messages} of {sent} messages"),
        None => _ = write!(line, " from {messages} messages"),
    }
    line
}

/// A line such as `8400 rows from 420 of 1000 messages`.
pub fn of_rows(rows: u64, strata: &Strata) -> String {
    let messages = strata.counted();
    match strata.sent() {
        Some(sent) => format!("{rows} rows from {messages} of {sent} messages"),
        None => format!("{rows} rows from {messages} messages"),
    }
}
