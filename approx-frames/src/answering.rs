//! The answer of a query of a table that arrives as Arrow record batches, or as CSV.

use crate::{
    FrameError, FrameReader,
    batch_rows::BatchRows,
    readers::{Readers, differs},
    times,
};
use approx_answers::{Answering, Query, QueryError};
use arrow_schema::DataType;

/// The answer of a query, from the messages of a table. Its header says how they are written.
///
/// In Arrow's columns, nulls and NaN are missing, and every text is a value. In CSV, words stand
/// for missing values ([`Answering`]). Bools are the numbers 1 and 0, and durations are seconds.
/// Other times are texts, which a condition compares as times.
#[derive(Clone, Debug)]
pub struct TableAnswering {
    answering: Answering,
    readers: Option<Readers>,
}

impl TableAnswering {
    /// A query of the table with this header, of a [`Frame`](crate::Frame) or of CSV.
    ///
    /// # Errors
    /// It is no header, or the table lacks a column of the query.
    pub fn new(query: Query, header: &[u8]) -> Result<Self, QueryError> {
        if !FrameReader::is_header(header) {
            return Ok(Self { answering: Answering::of_csv(query, header)?, readers: None });
        }
        let readers = Readers::new(header).map_err(unreadable)?;
        let query = times::in_form_of(query, readers.schema())?;
        let fields = readers.schema().fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        Ok(Self { answering: Answering::new(query, &columns)?, readers: Some(readers) })
    }

    /// Takes the header of a stratum, before its messages, if it isn't the first one: of the same
    /// columns, by their names. Dictionaries and types may differ.
    ///
    /// # Errors
    /// It is the header of another table.
    pub fn join(&mut self, stratum: u32, header: &[u8]) -> Result<(), QueryError> {
        match &mut self.readers {
            Some(readers) => readers.join(stratum, header, false),
            None => Err(differs("it differs from that of another sender")),
        }
    }

    /// Adds the rows of one message.
    ///
    /// # Errors
    /// It is no message of the table; or as [`Answering::push_message`]. The message is then left
    /// out.
    pub fn push(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let Some(readers) = &self.readers else {
            return self.answering.push_csv(stratum, message);
        };
        let batch = readers.read(stratum, message).map_err(unreadable)?;
        let rows = BatchRows::new(&batch, self.answering.positions()).map_err(unreadable)?;
        self.answering.push_rows(stratum, rows.iter())
    }

    /// The type of the values of a column. `None` if senders disagree, and for CSV: every column is
    /// text there.
    pub fn value_type(&self, column: &str) -> Option<&DataType> {
        let readers = self.readers.as_ref()?;
        readers.value_type(readers.schema().index_of(column).ok()?)
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
