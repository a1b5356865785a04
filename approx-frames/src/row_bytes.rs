//! The bytes that rows take in a message.

use crate::body::{ALIGNMENT, width};
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray};
use arrow_schema::DataType;
use std::ops::Range;

/// The bytes of the buffers of these rows in Arrow's IPC format.
pub fn body_bytes(batch: &RecordBatch, rows: Range<usize>) -> usize {
    batch.columns().iter().map(|column| array_bytes(column, rows.clone())).sum()
}

fn array_bytes(array: &ArrayRef, rows: Range<usize>) -> usize {
    let len = rows.len();
    // A buffer without a null isn't sent. To know that takes longer than a bit per row.
    let validity = if array.nulls().is_some() { padded(len.div_ceil(8)) } else { 0 };
    validity
        + match array.data_type() {
            DataType::Null => 0,
            DataType::Boolean => padded(len.div_ceil(8)),
            DataType::Utf8 => text(4, array.as_string::<i32>().value_offsets(), rows),
            DataType::Binary => text(4, array.as_binary::<i32>().value_offsets(), rows),
            DataType::LargeUtf8 => text(8, array.as_string::<i64>().value_offsets(), rows),
            DataType::LargeBinary => text(8, array.as_binary::<i64>().value_offsets(), rows),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let offsets = list.value_offsets();
                padded(4 * (len + 1)) + array_bytes(list.values(), between(offsets, rows))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let offsets = list.value_offsets();
                padded(8 * (len + 1)) + array_bytes(list.values(), between(offsets, rows))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                padded(4 * (len + 1)) + array_bytes(&entries, between(map.value_offsets(), rows))
            }
            DataType::FixedSizeList(_, size) => {
                let (list, size) = (array.as_fixed_size_list(), *size as usize);
                array_bytes(list.values(), rows.start * size..rows.end * size)
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns();
                columns.iter().map(|column| array_bytes(column, rows.clone())).sum()
            }
            // All others have a width.
            kind => padded(len * width(kind).unwrap_or(0)),
        }
}

/// The bytes of values of several bytes, and of their offsets.
fn text<O: Copy + TryInto<usize>>(offset_bytes: usize, offsets: &[O], rows: Range<usize>) -> usize {
    padded(offset_bytes * (rows.len() + 1)) + padded(between(offsets, rows).len())
}

/// The values of these rows.
fn between<O: Copy + TryInto<usize>>(offsets: &[O], rows: Range<usize>) -> Range<usize> {
    let at = |row: usize| offsets[row].try_into().unwrap_or(0);
    at(rows.start)..at(rows.end)
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}
