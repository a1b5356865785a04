//! Quotes of CSV: those that surely hide rows, or change values.
//!
//! Readers of CSV take any text. They read a quote without an end up to the end of the text, and
//! one that another row's quote ends up to there: the rows between are gone without a sign. If that
//! other quote ends a value, the text may as well be a value of several lines, and passes.

use std::fmt;

/// Checks the quotes of a text of CSV that is read in pieces.
///
/// ```
/// use approx_answers::CsvQuotes;
///
/// let mut quotes = CsvQuotes::of_file();
/// quotes.push(b"v,k\n1,a\n2,\"b\n3,c\n")?;
/// let error = quotes.end().unwrap_err();
/// assert_eq!(error.to_string(), "line 3: a quote opens a value and has no end");
/// # Ok::<(), approx_answers::QuoteError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CsvQuotes {
    at: At,
    /// Line feeds so far.
    lines: u64,
    /// Line feeds before the quote that was opened last.
    lines_before: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Before these bytes of a file's byte order mark are read.
    Mark(u8),
    /// Before a value.
    #[default]
    Start,
    Plain,
    /// In a quote.
    Quoted,
    /// After a quote in a quote, which ends it or is the first of two.
    AfterQuote,
    /// After blanks behind a quote's end.
    AfterEnd,
}

/// A quote whose end is missing, or stands in the middle of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteError {
    /// The line that opens the quote, counted from 1.
    pub line: u64,
    /// The line that ends it before other text than a comma; `None` if it has no end.
    pub line_of_end: Option<u64>,
}

impl std::error::Error for QuoteError {}

impl fmt::Display for QuoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: a quote opens a value and ", self.line)?;
        match self.line_of_end {
            None => f.write_str("has no end"),
            Some(end) if end == self.line => f.write_str(
                "ends before the value does: write a quote in it twice, and commas between \
                     values",
            ),
            Some(end) => write!(f, "ends in the middle of one of line {end}: one of them is stray"),
        }
    }
}

impl CsvQuotes {
    /// Checks a file, which may begin with a byte order mark. The default checks rows, where such a
    /// mark is part of a value.
    pub const fn of_file() -> Self {
        Self { at: At::Mark(0), lines: 0, lines_before: 0 }
    }

    /// Takes in the next piece of the text.
    ///
    /// # Errors
    /// A quote ends where no value does.
    pub fn push(&mut self, text: &[u8]) -> Result<(), QuoteError> {
        for &byte in text {
            self.at = match (self.at, byte) {
                (At::Mark(0), b'\xef') => At::Mark(1),
                (At::Mark(1), b'\xbb') => At::Mark(2),
                (At::Mark(2), b'\xbf') => At::Start,
                (At::Mark(0) | At::Start, b'"') => {
                    self.lines_before = self.lines;
                    At::Quoted
                }
                (At::Quoted, b'"') => At::AfterQuote,
                (At::AfterQuote, b'"') | (At::Quoted, _) => At::Quoted,
                (_, b',' | b'\n' | b'\r') => At::Start,
                (At::AfterQuote | At::AfterEnd, b' ' | b'\t') => At::AfterEnd,
                (At::AfterQuote | At::AfterEnd, _) => {
                    return Err(self.error(Some(self.lines + 1)));
                }
                (At::Mark(_) | At::Start | At::Plain, _) => At::Plain,
            };
            self.lines += u64::from(byte == b'\n');
        }
        Ok(())
    }

    /// Whether the text so far ends in a quoted value.
    pub(crate) fn is_open(self) -> bool {
        self.at == At::Quoted
    }

    /// Takes in the end of the text.
    ///
    /// # Errors
    /// A quote is open.
    pub fn end(self) -> Result<(), QuoteError> {
        if self.is_open() { Err(self.error(None)) } else { Ok(()) }
    }

    /// Checks the rest of the text.
    pub(super) fn check(mut self, rest: &[u8]) -> Result<(), QuoteError> {
        // Most messages have no quotes, and this is much faster.
        if !rest.contains(&b'"') {
            return Ok(());
        }
        self.push(rest)?;
        self.end()
    }

    fn error(&self, line_of_end: Option<u64>) -> QuoteError {
        QuoteError { line: self.lines_before + 1, line_of_end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn check__finds_quotes_that_hide_rows() {
        let open = |line| Err(QuoteError { line, line_of_end: None });
        let stray = |line, end| Err(QuoteError { line, line_of_end: Some(end) });
        for (text, expected) in [
            ("", Ok(())),
            ("a,b\n1,\"x, y\"\n\"\",\"a \"\" b\"\r\n", Ok(())),
            ("a,5\" pipe\n", Ok(())),
            ("a\n\"several\nlines\",2", Ok(())),
            ("a\n\"several\nlines\"", Ok(())),
            ("v,k\n1,a\n2,\"b\n3,c\n", open(3)),
            ("\"", open(1)),
            ("a,\"b\"\"\n", open(1)),
            ("2,\"b\n3,c\n4,\"d\n", stray(1, 3)),
            ("1,\"5\" pipe\"\n", stray(1, 1)),
            ("\"a\" \t,1\n2,\"b\" \n", Ok(())),
            ("\"a\" b,1\n", stray(1, 1)),
            ("\"a\" \"b\",1\n", stray(1, 1)),
            ("\"a\";\"b\"\n", stray(1, 1)),
        ] {
            assert_eq!(CsvQuotes::default().check(text.as_bytes()), expected, "{text:?}");
            let of_file = format!("\u{feff}{text}");
            assert_eq!(CsvQuotes::of_file().check(of_file.as_bytes()), expected, "{text:?}");
            assert_eq!(CsvQuotes::of_file().check(text.as_bytes()), expected, "{text:?}");
        }
    }

    proptest! {
        /// Text of a writer of CSV passes, in pieces of any length.
        #[test]
        fn push__takes_what_writers_write_in_any_pieces(
            rows in prop::collection::vec(prop::collection::vec("[a\",\n\r ]{0,4}", 2..4), 0..6),
            piece in 1usize..9,
        ) {
            let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let text = writer.into_inner().unwrap();
            let mut quotes = CsvQuotes::default();
            text.chunks(piece).for_each(|piece| quotes.push(piece).unwrap());
            prop_assert_eq!(quotes.end(), Ok(()));
        }

        /// No value of a text that passes goes on in a row after it.
        #[test]
        fn check__passes_texts_whose_rows_end(text in "[a\",\n]{0,12}") {
            let rows = |text: &str| -> Vec<csv::StringRecord> {
                let mut reader = csv::ReaderBuilder::new();
                let reader = reader.has_headers(false).flexible(true).from_reader(text.as_bytes());
                reader.into_records().map(Result::unwrap).collect()
            };
            if CsvQuotes::default().check(text.as_bytes()).is_ok() {
                let mut expected = rows(&text);
                expected.push(vec!["x", "y"].into());
                prop_assert_eq!(rows(&format!("{text}\nx,y\n")), expected);
            }
        }
    }
}
