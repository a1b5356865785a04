//! The answer of a query of a table that arrives as Arrow record batches, or as CSV.

use crate::{FrameError, FrameReader};
use approx_answers::{Answering, Query, QueryError};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use std::borrow::Cow;

/// The answer of a query, from the messages of a table. Its header says how they are written.
///
/// Missing values are nulls and NaN, beside the words that are missing in CSV ([`Answering`]).
#[derive(Clone, Debug)]
pub struct TableAnswering {
    answering: Answering,
    reader: Option<FrameReader>,
}

impl TableAnswering {
    /// A query of the table with this header, of a [`Frame`](crate::Frame) or of CSV.
    ///
    /// # Errors
    /// It is no header, or the table lacks a column of the query.
    pub fn new(query: Query, header: &[u8]) -> Result<Self, QueryError> {
        if !FrameReader::is_header(header) {
            return Ok(Self { answering: Answering::of_csv(query, header)?, reader: None });
        }
        let reader = FrameReader::new(header).map_err(unreadable)?;
        let fields = reader.schema().fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        Ok(Self { answering: Answering::new(query, &columns)?, reader: Some(reader) })
    }

    /// Adds the rows of one message.
    ///
    /// # Errors
    /// It is no message of the table; or as [`Answering::push_message`]. The message is then left
    /// out.
    pub fn push(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let Some(reader) = &self.reader else { return self.answering.push_csv(stratum, message) };
        let batch = reader.read(message).map_err(unreadable)?;
        let used: Vec<usize> = self.answering.positions().collect();
        let rows = Rows::new(&batch, &used).map_err(unreadable)?;
        self.answering.push_message(stratum, rows)
    }

    /// The answers, and what is known of the senders.
    pub fn answering(&self) -> &Answering {
        &self.answering
    }

    /// As [`Self::answering`], to set what is known.
    pub fn answering_mut(&mut self) -> &mut Answering {
        &mut self.answering
    }
}

fn unreadable(error: FrameError) -> QueryError {
    QueryError::Message { reason: error.to_string() }
}

/// The rows of a batch as text, of the columns that a query uses.
struct Rows<'a> {
    columns: Vec<(usize, Column<'a>)>,
    /// Columns of the table.
    number: usize,
    row: usize,
    rows: usize,
}

struct Column<'a> {
    array: &'a dyn Array,
    values: ArrayFormatter<'a>,
    is_float: bool,
}

impl<'a> Rows<'a> {
    fn new(batch: &'a RecordBatch, used: &[usize]) -> Result<Self, FrameError> {
        let column = |&at: &usize| {
            let array: &dyn Array = batch.column(at);
            let values = ArrayFormatter::try_new(array, &FORMAT)?;
            let is_float = array.data_type().is_floating();
            Ok((at, Column { array, values, is_float }))
        };
        let columns: Result<_, FrameError> = used.iter().map(column).collect();
        Ok(Self { columns: columns?, number: batch.num_columns(), row: 0, rows: batch.num_rows() })
    }
}

/// Values that can't be written are text, which no number is.
const FORMAT: FormatOptions<'static> = FormatOptions::new().with_display_error(true);

impl Iterator for Rows<'_> {
    type Item = Vec<Cow<'static, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.row == self.rows {
            return None;
        }
        let mut texts = vec![Cow::Borrowed(""); self.number];
        for (at, column) in &self.columns {
            texts[*at] = column.text(self.row);
        }
        self.row += 1;
        Some(texts)
    }
}

impl Column<'_> {
    /// A value; empty if it is missing.
    fn text(&self, row: usize) -> Cow<'static, str> {
        if self.array.is_null(row) {
            return Cow::Borrowed("");
        }
        match self.values.value(row).to_string() {
            nan if self.is_float && nan == "NaN" => Cow::Borrowed(""),
            text => Cow::Owned(text),
        }
    }
}
