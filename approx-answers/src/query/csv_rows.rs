//! Queries of tables that arrive as CSV.

use super::{
    Answering, Query,
    records::{Columns, Records, Row},
};
use crate::QueryError;
use csv_core::ReadFieldResult;
use std::str::Utf8Error;

/// Longer headers are no headers: messages may be as long as the receiver takes.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// A field is read in pieces of this size.
const PIECE_BYTES: usize = 256;

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
        let mut fields = Fields::new(&mut reader, checked(header)?);
        let (mut columns, mut records) = (Vec::new(), 0);
        loop {
            let mut name = Vec::new();
            let Some(is_last) = fields.next(|piece| name.extend_from_slice(piece))? else { break };
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
    /// at the end of the message would hide the rows after it, and is an error.
    ///
    /// ```
    /// use approx_answers::{Answering, Confidence};
    ///
    /// let query = "avg(delay_min) by carrier".parse()?;
    /// let mut answering = Answering::of_csv(query, b"carrier,delay_min\n")?;
    /// answering.set_messages_sent(0, 1)?;
    /// answering.push_csv(0, b"UA,4\n\"AA\",NA\nUA,8\n")?;
    /// assert_eq!(answering.answers(Confidence::P95)?.rows[0].1.value, 6.0);
    /// # Ok::<(), approx_answers::QueryError>(())
    /// ```
    ///
    /// # Errors
    /// The message isn't CSV in UTF-8, a quote has no end, a row has more values than the header
    /// has columns; or as [`Answering::push_message`]. The message is then left out.
    pub fn push_csv(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let (columns, state) = self.columns_and_state();
        state.push(stratum, &mut Csv::new(columns, checked(message)?))
    }
}

/// The text, if it is UTF-8.
fn checked(text: &[u8]) -> Result<&[u8], QueryError> {
    let reason = |error: Utf8Error| QueryError::Csv { reason: error.to_string() };
    std::str::from_utf8(text).map(str::as_bytes).map_err(reason)
}

/// The fields of CSV, one after the other: memory doesn't grow with their number. (`csv::Reader`
/// keeps the end of each field of a row, and a row for each call.)
struct Fields<'a> {
    reader: &'a mut csv_core::Reader,
    text: &'a [u8],
    piece: [u8; PIECE_BYTES],
    /// The text is at its end, and the line feed after it was read.
    is_ended: bool,
}

impl<'a> Fields<'a> {
    /// `reader` may have read another text. To make one costs as much as to read ten rows.
    fn new(reader: &'a mut csv_core::Reader, text: &'a [u8]) -> Self {
        reader.reset();
        Self { reader, text, piece: [0; PIECE_BYTES], is_ended: false }
    }

    /// Hands the next field to `on`, in pieces. Returns whether it is the last one of its row;
    /// `None` after the last field.
    fn next(&mut self, mut on: impl FnMut(&[u8])) -> Result<Option<bool>, QueryError> {
        loop {
            let (result, read, written) = self.reader.read_field(self.text, &mut self.piece);
            self.text = &self.text[read..];
            on(&self.piece[..written]);
            match result {
                ReadFieldResult::Field { record_end } => return Ok(Some(record_end)),
                ReadFieldResult::End => return Ok(None),
                ReadFieldResult::OutputFull => {}
                // A line feed is part of a field whose quote is open, and ends any other.
                ReadFieldResult::InputEmpty if self.is_ended && written > 0 => {
                    let reason = "a quote has no end: give whole rows".to_owned();
                    return Err(QueryError::Csv { reason });
                }
                ReadFieldResult::InputEmpty if !self.is_ended => {
                    self.is_ended = true;
                    self.text = b"\n";
                }
                // The end of the text ends all.
                ReadFieldResult::InputEmpty => {}
            }
        }
    }
}

/// The wanted values of a row.
struct CsvRow {
    /// A few, each with its position.
    values: Vec<(usize, Vec<u8>)>,
    len: usize,
}

