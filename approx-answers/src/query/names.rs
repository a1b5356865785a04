//! Names of columns, and keys of several columns.

use std::fmt;

use sqlparser::keywords::ALL_KEYWORDS;

/// Writes a column's name in a query in words, in quotes if it needs any.
pub(super) struct Name<'a>(pub &'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_special = |c: char| is_sign(c) || c == '"' || c.is_whitespace();
        let is_word = ["by", "distinct"].iter().any(|word| self.0.eq_ignore_ascii_case(word));
        if self.0.is_empty() || is_word || self.0.contains(is_special) {
            quoted(f, self.0)
        } else {
            f.write_str(self.0)
        }
    }
}

/// The signs of a query in words.
pub(super) fn is_sign(c: char) -> bool {
    matches!(c, '(' | ')' | ',' | '*')
}

/// Writes a column's name in SQL, in quotes if it needs any.
pub(super) struct SqlName<'a>(pub &'a str);

impl fmt::Display for SqlName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let keyword = self.0.to_ascii_uppercase();
        let is_keyword = ALL_KEYWORDS.binary_search(&keyword.as_str()).is_ok();
        match begins && self.0.chars().all(is_plain) && !is_keyword {
            true => f.write_str(self.0),
            false => quoted(f, self.0),
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write!(f, "\"{}\"", name.replace('"', "\"\""))
}

/// Stands between the values of a key. A zero inside of a value is followed by a one, so that keys
/// are in the order of their values.
const BETWEEN: &str = "\0\0";

/// Writes a key of several values into one text.
pub(super) fn join<'a>(values: impl Iterator<Item = &'a str>, key: &mut String) {
    key.clear();
    for (at, value) in values.enumerate() {
        key.push_str(if at > 0 { BETWEEN } else { "" });
        match value.contains('\0') {
            true => key.push_str(&value.replace('\0', "\0\u{1}")),
            false => key.push_str(value),
        }
    }
}

/// The values of a key, one for each column.
pub(super) fn split(key: &str, columns: usize) -> Vec<String> {
    match columns {
        0 => Vec::new(),
        1 => vec![key.to_owned()],
        _ => key.split(BETWEEN).map(|value| value.replace("\0\u{1}", "\0")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn split__undoes_join_and_keeps_the_order(
            one in prop::collection::vec("[a\0\u{1}b]{0,4}", 2..3),
            other in prop::collection::vec("[a\0\u{1}b]{0,4}", 2..3),
        ) {
            let joined = |values: &[String]| {
                let mut key = String::from("before");
                join(values.iter().map(String::as_str), &mut key);
                key
            };
            prop_assert_eq!(&split(&joined(&one), 2), &one);
            prop_assert_eq!(joined(&one).cmp(&joined(&other)), one.cmp(&other));
        }
    }
}
