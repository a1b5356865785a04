//! The totals that the sender of a table states in an exact group.

use std::fmt;

use crate::QueryError;

/// Longer messages are no totals.
const MESSAGE_BYTES_MAX: usize = 1 << 16;
/// Larger numbers aren't exact in 64 bits of floating point.
const NUMBER_MAX: u64 = 1 << 53;

/// The facts of a whole table, which its sender knows when it opens the job.
///
/// [`fmt::Display`] writes the text of the totals message, which is message 1 of
/// [`crate::Table::HEADER_GROUP`]. It has one fact a line: a name, one space, a value, and a line
/// feed. Later versions may state more facts, so readers skip those that they don't know.
///
/// ```
/// use approx_answers::Totals;
///
/// let totals = Totals::parse(b"records 336776\nmessages 22452\n")?;
/// assert_eq!((totals.records, totals.messages), (Some(336_776), Some(22_452)));
/// assert_eq!(totals.to_string(), "records 336776\nmessages 22452\n");
/// # Ok::<(), approx_answers::QueryError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// All records of the table, with and without values.
    pub records: Option<u64>,
    /// The messages that hold them, in [`crate::Table::ROWS_GROUP`]. The totals hold for a job that
    /// sent as many, and for no other.
    pub messages: Option<u64>,
}

impl Totals {
    /// Reads a totals message. Facts may be missing.
    ///
    /// # Errors
    /// The text is longer than 64 KiB, or a line isn't a name of lowercase letters, digits and `_`,
    /// one space, a value of printable ASCII, and a line feed. A known fact isn't a whole number of
    /// at most 2^53, without a sign and leading zeros, or is there twice.
    pub fn parse(message: &[u8]) -> Result<Self, QueryError> {
        let mut totals = Self::default();
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(QueryError::Totals { reason: "it is longer than 64 KiB".to_owned() });
        }
        for (number, line) in (1..).zip(message.split_inclusive(|byte| *byte == b'\n')) {
            let (name, value) = fact(line).ok_or_else(|| refused(number, "is no fact"))?;
            let known = match name {
                b"records" => &mut totals.records,
                b"messages" => &mut totals.messages,
                _ => continue,
            };
            let value = whole(value).ok_or_else(|| refused(number, "states no number"))?;
            if known.replace(value).is_some() {
                return Err(refused(number, "repeats a fact"));
            }
        }
        Ok(totals)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in [("records", self.records), ("messages", self.messages)] {
            if let Some(value) = value {
                writeln!(f, "{name} {value}")?;
            }
        }
        Ok(())
    }
}

fn refused(line: usize, reason: &str) -> QueryError {
    QueryError::Totals { reason: format!("line {line} {reason}") }
}

/// The name and the value of a line.
fn fact(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\n")?;
    let (name, value) = line.split_at(line.iter().position(|byte| *byte == b' ')?);
    let value = value.strip_prefix(b" ")?;
    let is_of_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let is_fact = !name.is_empty() && name.iter().all(is_of_name);
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    let has_value = !value.is_empty() && value.iter().all(is_printable);
    (is_fact && has_value).then_some((name, value))
}

/// A whole number, as [`u64`]'s Display writes it.
fn whole(value: &[u8]) -> Option<u64> {
    let is_plain = value.iter().all(u8::is_ascii_digit) && (value == b"0" || value[0] != b'0');
    let number: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(number).filter(|number| is_plain && *number <= NUMBER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse__skips_unknown_facts() {
        for text in ["", "bytes 7\nlast_row 3, \"b\"\n", "x 1\nx 1\n"] {
            assert_eq!(Totals::parse(text.as_bytes()), Ok(Totals::default()), "{text}");
        }
        let totals = Totals::parse(b"sum_2 -1.5e3\nrecords 0\n").unwrap();
        assert_eq!(totals, Totals { records: Some(0), messages: None });
    }

    #[test]
    fn parse__refuses_all_else() {
        let long = "x 1\n".repeat(20_000);
        for (text, words) in [
            ("records 7", "line 1 is no fact"),
            ("records  7\n", "states no number"),
            ("records 7\r\n", "no fact"),
            ("bytes 1\nRecords 7\n", "line 2 is no fact"),
            ("\n", "no fact"),
            ("records\n", "no fact"),
            ("records \n", "no fact"),
            (" 7\n", "no fact"),
            ("name,delay\n", "no fact"),
            ("records \u{e9}\n", "no fact"),
            ("records +7\n", "states no number"),
            ("records -7\n", "states no number"),
            ("records 07\n", "states no number"),
            ("records 7.0\n", "states no number"),
            ("records 9007199254740993\n", "states no number"),
            ("records 99999999999999999999\n", "states no number"),
            ("records 7\nrecords 7\n", "line 2 repeats a fact"),
            (&long, "longer than 64 KiB"),
        ] {
            let error = Totals::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn parse__reads_what_display_writes(
            records in prop::option::of(0..=NUMBER_MAX),
            messages in prop::option::of(0..=NUMBER_MAX),
        ) {
            let totals = Totals { records, messages };
            prop_assert_eq!(Totals::parse(totals.to_string().as_bytes()), Ok(totals));
        }

        #[test]
        fn parse__never_panics(
            text in prop::collection::vec(prop_oneof![
                Just(b"records ".to_vec()), Just(b"messages".to_vec()), Just(b" 7\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..9),
            ], 0..9),
        ) {
            let text = text.concat();
            if let Ok(totals) = Totals::parse(&text) {
                prop_assert_eq!(Totals::parse(totals.to_string().as_bytes()), Ok(totals));
            }
        }
    }
}
