//! A table as messages of whole rows, for a sender.

use crate::{
    FrameError,
    columns::{wire_batch, wire_schema},
    messages::Messages,
    permutation::Permutation,
    row_bytes::body_bytes,
    wire::{self, Writer},
};
use approx_answers::{
    RecordOrder, Totals,
    division::{MESSAGE_BYTES, divided_evenly, even_parts, filled},
};
use arrow_array::{Array, RecordBatch, make_array};
use arrow_data::{ArrayData, transform::MutableArrayData};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{ops::Range, sync::Arc};

/// A table in memory, divided into messages.
///
/// The groups of its messages are those of [`approx_answers::Table`].
#[derive(Clone, Debug)]
pub struct Frame {
    /// The schema and the dictionaries, for an exact group.
    pub header: Vec<u8>,
    /// The table's numbers of rows and messages.
    pub totals: Totals,
    columns: Arc<[ArrayData]>,
    /// The rows of each message.
    parts: Arc<[Range<usize>]>,
    bytes_max: usize,
}

impl Frame {
    /// Divides a table, whose batches have the columns of `schema`. A message has at most `rows`
    /// rows, or as many as fit a packet. Shuffled rows are divided evenly.
    ///
    /// Columns of views arrive as plain ones. The names of columns need not differ.
    ///
    /// # Errors
    /// A column has a type that can't be sent, or its dictionary is too large. A batch has other
    /// columns than the schema.
    pub fn new(
        schema: &SchemaRef,
        batches: &[RecordBatch],
        rows: Option<u32>,
        order: RecordOrder,
    ) -> Result<Self, FrameError> {
        let table = joined(schema, batches)?;
        let mut draws = order.seed().map(ChaCha8Rng::seed_from_u64);
        let table = match &mut draws {
            Some(draws) => Permutation::draw(table.num_rows(), draws).of(&table)?,
            None => kept(table, batches.len())?,
        };
        let header = wire::header(&table)?;
        let columns: Arc<[_]> = table.columns().iter().map(|column| column.to_data()).collect();
        let number = table.num_rows();
        // Metadata has the same length in each message.
        let metadata = Writer::default().metadata_bytes(&columns, 0..number.min(1));
        let bytes = |part: Range<usize>| metadata + body_bytes(&table, part);
        let mut parts = match (rows, &draws) {
            (Some(rows), _) => even_parts(number, number.div_ceil(rows.max(1) as usize)).collect(),
            (None, Some(_)) => divided_evenly(number, MESSAGE_BYTES, bytes),
            (None, None) => filled(number, MESSAGE_BYTES, bytes),
        };
        // As of CSV: the messages of fewer rows must not all be the last ones.
        if let Some(draws) = &mut draws {
            parts.shuffle(draws);
        }
        let bytes_max = parts.iter().cloned().map(bytes).max().unwrap_or(0);
        let count = |number: usize| Some(number as u64);
        let mut totals = Totals::default();
        (totals.records, totals.messages) = (count(number), count(parts.len()));
        Ok(Self { header, totals, columns, parts: parts.into(), bytes_max })
    }

    /// The messages, of whole rows each. Send them without MRDF: it would deliver the short ones.
    pub fn messages(&self) -> Messages {
        Messages::new(Arc::clone(&self.columns), Arc::clone(&self.parts))
    }

    /// No message is longer. The longest one is shorter by nulls that it might have.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

/// The table in memory of its own, if it was one batch: the application may change that, and the
/// messages are written later. Several batches were copied when they were joined.
fn kept(table: RecordBatch, batches: usize) -> Result<RecordBatch, FrameError> {
    if batches != 1 {
        return Ok(table);
    }
    let columns = table.columns().iter().map(|column| {
        let (data, rows) = (column.to_data(), column.len());
        let mut copy = MutableArrayData::new(vec![&data], false, rows);
        copy.try_extend(0, 0, rows)?;
        Ok(make_array(copy.freeze()))
    });
    let columns = columns.collect::<Result<_, ArrowError>>()?;
    Ok(RecordBatch::try_new(table.schema(), columns)?)
}

/// All rows in one batch of the types of messages. Its dictionaries are merged.
fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, FrameError> {
    let wire = Arc::new(wire_schema(schema)?);
    let batches = batches.iter().enumerate().map(|(number, batch)| {
        // Metadata of batches may differ: that of the schema counts.
        let types = |schema: &SchemaRef| -> Vec<_> {
            let fields = schema.fields().iter();
            fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        let (expected, found) = (types(schema), types(&batch.schema()));
        if expected != found {
            let reason = difference(&expected, &found);
            return Err(FrameError::OtherSchema { number, reason });
        }
        wire_batch(batch, &wire)
    });
    Ok(concat_batches(&wire, &batches.collect::<Result<Vec<_>, _>>()?)?)
}

/// The first difference between the columns of two batches.
fn difference(expected: &[(String, DataType)], found: &[(String, DataType)]) -> String {
    let columns = expected.iter().zip(found).find(|(one, other)| one != other);
    match columns {
        Some(((name, kind), (other, other_kind))) => {
            format!("{other:?} of type {other_kind} in place of {name:?} of type {kind}")
        }
        None => format!("{} columns in place of {}", found.len(), expected.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, DictionaryArray, Float64Array, StringArray, types::Int8Type};

    #[test]
    fn new__keeps_no_memory_of_the_application() {
        let columns: [ArrayRef; 4] = [
            Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])),
            Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0)])),
            Arc::new(StringArray::from(vec!["a", "bc", ""])),
            Arc::new(DictionaryArray::<Int8Type>::from_iter(["a", "b", "a"])),
        ];
        let names = ["x", "nulls", "text", "key"];
        let batch = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let pointers = |columns: &[ArrayData]| -> Vec<*const u8> {
            columns.iter().flat_map(|data| data.buffers()).map(|buffer| buffer.as_ptr()).collect()
        };
        let columns: Vec<_> = batch.columns().iter().map(|column| column.to_data()).collect();
        let own = pointers(&columns);
        for order in [RecordOrder::OfFile, RecordOrder::ShuffledBy(1)] {
            let batches = [batch.clone(), batch.slice(0, 0)];
            for batches in [&batches[..1], &batches] {
                let frame = Frame::new(&batch.schema(), batches, None, order).unwrap();
                let kept = pointers(&frame.columns);
                assert_eq!(kept.len(), own.len());
                assert!(kept.iter().all(|pointer| !own.contains(pointer)), "{order:?}");
            }
        }
    }
}
