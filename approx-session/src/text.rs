//! The answers as a text for people.

use crate::{Answered, printable};
use approx_answers::{Answers, Row, Warning};
use std::fmt::Write;

/// The decimals of numbers: more if the interval needs them.
const PLACES: u8 = 4;
/// The characters of a key. JSON has whole keys.
const KEY_CHARS_MAX: usize = 40;

/// The answers as aligned lines, then the warnings and notes.
pub fn text(answered: &Answered) -> String {
    let Answered { query, answers, report, verdict, notes, .. } = answered;
    let mut text = format!("{query}\n");
    let keys: Vec<String> = answers.rows.iter().map(|row| name(answers, row)).collect();
    let width = keys.iter().map(|key| key.chars().count()).max().unwrap_or(0);
    for (key, Row { estimate, .. }) in keys.iter().zip(&answers.rows) {
        // 100 * 0.57 is 56.99999999999999.
        let percent = (1e6 * estimate.confidence.level()).round() / 1e4;
        let digits = estimate.digits(PLACES);
        let interval = match estimate.bound() {
            Some(bound) => format!("{bound} this in all rows"),
            None => format!(
                "{} to {} ({percent} %)",
                digits.text(estimate.low),
                digits.text(estimate.high)
            ),
        };
        _ = writeln!(text, "  {key:width$} {:>14}   {interval}", digits.text(estimate.value));
    }
    if let Some(separates) = answers.separates {
        text += if separates {
            "  these are the largest\n"
        } else {
            "  the sample can't tell these from the others for certain\n"
        };
    }
    if let Some(Row { estimate, .. }) = answers.rows.first() {
        let of = estimate.messages_sent.map_or(String::new(), |sent| format!(" of {sent}"));
        _ = writeln!(text, "from {}{of} messages", estimate.messages);
    }
    if let Some(from @ 2..) = answers.keys_seen_from {
        let what = if answers.separates.is_some() { "uncounted" } else { "missing here" };
        _ = writeln!(text, "a key in fewer than {from} messages may be {what}");
    }
    if answers.missing > 0 {
        _ = writeln!(text, "{} rows lack a number of the query", answers.missing);
    }
    match (report, verdict.sentence()) {
        (Some(report), _) => _ = writeln!(text, "{report}"),
        (None, Some(sentence)) => _ = writeln!(text, "{sentence}"),
        (None, None) => {}
    }
    let (warnings, others) = warnings(answers);
    for Said { warning, keys } in warnings {
        let rows = answers.rows.len();
        _ = writeln!(text, "warning: {}{warning}", of_keys(&keys, rows));
    }
    if others > 0 {
        _ = writeln!(text, "warning: {others} more warnings of rows: --json has them all");
    }
    for note in notes {
        _ = writeln!(text, "warning: {note}");
    }
    text
}

/// The key and, if there are several, the function of a row.
fn name(answers: &Answers, row: &Row) -> String {
    let key = printable(&row.key_text(), KEY_CHARS_MAX);
    let function = &answers.functions[row.function];
    match (answers.functions.len(), row.key.is_empty()) {
        (1, _) => key,
        (_, true) => function.clone(),
        (_, false) => format!("{key}  {function}"),
    }
}

/// The most warnings of rows in a text. Each row may have one with a number of its own.
const WARNINGS_MAX: usize = 20;

/// The most keys that a warning names.
const KEYS_NAMED_MAX: usize = 3;

/// A warning, and the keys of its rows.
struct Said<'a> {
    warning: &'a Warning,
    /// Empty for a warning about all rows together, or about a row without a key.
    keys: Vec<String>,
}

/// All warnings, each once, and the number of those that are left out.
fn warnings(answers: &Answers) -> (Vec<Said<'_>>, usize) {
    let (mut all, mut others): (Vec<Said<'_>>, usize) = (Vec::new(), 0);
    let of_table = answers.warnings.iter().map(|warning| (None, warning));
    let of_rows = answers.rows.iter().flat_map(|row| {
        let has_name = !row.key.is_empty() || answers.functions.len() > 1;
        let warnings = row.estimate.warnings.iter();
        warnings.map(move |warning| (has_name.then(|| name(answers, row)), warning))
    });
    for (key, warning) in of_table.chain(of_rows) {
        match all.iter().position(|said| said.warning == warning) {
            // One that is about all rows stays so.
            Some(at) if all[at].keys.is_empty() => {}
            Some(at) => all[at].keys.extend(key),
            None if all.len() < WARNINGS_MAX => {
                all.push(Said { warning, keys: key.into_iter().collect() });
            }
            None => others += 1,
        }
    }
    (all, others)
}

/// The keys in front of a warning; none if it is of all rows.
fn of_keys(keys: &[String], rows: usize) -> String {
    if keys.is_empty() || keys.len() == rows && rows > 1 {
        return String::new();
    }
    let shown = |key: &String| if key.is_empty() { "\"\"".to_owned() } else { key.clone() };
    let named = keys.iter().take(KEYS_NAMED_MAX).map(shown);
    let named = named.collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(KEYS_NAMED_MAX) {
        0 => format!("{named}: "),
        more => format!("{named} and {more} more: "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning of all rows names no key, and one of many rows names some.
    #[test]
    fn of_keys__names_a_few() {
        for (keys, rows, expected) in [
            (vec![], 1, ""),
            (vec!["a"], 1, "a: "),
            (vec!["a", "b"], 2, ""),
            (vec!["a", ""], 3, "a, \"\": "),
            (vec!["a", "b", "c", "d", "e"], 9, "a, b, c and 2 more: "),
        ] {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            assert_eq!(of_keys(&keys, rows), expected);
        }
    }
}
