//! The rows of a table in a random order.

use crate::{FrameError, body::width};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array, make_array};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_select::take::take;
use rand::{Rng, seq::SliceRandom};
use std::cell::OnceCell;

/// The most rows that are shuffled at once: their values fit a processor's cache.
const ROWS_MAX: usize = 1 << 16;
/// A byte names a bucket.
const BUCKETS: usize = 256;

/// A random order of rows; all orders are equally likely.
///
/// Values that are taken from all over a table of millions of rows wait for memory. So each row is
/// first put into a random bucket, and then each bucket is shuffled (Rao 1961, Sandelius 1962).
pub struct Permutation {
    /// The bucket of each row.
    buckets: Vec<u8>,
    sizes: Vec<usize>,
    /// For each place of the order, the row of its bucket.
    rows: Vec<u32>,
}

impl Permutation {
    pub fn draw(rows: usize, draws: &mut impl Rng) -> Self {
        let mut buckets = vec![0; rows];
        if rows > ROWS_MAX {
            draws.fill_bytes(&mut buckets);
        }
        let mut sizes = vec![0; BUCKETS];
        buckets.iter().for_each(|bucket| sizes[usize::from(*bucket)] += 1);
        let mut order = Vec::with_capacity(rows);
        for size in &sizes {
            let begin = order.len();
            order.extend(0..*size as u32);
            order[begin..].shuffle(draws);
        }
        Self { buckets, sizes, rows: order }
    }

    /// The table in this order.
    pub fn of(&self, table: &RecordBatch) -> Result<RecordBatch, FrameError> {
        let order = OnceCell::new();
        let columns = table.columns().iter().map(|column| {
            if let Some(column) = self.of_numbers(column)? {
                return Ok(column);
            }
            let rows = || (0..self.buckets.len() as u64).collect::<Vec<_>>();
            let numbers = || UInt64Array::from(self.of_values(&rows()));
            Ok::<_, FrameError>(take(column, order.get_or_init(numbers), None)?)
        });
        Ok(RecordBatch::try_new(table.schema(), columns.collect::<Result<_, _>>()?)?)
    }

    /// A column of values of one width, if none is null.
    fn of_numbers(&self, column: &ArrayRef) -> Result<Option<ArrayRef>, FrameError> {
        let (data, len) = (column.to_data(), column.len());
        let Some(width) = width(data.data_type()).filter(|_| column.null_count() == 0) else {
            return Ok(None);
        };
        let begin = data.offset() * width;
        let values = data.buffers()[0].slice_with_length(begin, len * width);
        let values = match width {
            1 => self.of_buffer::<u8>(&values),
            2 => self.of_buffer::<u16>(&values),
            4 => self.of_buffer::<u32>(&values),
            8 => self.of_buffer::<u64>(&values),
            _ => return Ok(None),
        };
        let data = data.into_builder().offset(0).nulls(None).buffers(vec![values]);
        Ok(Some(make_array(data.build()?)))
    }

    fn of_buffer<T: ArrowNativeType>(&self, values: &Buffer) -> Buffer {
        Buffer::from_vec(self.of_values(values.typed_data::<T>()))
    }

    /// Values of all rows in this order.
    fn of_values<T: Copy + Default>(&self, values: &[T]) -> Vec<T> {
        let begins = self.sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end - size)
        });
        let mut places: Vec<usize> = begins.collect();
        let mut ordered = vec![T::default(); self.buckets.len()];
        for (value, bucket) in values.iter().zip(&self.buckets) {
            let place = &mut places[usize::from(*bucket)];
            ordered[*place] = *value;
            *place += 1;
        }
        let (mut rest, mut rows) = (&mut ordered[..], &self.rows[..]);
        let mut bucket = Vec::new();
        for size in &self.sizes {
            let (values, after) = rest.split_at_mut(*size);
            let (of_values, after_rows) = rows.split_at(*size);
            bucket.clear();
            bucket.extend_from_slice(values);
            values
                .iter_mut()
                .zip(of_values)
                .for_each(|(value, row)| *value = bucket[*row as usize]);
            (rest, rows) = (after, after_rows);
        }
        ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{
        DictionaryArray, FixedSizeBinaryArray, Float64Array, Int16Array, StringArray, UInt32Array,
        types::Int8Type,
    };
    use arrow_select::take::take_record_batch;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::sync::Arc;

    fn order(rows: usize, seed: u64) -> Vec<u64> {
        let permutation = Permutation::draw(rows, &mut ChaCha8Rng::seed_from_u64(seed));
        permutation.of_values(&(0..rows as u64).collect::<Vec<_>>())
    }

    /// Each sixteenth of the rows is spread over the sixteenths of the order as chance has it.
    #[test]
    fn draw__puts_rows_everywhere_alike() {
        const PARTS: usize = 16;
        for rows in [40_000, 200_000] {
            let order = order(rows, 1);
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
    fn draw__leaves_no_neighbors_together() {
        let order = order(200_000, 2);
        let neighbors = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        // Two are expected.
        assert!(neighbors < 15, "{neighbors}");
    }

    /// The columns of a row stay together, of one width and of others, with nulls and without.
    #[test]
    fn of__moves_whole_rows() {
        for rows in [1_000, 70_000] {
            let number = |row: u32| Some(f64::from(row)).filter(|_| !row.is_multiple_of(7));
            let name = |row: u32| ["a", "b", "c"][row as usize % 3];
            let columns: [ArrayRef; 6] = [
                Arc::new(UInt32Array::from_iter_values(0..rows)),
                Arc::new((0..rows).map(number).collect::<Float64Array>()),
                Arc::new((0..rows).map(name).collect::<DictionaryArray<Int8Type>>()),
                Arc::new(StringArray::from_iter_values((0..rows).map(|row| row.to_string()))),
                Arc::new((0..rows).map(|row| row as i16).collect::<Int16Array>()),
                Arc::new(
                    FixedSizeBinaryArray::try_from_iter((0..rows).map(|row| [row as u8; 3]))
                        .unwrap(),
                ),
            ];
            let names = ["i", "x", "key", "text", "short", "bytes"];
            let table = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
            // A part of a table begins within its buffers.
            let table = table.slice(5, rows as usize - 9);
            let permutation =
                Permutation::draw(table.num_rows(), &mut ChaCha8Rng::seed_from_u64(3));
            let moved = permutation.of(&table).unwrap();
            let order: Vec<u64> = (0..table.num_rows() as u64).collect();
            let order = UInt64Array::from(permutation.of_values(&order));
            assert_eq!(moved, take_record_batch(&table, &order).unwrap());
            moved.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        }
    }
}
