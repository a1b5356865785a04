//! The rows of a table that arrives as Arrow record batches, or as CSV.

use crate::{
    FrameError, FrameReader,
    readers::{Readers, differs},
    schema_check::FIELDS_MAX,
};
use approx_answers::QueryError;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use std::sync::Arc;

/// The columns that follow those of the table: the number of each row's stratum, and its weight.
const STRATUM: &str = "atp_stratum";
const WEIGHT: &str = "atp_weight";
/// Messages of which one batch is made.
const MESSAGES_PER_BATCH: usize = 1_024;

/// The rows that arrived of a table. Its header says how they are written.
#[derive(Debug)]
pub struct TableRows {
    /// `None` for CSV, whose columns are texts.
    readers: Option<Readers>,
    schema: SchemaRef,
    /// The batches of each stratum: long ones, then those of single messages.
    strata: Vec<Batches>,
    rows: u64,
    bytes: u64,
    bytes_max: u64,
}

#[derive(Clone, Debug, Default)]
struct Batches {
    long: Vec<RecordBatch>,
    of_messages: Vec<RecordBatch>,
}

impl TableRows {
    /// No rows yet of the table with this header, of a [`Frame`](crate::Frame) or of CSV. They will
    /// take `bytes_max` at most.
    ///
    /// # Errors
    /// It is no header, or it has a column of a name that the rows need for their strata.
    pub fn new(header: &[u8], bytes_max: u64) -> Result<Self, QueryError> {
        let (schema, readers) = if FrameReader::is_header(header) {
            let readers = Readers::new(header).map_err(unreadable)?;
            (Arc::clone(readers.schema()), Some(readers))
        } else {
            (of_csv(header)?, None)
        };
        for name in [STRATUM, WEIGHT] {
            if schema.field_with_name(name).is_ok() {
                let text = format!("the table has a column {name:?} of its own: rename it");
                return Err(unreadable(text));
            }
        }
        Ok(Self { readers, schema, strata: Vec::new(), rows: 0, bytes: 0, bytes_max })
    }

    /// Takes the header of a stratum, before its messages, if it isn't the first one: of the same
    /// columns, by their names and types. Dictionaries may differ.
    ///
    /// # Errors
    /// It is the header of another table.
    pub fn join(&mut self, stratum: u32, header: &[u8]) -> Result<(), QueryError> {
        match &mut self.readers {
            Some(readers) => readers.join(stratum, header, true),
            None => Err(differs("it differs from that of another sender")),
        }
    }

    /// Adds the rows of one message.
    ///
    /// # Errors
    /// It is no message of the table, or the rows would take too much memory. The message is then
    /// left out.
    pub fn push(&mut self, stratum: u32, message: &[u8]) -> Result<(), QueryError> {
        let batch = match &self.readers {
            Some(readers) => readers.read(stratum, message).map_err(unreadable)?,
            None => of_records(&self.schema, message)?,
        };
        // A column of nulls takes no bytes. A row of a column of bools takes a bit.
        if batch.num_rows() > 8 * message.len() {
            return Err(unreadable("a message has more rows than bits"));
        }
        let bytes = self.bytes + bytes_of(message, &batch);
        if bytes > self.bytes_max {
            return Err(unreadable(format!("the rows take more than {} bytes", self.bytes_max)));
        }
        self.bytes = bytes;
        let at = stratum as usize;
        if self.strata.len() <= at {
            self.strata.resize_with(at + 1, Batches::default);
        }
        let of = &mut self.strata[at];
        self.rows += batch.num_rows() as u64;
        of.of_messages.push(batch);
        if of.of_messages.len() == MESSAGES_PER_BATCH {
            of.join(&self.schema);
        }
        Ok(())
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The rows, with the columns `atp_stratum` and `atp_weight`. Strata without a message are left
    /// out, and the others have the numbers from 0 on in their order. The weights are those of all
    /// strata; a row of an unknown weight has a null.
    ///
    /// # Errors
    /// Arrow refuses the columns.
    pub fn into_batches(
        self,
        weights: &[Option<f64>],
    ) -> Result<(SchemaRef, Vec<RecordBatch>), FrameError> {
        let mut fields = self.schema.fields().to_vec();
        fields.push(Arc::new(Field::new(STRATUM, DataType::UInt32, false)));
        fields.push(Arc::new(Field::new(WEIGHT, DataType::Float64, true)));
        let with = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut batches = Vec::new();
        let weights = weights.iter().copied().chain(std::iter::repeat(None));
        let strata = self.strata.into_iter().zip(weights);
        let with_rows = strata.filter(|(of, _)| !of.is_empty());
        for (number, (mut of, weight)) in (0u32..).zip(with_rows) {
            of.join(&self.schema);
            for batch in of.long {
                let rows = batch.num_rows();
                let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
                columns.push(Arc::new(UInt32Array::from_value(number, rows)));
                columns.push(Arc::new(Float64Array::from_iter((0..rows).map(|_| weight))));
                batches.push(RecordBatch::try_new(Arc::clone(&with), columns)?);
            }
        }
        Ok((with, batches))
    }
}

impl Batches {
    fn is_empty(&self) -> bool {
        self.long.is_empty() && self.of_messages.is_empty()
    }

    /// Makes one batch of those of messages, unless their texts or lists are too long for one.
    fn join(&mut self, schema: &SchemaRef) {
        match concat_batches(schema, &self.of_messages) {
            Ok(joined) => {
                self.of_messages.clear();
                self.long.push(joined);
            }
            Err(_) => self.long.append(&mut self.of_messages),
        }
    }
}

/// The memory of a message's batch, with the two columns of the strata. Dictionaries are those of
/// the header.
fn bytes_of(message: &[u8], batch: &RecordBatch) -> u64 {
    let offsets = size_of::<i32>() * batch.num_columns();
    let of_stratum = size_of::<u32>() + size_of::<f64>();
    (message.len() + batch.num_rows() * (offsets + of_stratum)) as u64
}

/// The columns of a CSV header.
fn of_csv(header: &[u8]) -> Result<SchemaRef, QueryError> {
    let mut reader = records(header);
    let mut record = csv::StringRecord::new();
    reader.read_record(&mut record).map_err(unreadable)?;
    if record.len() > FIELDS_MAX {
        return Err(unreadable("the header has too many columns"));
    }
    let fields: Vec<Field> =
        record.iter().map(|name| Field::new(name, DataType::Utf8, false)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// The records of a message, each column as text.
fn of_records(schema: &SchemaRef, message: &[u8]) -> Result<RecordBatch, QueryError> {
    let mut columns = vec![Vec::new(); schema.fields().len()];
    let mut reader = records(message);
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        if record.len() != columns.len() {
            let text = format!("a record has {} values of {}", record.len(), columns.len());
            return Err(unreadable(text));
        }
        for (column, value) in columns.iter_mut().zip(&record) {
            column.push(value.to_owned());
        }
    }
    let arrays = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
    RecordBatch::try_new(Arc::clone(schema), arrays.collect()).map_err(unreadable)
}

fn records(text: &[u8]) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text)
}

fn unreadable(reason: impl ToString) -> QueryError {
    QueryError::Message { reason: reason.to_string() }
}
