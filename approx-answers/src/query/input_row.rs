//! The rows that a query takes: of text, or of values with types.

/// A row of a table. Its columns are counted from 0, in the order in which the query got their
/// names.
pub trait InputRow {
    /// The number of values.
    fn columns(&self) -> usize;

    /// The value in a column.
    fn value(&self, column: usize) -> Value;

    /// The value as text, such as that of a key. It is empty if the value is missing.
    fn text(&self, column: usize) -> &str;

    /// A small number in place of the text, such as its place in a dictionary. Rows of a message
    /// with the same number have the same text: as a key, it is looked up once.
    fn code(&self, _column: usize) -> Option<usize> {
        None
    }
}

/// A value of an [`InputRow`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The row has no value there.
    Missing,
    /// A number.
    Number(f64),
    /// A text, or another value that has one, such as a time. As a number it is what its text says,
    /// and no text stands for a missing value.
    Text,
    /// A text without a type, such as a value of CSV: it may be a number or a text, and some words
    /// stand for a missing value ([`is_missing`]).
    Untyped,
}

/// Missing numbers in tables of R, of spreadsheets, and of databases. NaN isn't among them: it may
/// be a number that went wrong.
const MISSING: [&str; 4] = ["NA", "N/A", "null", "\\N"];

/// Whether a value of a column of numbers is missing: empty, or a word that stands for that.
pub fn is_missing(text: &str) -> bool {
    text.trim().is_empty() || is_missing_word(text)
}

pub(super) fn is_missing_word(text: &str) -> bool {
    MISSING.iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}

/// A row of text.
impl<S: AsRef<str>> InputRow for [S] {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, column: usize) -> Value {
        if column < self.len() { Value::Untyped } else { Value::Missing }
    }

    fn text(&self, column: usize) -> &str {
        self.get(column).map_or("", AsRef::as_ref)
    }
}