impl Row for CsvRow {
    fn value(&self, position: usize) -> Option<&str> {
        let (_, bytes) = self.values.iter().find(|(at, _)| *at == position && *at < self.len)?;
        // Without its quotes UTF-8 stays so.
        std::str::from_utf8(bytes).ok()
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl CsvRow {
    /// Reads the next row; false after the last one.
    fn read(&mut self, fields: &mut Fields<'_>) -> Result<bool, QueryError> {
        self.len = 0;
        loop {
            let mut wanted = self.values.iter_mut().find(|(at, _)| *at == self.len);
            if let Some((_, value)) = &mut wanted {
                value.clear();
            }
            let is_last = fields.next(|piece| {
                if let Some((_, value)) = &mut wanted {
                    value.extend_from_slice(piece);
                }
            })?;
            let Some(is_last) = is_last else { return Ok(false) };
            self.len += 1;
            if is_last {
                return Ok(true);
            }
        }
    }
}

/// The records of a message of CSV, which can be gone through several times.
struct Csv<'a> {
    columns: &'a Columns,
    text: &'a [u8],
    reader: csv_core::Reader,
    row: CsvRow,
}

impl<'a> Csv<'a> {
    fn new(columns: &'a Columns, text: &'a [u8]) -> Self {
        let mut positions: Vec<usize> = columns.positions().collect();
        positions.sort_unstable();
        positions.dedup();
        let values = positions.into_iter().map(|position| (position, Vec::new())).collect();
        let (reader, row) = (csv_core::Reader::new(), CsvRow { values, len: 0 });
        Self { columns, text, reader, row }
    }
}

impl Records for Csv<'_> {
    fn each(
        &mut self,
        mut on: impl FnMut(&str, f64, f64) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let mut fields = Fields::new(&mut self.reader, self.text);
        while self.row.read(&mut fields)? {
            let (found, columns) = (self.row.len(), self.columns.len());
            if found > columns {
                let reason = format!("a row has {found} values, the header {columns} columns");
                return Err(QueryError::Csv { reason });
            }
            if let Some((key, x, y)) = self.columns.record(&self.row)? {
                on(key, x, y)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Confidence;
    use proptest::prelude::*;

    fn answering(header: &[u8]) -> Result<Answering, QueryError> {
        Answering::of_csv("sum(\"b, c\") by a".parse().unwrap(), header)
    }

    #[test]
    fn push_csv__reads_quotes_and_missing_values() {
        let mut answering = answering(b"a,\"b, c\"\r\n").unwrap();
        answering.set_messages_sent(0, 2).unwrap();
        answering.push_csv(0, b"\"x\"\"y\",2\r\nz,\n").unwrap();
        answering.push_csv(0, b"\"x\"\"y\",3").unwrap();
        let rows = answering.answers(Confidence::P95).unwrap().rows;
        assert_eq!((rows[0].0.as_deref(), rows[0].1.value), (Some("x\"y"), 5.0));
        assert_eq!(answering.messages(), 2);
    }

    #[test]
    fn of_csv__refuses_what_is_no_header() {
        for (header, words) in [
            (&b""[..], "0 records"),
            (b"a,\"b, c\"\n1,2\n", "2 records"),
            (b"a,\"b\nc\"\n", "no column"),
            (b"a,\xff\n", "isn't CSV"),
            (b"a,\"b, c\n", "a quote has no end"),
        ] {
            let error = answering(header).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn push_csv__leaves_out_bad_messages() {
        let mut answering = answering(b"a,\"b, c\"\n").unwrap();
        for (message, words) in [
            (&b"x,\xff\n"[..], "isn't CSV"),
            (b"x\n", "lacks column"),
            (b"x,1\ny,soon\n", "soon"),
            (b"x,1\n\"y,7\nz,9\n", "a quote has no end"),
            (b"x,1\ny,7,\n", "3 values, the header 2 columns"),
        ] {
            let error = answering.push_csv(0, message).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        assert_eq!(answering.messages(), 0);
    }

    /// The rows as the crate `csv` reads them.
    fn rows_of_csv(text: &str) -> Vec<Vec<String>> {
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.has_headers(false).flexible(true).from_reader(text.as_bytes());
        let rows = reader.into_records().map(|row| row.unwrap());
        rows.map(|row| row.iter().map(str::to_owned).collect()).collect()
    }

    proptest! {
        #[test]
        fn read__splits_rows_as_the_crate_csv(text in "[a\",\r\n é\u{feff}]{0,40}", long in 0..700usize) {
            let text = text.replace('a', &"a".repeat(long));
            let values = (0..60).map(|position| (position, Vec::new())).collect();
            let (mut row, mut rows) = (CsvRow { values, len: 0 }, Vec::new());
            let mut reader = csv_core::Reader::new();
            // Another text was read before.
            drop(row.read(&mut Fields::new(&mut reader, b"\"open")));
            let mut fields = Fields::new(&mut reader, checked(text.as_bytes()).unwrap());
            let is_open = loop {
                match row.read(&mut fields) {
                    Ok(true) => {}
                    Ok(false) => break false,
                    Err(_) => break true,
                }
                let values = (0..row.len()).map(|at| row.value(at).unwrap().to_owned());
                rows.push(values.collect::<Vec<_>>());
                prop_assert!(row.value(row.len()).is_none());
            };
            // A line after the text is a row, unless a quote is open.
            let with_line = rows_of_csv(&format!("{text}\nline"));
            prop_assert_eq!(is_open, with_line.last().is_some_and(|row| row != &["line"]));
            let mut expected = rows_of_csv(&text);
            if is_open {
                expected.pop();
            }
            prop_assert_eq!(rows, expected);
        }
    }
}
