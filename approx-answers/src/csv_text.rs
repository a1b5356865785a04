//! The text of a CSV file on its way to the reader: quotes are checked, and an empty line of
//! a single column becomes a quoted empty value.
//!
//! The crate `csv` skips empty lines. Some writers, such as PostgreSQL's COPY, write a missing
//! value of a single column as one, and its record would be lost.

use std::io::{self, Read};

use crate::CsvQuotes;

/// Text is read in pieces of this size.
const PIECE_BYTES: usize = 1 << 16;

/// Text of CSV. Quotes that hide rows from its reader are an error.
pub(crate) struct CsvText<R> {
    input: R,
    piece: Vec<u8>,
    /// Text for the reader, which has taken the first `taken` bytes.
    text: Vec<u8>,
    taken: usize,
    quotes: CsvQuotes,
    columns: Columns,
    /// The current line has nothing but carriage returns so far. They alone end no line here.
    is_empty: bool,
}

/// The number of the file's columns.
#[derive(Clone, Copy, PartialEq)]
enum Columns {
    /// The header isn't complete.
    Unknown {
        has_comma: bool,
    },
    One,
    Several,
}

impl<R: Read> CsvText<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            piece: vec![0; PIECE_BYTES],
            text: Vec::new(),
            taken: 0,
            quotes: CsvQuotes::of_file(),
            columns: Columns::Unknown { has_comma: false },
            is_empty: true,
        }
    }

    /// Takes in the next piece of the file, if there is one.
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.taken = 0;
        let len = self.input.read(&mut self.piece)?;
        if len == 0 {
            return self.quotes.end().map_err(io::Error::other);
        }
        let piece = std::mem::take(&mut self.piece);
        let pushed = piece[..len]
            .split_inclusive(|byte| *byte == b'\n')
            .try_for_each(|line| self.push(line));
        self.piece = piece;
        pushed
    }

    /// Adds a line, or a part of one.
    fn push(&mut self, line: &[u8]) -> io::Result<()> {
        let is_blank = line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        self.is_empty &= is_blank && !self.quotes.is_open();
        match &mut self.columns {
            Columns::Unknown { has_comma } => {
                for byte in line {
                    *has_comma |= *byte == b',' && !self.quotes.is_open();
                    self.quotes.push(&[*byte]).map_err(io::Error::other)?;
                }
            }
            _ => self.quotes.push(line).map_err(io::Error::other)?,
        }
        let Some(before_end) = line.strip_suffix(b"\n") else {
            self.text.extend(line);
            return Ok(());
        };
        self.text.extend(before_end);
        match self.columns {
            Columns::One if self.is_empty => self.text.extend(b"\"\""),
            Columns::Unknown { has_comma } if !(self.is_empty || self.quotes.is_open()) => {
                self.columns = if has_comma { Columns::Several } else { Columns::One };
            }
            _ => {}
        }
        self.text.push(b'\n');
        self.is_empty = true;
        Ok(())
    }
}

impl<R: Read> Read for CsvText<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !out.is_empty() {
            self.fill()?;
        }
        let rest = &self.text[self.taken..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(out.len());
            self.0.read(&mut out[..len])
        }
    }

    fn read(file: &str, step: usize) -> Result<String, String> {
        let mut text = String::new();
        let mut reader = CsvText::new(Slow(file.as_bytes(), step));
        reader.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn read__quotes_the_empty_lines_of_a_single_column() {
        for (file, expected) in [
            ("v\n1\n\n3\n", "v\n1\n\"\"\n3\n"),
            ("v\n1\n\n3", "v\n1\n\"\"\n3"),
            ("v\r\n1\r\n\r\n3\r\n", "v\r\n1\r\n\r\"\"\n3\r\n"),
            ("v\n\n\n1\n\n", "v\n\"\"\n\"\"\n1\n\"\"\n"),
            // The end of the last record begins none, and the header comes after empty lines.
            ("v\n1\n", "v\n1\n"),
            ("\n\r\nv\n\n", "\n\r\nv\n\"\"\n"),
            ("\n\n", "\n\n"),
            ("", ""),
            // Lines of a quoted value.
            ("v\n\"a\n\nb\"\n\n1\n", "v\n\"a\n\nb\"\n\"\"\n1\n"),
            ("\"a\n\n,b\"\n\n1\n", "\"a\n\n,b\"\n\"\"\n1\n"),
            // Several columns, and a missing value that has quotes.
            ("k,v\n1,2\n\n3,4\n", "k,v\n1,2\n\n3,4\n"),
            ("v\n\"\"\n \n", "v\n\"\"\n \n"),
            // A text file in which each end of a line became a longer one.
            ("v\r\r\n1\r\r\n3\r\r\n", "v\r\r\n1\r\r\n3\r\r\n"),
        ] {
            for step in [1, 2, 3, 100] {
                assert_eq!(read(file, step).as_deref(), Ok(expected), "{file:?}");
            }
        }
        assert_eq!(
            read("v\n\n\"1\n", 2).unwrap_err(),
            "line 3: a quote opens a value and has no end"
        );
    }

    proptest! {
        #[test]
        fn read__loses_no_missing_value(
            values in prop::collection::vec("[a\",\n\r ]{0,4}", 0..9),
            end in prop::sample::select(vec!["\n", "\r\n"]),
            step in 1usize..9,
        ) {
            let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
            let line = |value: &String| match value.is_empty() {
                true => end.to_owned(),
                false => quoted(value) + end,
            };
            let lines: String = values.iter().map(line).collect();
            let text = read(&format!("v{end}{lines}"), step).unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let found = reader.records().map(|record| record.unwrap()[0].to_owned());
            prop_assert_eq!(found.collect::<Vec<String>>(), values);
        }
    }
}
