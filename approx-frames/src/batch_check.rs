//! Checks a batch from the network before Arrow's reader sees it, which takes lengths for granted.

use crate::FrameError;
use arrow_ipc::{Buffer, FieldNode, RecordBatch};
use arrow_schema::{DataType, Fields, Schema};
use std::slice;

/// The most rows of a message, and values of a nested column in it. A column without any value
/// takes no bytes.
const ROWS_MAX: i64 = 1 << 20;

/// Every column begins at a multiple of this.
const ALIGNMENT: usize = 8;

/// Checks that the batch has the nodes and buffers that columns of the schema have, within a body
/// of this length.
///
/// # Errors
/// Arrow's reader would panic, or the rows are more than a message can have.
pub fn check(batch: RecordBatch<'_>, schema: &Schema, body_bytes: usize) -> Result<(), FrameError> {
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return refuse("a batch has no columns");
    };
    if batch.compression().is_some() {
        return refuse("a batch is compressed");
    }
    if batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return refuse("a batch has columns of views");
    }
    if !(0..=ROWS_MAX).contains(&batch.length()) {
        return refuse("a batch has too many rows");
    }
    let is_within = |buffer: &Buffer| {
        let (Ok(begin), Ok(len)) =
            (usize::try_from(buffer.offset()), usize::try_from(buffer.length()))
        else {
            return false;
        };
        begin.is_multiple_of(ALIGNMENT)
            && begin.checked_add(len).is_some_and(|end| end <= body_bytes)
    };
    if !buffers.iter().all(is_within) {
        return refuse("a column lies beyond the end of its message, or begins between two words");
    }
    let nodes: Vec<&FieldNode> = nodes.iter().collect();
    let buffers: Vec<&Buffer> = buffers.iter().collect();
    let mut walk = Walk { nodes: nodes.iter(), buffers: buffers.iter() };
    for field in schema.fields() {
        let rows = walk.column(field.data_type())?;
        if rows != batch.length() {
            return refuse("a column has another number of rows than its batch");
        }
    }
    match (walk.nodes.next(), walk.buffers.next()) {
        (None, None) => Ok(()),
        _ => refuse("a batch has more columns than its table"),
    }
}

/// The nodes and buffers of a batch that are left.
struct Walk<'a> {
    nodes: slice::Iter<'a, &'a FieldNode>,
    buffers: slice::Iter<'a, &'a Buffer>,
}

impl Walk<'_> {
    /// Walks over a column. Returns its number of rows.
    fn column(&mut self, kind: &DataType) -> Result<i64, FrameError> {
        let Some(node) = self.nodes.next() else { return Err(missing()) };
        let (rows, nulls) = (node.length(), node.null_count());
        if !(0..=ROWS_MAX).contains(&rows) || !(0..=rows).contains(&nulls) {
            return Err(FrameError::message("a column has too many rows or nulls"));
        }
        if matches!(kind, DataType::Null) {
            return Ok(rows);
        }
        let validity = self.buffer()?;
        if nulls > 0 && validity < (rows as u64).div_ceil(8) {
            return Err(FrameError::message("the nulls of a column are cut off"));
        }
        match kind {
            DataType::Utf8 | DataType::Binary => {
                self.numbers(4)?;
                self.buffer()?;
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.numbers(8)?;
                self.buffer()?;
            }
            DataType::List(field) | DataType::Map(field, _) => {
                self.numbers(4)?;
                self.column(field.data_type())?;
            }
            DataType::LargeList(field) => {
                self.numbers(8)?;
                self.column(field.data_type())?;
            }
            DataType::FixedSizeList(field, size) => {
                let values = self.column(field.data_type())?;
                if rows.checked_mul(i64::from(*size)).is_none_or(|needed| values < needed) {
                    return Err(FrameError::message("the values of a list are cut off"));
                }
            }
            DataType::Struct(fields) => self.fields(fields, rows)?,
            DataType::Dictionary(index, _) => self.numbers(index.primitive_width().unwrap_or(1))?,
            // Bits, bytes and numbers.
            kind => self.numbers(kind.primitive_width().unwrap_or(1))?,
        }
        Ok(rows)
    }

    fn fields(&mut self, fields: &Fields, rows: i64) -> Result<(), FrameError> {
        for field in fields {
            if self.column(field.data_type())? != rows {
                return Err(FrameError::message("a field has another number of rows"));
            }
        }
        Ok(())
    }

    /// A buffer of numbers of this width.
    fn numbers(&mut self, bytes_each: usize) -> Result<(), FrameError> {
        match self.buffer()?.is_multiple_of(bytes_each as u64) {
            true => Ok(()),
            false => refuse("the last number of a column is cut off"),
        }
    }

    /// The bytes of the next buffer.
    fn buffer(&mut self) -> Result<u64, FrameError> {
        self.buffers.next().map(|buffer| buffer.length() as u64).ok_or_else(missing)
    }
}

fn missing() -> FrameError {
    FrameError::message("a batch lacks columns of its table")
}

fn refuse(reason: &str) -> Result<(), FrameError> {
    Err(FrameError::message(reason))
}
