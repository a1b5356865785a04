//! A table as messages of whole rows, for a sender.

use crate::{
    FrameError,
    columns::{wire_batch, wire_schema},
    permutation::Permutation,
    row_bytes::body_bytes,
    wire::Writer,
};
use approx_answers::{
    RecordOrder, Totals,
    division::{MESSAGE_BYTES, divided_evenly, even_parts, filled},
};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
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
    /// Whole rows each. Send them without MRDF: it would deliver the short ones.
    pub messages: Vec<Vec<u8>>,
    /// The table's numbers of rows and messages.
    pub totals: Totals,
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
            None => table,
        };
        let (mut writer, header) = Writer::new(&table)?;
        let number = table.num_rows();
        // Metadata has the same length in each message.
        let metadata =
            writer.message(0..number.min(1)).len() - body_bytes(&table, 0..number.min(1));
        let bytes = |part: Range<usize>| metadata + body_bytes(&table, part);
        let parts = match (rows, &draws) {
            (Some(rows), _) => even_parts(number, number.div_ceil(rows.max(1) as usize)).collect(),
            (None, Some(_)) => divided_evenly(number, MESSAGE_BYTES, bytes),
            (None, None) => filled(number, MESSAGE_BYTES, bytes),
        };
        let mut messages: Vec<_> = parts.into_iter().map(|part| writer.message(part)).collect();
        // As of CSV: the messages of fewer rows must not all be the last ones.
        if let Some(draws) = &mut draws {
            messages.shuffle(draws);
        }
        let count = |number: usize| Some(number as u64);
        let mut totals = Totals::default();
        (totals.records, totals.messages) = (count(number), count(messages.len()));
        Ok(Self { header, messages, totals })
    }
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
