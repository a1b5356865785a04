//! The columns of a message, as Arrow's IPC format has them.
//!
//! Arrow's own writer makes arrays of the rows of each message first. That takes several times as
//! long as to copy the rows of a short message.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, ToByteSlice};
use arrow_data::ArrayData;
use arrow_ipc::FieldNode;
use arrow_schema::DataType;
use std::ops::{Range, Sub};

/// Buffers begin at multiples of this.
pub const ALIGNMENT: usize = 8;

/// The columns of one message. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Body {
    pub bytes: Vec<u8>,
    pub layout: Layout,
}

/// Where the columns lie in the bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    pub rows: usize,
    pub nodes: Vec<FieldNode>,
    pub buffers: Vec<arrow_ipc::Buffer>,
}

impl Body {
    /// Replaces the columns by these rows of a table.
    pub fn write(&mut self, columns: &[ArrayData], rows: Range<usize>) {
        self.bytes.clear();
        self.layout.nodes.clear();
        self.layout.buffers.clear();
        self.layout.rows = rows.len();
        columns.iter().for_each(|column| self.column(column, rows.clone()));
    }

    fn column(&mut self, column: &ArrayData, rows: Range<usize>) {
        let (kind, len) = (column.data_type(), rows.len());
        if matches!(kind, DataType::Null) {
            self.layout.nodes.push(FieldNode::new(len as i64, len as i64));
            return;
        }
        let nulls = column.nulls().map(|nulls| nulls.slice(rows.start, len));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let number = nulls.as_ref().map_or(0, |nulls| nulls.null_count());
        self.layout.nodes.push(FieldNode::new(len as i64, number as i64));
        match nulls {
            Some(nulls) => self.bits(nulls.inner()),
            None => self.buffer(&[]),
        }
        let rows = column.offset() + rows.start..column.offset() + rows.end;
        let child = column.child_data();
        match kind {
            DataType::Boolean => {
                self.bits(&BooleanBuffer::new(column.buffers()[0].clone(), rows.start, len));
            }
            DataType::Utf8 | DataType::Binary => {
                let values = self.offsets::<i32>(&column.buffers()[0], rows);
                self.buffer(&column.buffers()[1][values]);
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                let values = self.offsets::<i64>(&column.buffers()[0], rows);
                self.buffer(&column.buffers()[1][values]);
            }
            DataType::List(_) | DataType::Map(..) => {
                let values = self.offsets::<i32>(&column.buffers()[0], rows);
                self.column(&child[0], values);
            }
            DataType::LargeList(_) => {
                let values = self.offsets::<i64>(&column.buffers()[0], rows);
                self.column(&child[0], values);
            }
            DataType::FixedSizeList(_, size) => {
                let size = *size as usize;
                self.column(&child[0], rows.start * size..rows.end * size);
            }
            DataType::Struct(_) => {
                child.iter().for_each(|field| self.column(field, rows.clone()));
            }
            kind => {
                let width = width(kind).unwrap_or(0);
                self.buffer(&column.buffers()[0][rows.start * width..rows.end * width]);
            }
        }
    }

    /// The offsets of values of several parts, counted from the first one. Returns those values.
    fn offsets<O>(&mut self, offsets: &Buffer, rows: Range<usize>) -> Range<usize>
    where
        O: ArrowNativeType + Sub<Output = O>,
    {
        // There may be none for no rows.
        let offsets: &[O] = offsets.typed_data();
        let offsets = offsets.get(rows.start..=rows.end).unwrap_or_default();
        let first = offsets.first().copied().unwrap_or_default();
        let begin = self.bytes.len();
        match offsets {
            [] => self.bytes.extend_from_slice(first.to_byte_slice()),
            some => {
                for offset in some {
                    self.bytes.extend_from_slice((*offset - first).to_byte_slice());
                }
            }
        }
        self.end(begin);
        first.as_usize()..offsets.last().copied().unwrap_or_default().as_usize()
    }

    fn bits(&mut self, bits: &BooleanBuffer) {
        self.buffer(&bits.sliced());
    }

    fn buffer(&mut self, bytes: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.end(begin);
    }

    /// Ends the buffer that begins there.
    fn end(&mut self, begin: usize) {
        let end = self.bytes.len();
        self.layout.buffers.push(arrow_ipc::Buffer::new(begin as i64, (end - begin) as i64));
        self.bytes.resize(end.next_multiple_of(ALIGNMENT), 0);
    }
}

/// The bytes of each value of a type, if all take as many.
pub fn width(kind: &DataType) -> Option<usize> {
    match kind {
        DataType::FixedSizeBinary(width) => Some(*width as usize),
        DataType::Dictionary(key, _) => key.primitive_width(),
        kind => kind.primitive_width(),
    }
}
