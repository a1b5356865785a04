//! A table as messages of whole rows, for a sender.

use crate::{
    FrameError,
    columns::{wire_batch, wire_schema},
    row_bytes::body_bytes,
    wire::Writer,
};
use approx_answers::{
    RecordOrder, Totals,
    division::{MESSAGE_BYTES, divided_evenly, even_parts, filled},
};
use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::{concat::concat_batches, take::take_record_batch};
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{ops::Range, sync::Arc};

/// The most rows that are shuffled at once: their numbers fit a processor's cache.
const ROWS_MAX: usize = 1 << 16;
/// A byte names a bucket.
const BUCKETS: usize = 256;

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
            Some(draws) => shuffled(&table, draws)?,
            None => table,
        };
        let (mut writer, header) = Writer::new(&table)?;
        let number = table.num_rows();
        // Metadata has the same length in each message.
        let metadata = writer.message(&table.slice(0, number.min(1)))?.len()
            - body_bytes(&table, 0..number.min(1));
        let bytes = |part: Range<usize>| metadata + body_bytes(&table, part);
        let parts = match (rows, &draws) {
            (Some(rows), _) => even_parts(number, number.div_ceil(rows.max(1) as usize)).collect(),
            (None, Some(_)) => divided_evenly(number, MESSAGE_BYTES, bytes),
            (None, None) => filled(number, MESSAGE_BYTES, bytes),
        };
        let mut messages = Vec::with_capacity(parts.len());
        for part in parts {
            messages.push(writer.message(&table.slice(part.start, part.len()))?);
        }
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

/// The rows in a random order.
fn shuffled(table: &RecordBatch, draws: &mut ChaCha8Rng) -> Result<RecordBatch, FrameError> {
    let order = random_order(table.num_rows(), draws);
    Ok(take_record_batch(table, &UInt64Array::from(order))?)
}

/// The numbers of all rows in a random order; all orders are equally likely.
///
/// Swaps across a table of millions of rows wait for memory. So each row is first put into a random
/// bucket, and then each bucket is shuffled (Rao 1961, Sandelius 1962).
fn random_order(rows: usize, draws: &mut impl Rng) -> Vec<u64> {
    if rows <= ROWS_MAX {
        let mut order: Vec<u64> = (0..rows as u64).collect();
        order.shuffle(draws);
        return order;
    }
    let mut buckets = vec![0u8; rows];
    draws.fill_bytes(&mut buckets);
    let mut sizes = [0; BUCKETS];
    buckets.iter().for_each(|bucket| sizes[usize::from(*bucket)] += 1);
    let begins = sizes.iter().scan(0, |end, size| {
        *end += size;
        Some(*end - size)
    });
    let mut places: Vec<usize> = begins.collect();
    let mut order = vec![0; rows];
    for (row, bucket) in (0..).zip(buckets) {
        let place = &mut places[usize::from(bucket)];
        order[*place] = row;
        *place += 1;
    }
    let mut rest = &mut order[..];
    for size in sizes {
        let (bucket, after) = rest.split_at_mut(size);
        bucket.shuffle(draws);
        rest = after;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sixteenth of the rows is spread over the sixteenths of the order as chance has it.
    #[test]
    fn random_order__puts_rows_everywhere_alike() {
        const PARTS: usize = 16;
        for rows in [40_000, 200_000] {
            let order = random_order(rows, &mut ChaCha8Rng::seed_from_u64(1));
            let mut counts = [[0.0; PARTS]; PARTS];
            for (place, row) in order.iter().enumerate() {
                counts[place * PARTS / rows][*row as usize * PARTS / rows] += 1.0;
            }
            let expected = rows as f64 / (PARTS * PARTS) as f64;
            let square = |count: &f64| (count - expected).powi(2) / expected;
            let chi: f64 = counts.iter().flatten().map(square).sum();
            // 225 degrees of freedom, with a standard deviation of 21. The seed is fixed.
            assert!((140.0..330.0).contains(&chi), "{chi}");
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..rows as u64));
        }
    }

    /// No order is more likely than another: the neighbors of a row are any rows.
    #[test]
    fn random_order__leaves_no_neighbors_together() {
        let order = random_order(200_000, &mut ChaCha8Rng::seed_from_u64(2));
        let neighbors = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        // Two are expected.
        assert!(neighbors < 15, "{neighbors}");
    }
}
