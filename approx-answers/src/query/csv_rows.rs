//! Queries of tables that arrive as CSV.

use super::{
    Answering, InputRow, Query, Value,
    quotes::{CsvQuotes, QuoteError},
    records::{Columns, Counted, Records, Taken},
    state,
};
use crate::QueryError;
use csv_core::ReadFieldResult;
use std::{cell::Cell, str::Utf8Error};

/// Longer headers are no headers: messages may be as long as the receiver takes.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// A field is read in pieces of this size.
const PIECE_BYTES: usize = 256;

thread_local! {
    /// The reader of this thread. To make one takes as long as to read ten rows, and messages may
    /// have one row. (In csv-core 0.1.13, clones and `default()` have no tables, and read nothing.)
    static READER: Cell<Option<Box<csv_core::Reader>>> = const { Cell::new(None) };
}

impl Answering {
    /// A query of a table in CSV, whose columns `header` names: one record.
    ///
    /// # Errors
    /// The header isn't one record of CSV in UTF-8, or lacks a column of the query.
    pub fn of_csv(query: Query, header: &[u8]) -> Result<Self, QueryError> {
        if header.len() > HEADER_BYTES_MAX {
            let reason = format!("a header has {HEADER_BYTES_MAX} bytes at most");
            return Err(QueryError::Csv { reason });
        }
        let mut reader = csv_core::Reader::new();
        let mut fields = Fields::of_file(&mut reader, checked(header, CsvQuotes::of_file())?);
        let (mut columns, mut records) = (Vec::new(), 0);
        loop {
            let mut name = Vec::new();
            let Some(is_last) = fields.next(|piece| name.extend_from_slice(piece)) else { break };
            if records == 0 {
                columns.push(String::from_utf8_lossy(&name).into_owned());
            }
            records += usize::from(is_last);
        }
        if records != 1 {
            return Err(QueryError::Header { records });
        }
        Self::new(query, &columns)
    }

    /// Adds the rows of one message: whole records of CSV, without a header. A quote that is open
    /// at the end of the message, or is closed in the middle of a later value, would hide rows, and
    /// is an error. In a table of one column, an empty line is a row whose value is missing.
    ///
    /// ```
    /// use approx_answers::{Answering, Confidence};
    ///
    /// let query = "avg(delay_min) by carrier".parse()?;
    /// let mut answering = Answering::of_csv(query, b"carrier,delay_min\n")?;
    /// answering.set_messages_sent(0, 1)?;
    /// answering.push_csv(0, b"UA,4\n\"AA\",NA\nUA,8\n")?;
    /// assert_eq!(answering.answers(Confidence::P95)?.rows[0].estimate.value, 6.0);
    /// # Ok::<(), approx_answers::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// The message isn't CSV in UTF-8, a quote doesn't end with its value, a row has more values
    /// than the header has columns; or as [`Answering::push_message`]. The message is then left
    /// out.
    pub fn push_csv(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let text = checked(message, CsvQuotes::default())?;
        let (columns, parts) = self.columns_and_parts();
        let counted = state::push(parts, stratum, Csv::new(columns, text))?;
        self.note(stratum, &counted);
        Ok(())
    }
}

/// The text, if it is UTF-8 whose quotes hide no rows.
fn checked(text: &[u8], quotes: CsvQuotes) -> Result<&[u8], QueryError> {
    let reason = |error: Utf8Error| QueryError::Csv { reason: error.to_string() };
    let text = std::str::from_utf8(text).map(str::as_bytes).map_err(reason)?;
    let reason = |error: QuoteError| QueryError::Csv { reason: error.to_string() };
    quotes.check(text).map(|()| text).map_err(reason)
}

