//! The messages of a frame, written one by one: together they would take as much memory as the
//! table.

use crate::wire::Writer;
use arrow_data::ArrayData;
use std::{ops::Range, sync::Arc};

/// The messages of a [`Frame`](crate::Frame) that are left, in their order.
pub struct Messages {
    columns: Arc<[ArrayData]>,
    /// The rows of each message.
    parts: Arc<[Range<usize>]>,
    next: usize,
    writer: Writer,
}

impl Messages {
    pub(crate) fn new(columns: Arc<[ArrayData]>, parts: Arc<[Range<usize>]>) -> Self {
        Self { columns, parts, next: 0, writer: Writer::default() }
    }

    /// Writes the next message into the memory of another one. Returns whether there was a next
    /// one.
    pub fn write_next(&mut self, message: &mut Vec<u8>) -> bool {
        message.clear();
        let Some(rows) = self.parts.get(self.next) else { return false };
        self.writer.write(&self.columns, rows.clone(), message);
        self.next += 1;
        true
    }
}

impl Iterator for Messages {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        self.write_next(&mut message).then_some(message)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.parts.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Messages {}
