//! The answer of a query of a table that arrives as Arrow record batches, or as CSV.

use crate::{FrameError, FrameReader, batch_rows::BatchRows};
use approx_answers::{Answering, Query, QueryError};

/// The answer of a query, from the messages of a table. Its header says how they are written.
///
/// In Arrow's columns, nulls and NaN are missing, and every text is a value. In CSV, words stand
/// for missing values ([`Answering`]). Bools are the numbers 1 and 0, and durations are seconds.
/// Other times are texts.
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
        let rows = BatchRows::new(&batch, self.answering.positions()).map_err(unreadable)?;
        self.answering.push_rows(stratum, rows.iter())
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