/// The fields of CSV, one after the other: memory doesn't grow with their number. (`csv::Reader`
/// keeps the end of each field of a row, and a row for each call.)
struct Fields<'a> {
    reader: &'a mut csv_core::Reader,
    text: &'a [u8],
    piece: [u8; PIECE_BYTES],
    /// The last byte that was read.
    last: u8,
    /// The text is at its end, and the line feed after it was read.
    is_ended: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a file's first bytes, without its byte order mark.
    fn of_file(reader: &'a mut csv_core::Reader, text: &'a [u8]) -> Self {
        Self { reader, text, piece: [0; PIECE_BYTES], last: b'\n', is_ended: false }
    }

    /// The fields of later rows. `reader` may have read another text.
    fn of_rows(reader: &'a mut csv_core::Reader, text: &'a [u8]) -> Self {
        reader.reset();
        // An empty line is no row. After it, a byte order mark belongs to a value.
        reader.read_field(b"\n", &mut [0; 1]);
        Self::of_file(reader, text)
    }

    /// Hands the next field to `on`, in pieces. Returns whether it is the last one of its row;
    /// `None` after the last field.
    fn next(&mut self, mut on: impl FnMut(&[u8])) -> Option<bool> {
        loop {
            let (result, read, written) = self.reader.read_field(self.text, &mut self.piece);
            if let Some(at) = read.checked_sub(1) {
                self.last = self.text[at];
            }
            self.text = &self.text[read..];
            on(&self.piece[..written]);
            match result {
                ReadFieldResult::Field { record_end } => return Some(record_end),
                ReadFieldResult::End => return None,
                ReadFieldResult::OutputFull => {}
                ReadFieldResult::InputEmpty if !self.is_ended => {
                    self.is_ended = true;
                    self.text = b"\n";
                }
                // The end of the text ends all.
                ReadFieldResult::InputEmpty => {}
            }
        }
    }

    /// Between two rows: takes the next line if it is empty, which the reader would skip. Returns
    /// whether it was. As in [`crate::csv_text`], carriage returns alone end no line.
    fn take_empty_line(&mut self) -> bool {
        if self.last == b'\r' {
            // The reader leaves the rest of a line's end to the next row.
            let Some(rest) = after_line_end(self.text) else { return false };
            (self.text, self.last) = (rest, b'\n');
        }
        let Some(rest) = after_line_end(self.text) else { return false };
        self.text = rest;
        true
    }
}

/// The text after a line feed, which carriage returns may precede.
fn after_line_end(text: &[u8]) -> Option<&[u8]> {
    let returns = text.iter().take_while(|byte| **byte == b'\r').count();
    text[returns..].strip_prefix(b"\n")
}

/// The wanted values of a row.
struct CsvRow {
    /// A few, each with its position.
    values: Vec<(usize, Vec<u8>)>,
    len: usize,
}

impl InputRow for CsvRow {
    fn columns(&self) -> usize {
        self.len
    }

    fn value(&self, column: usize) -> Value {
        if column < self.len { Value::Untyped } else { Value::Missing }
    }

    fn text(&self, column: usize) -> &str {
        let value = self.values.iter().find(|(at, _)| *at == column && *at < self.len);
        // Without its quotes UTF-8 stays so.
        value.and_then(|(_, bytes)| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl CsvRow {
    /// Reads the next row of a table with so many columns; false after the last one.
    fn read(&mut self, fields: &mut Fields<'_>, columns: usize) -> bool {
        self.len = 0;
        if columns == 1 && fields.take_empty_line() {
            self.values.iter_mut().for_each(|(_, value)| value.clear());
            self.len = 1;
            return true;
        }
        loop {
            let mut wanted = self.values.iter_mut().find(|(at, _)| *at == self.len);
            if let Some((_, value)) = &mut wanted {
                value.clear();
            }
            let is_last = fields.next(|piece| {
                if let Some((_, value)) = &mut wanted {
                    value.extend_from_slice(piece);
                }
            });
            let Some(is_last) = is_last else { return false };
            self.len += 1;
            if is_last {
                return true;
            }
        }
    }
}

/// The records of a message of CSV, which can be gone through several times.
struct Csv<'a> {
    columns: &'a Columns,
    text: &'a [u8],
    /// Made when it is needed.
    reader: Option<Box<csv_core::Reader>>,
    row: CsvRow,
    key: String,
    counted: Counted,
}

impl<'a> Csv<'a> {
    fn new(columns: &'a Columns, text: &'a [u8]) -> Self {
        let values = columns.positions().map(|position| (position, Vec::new())).collect();
        let (reader, row) = (READER.take(), CsvRow { values, len: 0 });
        Self { columns, text, reader, row, key: String::new(), counted: Counted::of(columns) }
    }
}

impl Drop for Csv<'_> {
    fn drop(&mut self) {
        READER.set(self.reader.take());
    }
}

impl Records for Csv<'_> {
    fn each(
        &mut self,
        mut on: impl FnMut(&str, usize, Option<Taken<'_>>) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        self.counted = Counted::of(self.columns);
        let reader = self.reader.get_or_insert_with(|| Box::new(csv_core::Reader::new()));
        let mut fields = Fields::of_rows(reader, self.text);
        let columns = self.columns.len();
        while self.row.read(&mut fields, columns) {
            let found = self.row.len;
            if found > columns {
                let reason = format!("a row has {found} values, the header {columns} columns");
                return Err(QueryError::Csv { reason });
            }
            self.columns.record(&self.row, &mut self.counted, &mut self.key, &mut on)?;
        }
        Ok(())
    }

    fn counted(&self) -> &Counted {
        &self.counted
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
