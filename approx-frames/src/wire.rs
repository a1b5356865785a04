//! Writes the messages of a table in Arrow's IPC format.

use crate::{
    FrameError,
    body::{ALIGNMENT, Body, Layout},
    reader::{MARKER, PREFIX_BYTES},
};
use arrow_array::RecordBatch;
use arrow_data::ArrayData;
use arrow_ipc::{
    MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
    writer::{
        DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
        write_message,
    },
};
use flatbuffers::FlatBufferBuilder;
use std::ops::Range;

/// The most bytes of all dictionaries of a table.
pub const DICTIONARIES_BYTES_MAX: usize = 8 << 20;

/// Writes messages of one table.
#[derive(Default)]
pub struct Writer {
    body: Body,
    /// That of the last message, and its metadata: the messages of numbers have the same.
    layout: Layout,
    metadata: Vec<u8>,
    builder: FlatBufferBuilder<'static>,
}

impl Writer {
    /// The bytes before the columns in a message with these rows.
    pub fn metadata_bytes(&mut self, columns: &[ArrayData], rows: Range<usize>) -> usize {
        self.prepare(columns, rows);
        self.metadata.len()
    }

    /// Appends a message with these rows.
    pub fn write(&mut self, columns: &[ArrayData], rows: Range<usize>, message: &mut Vec<u8>) {
        self.prepare(columns, rows);
        message.reserve_exact(self.metadata.len() + self.body.bytes.len());
        message.extend_from_slice(&self.metadata);
        message.extend_from_slice(&self.body.bytes);
    }

    fn prepare(&mut self, columns: &[ArrayData], rows: Range<usize>) {
        self.body.write(columns, rows);
        if self.layout != self.body.layout || self.metadata.is_empty() {
            self.layout.clone_from(&self.body.layout);
            self.write_metadata();
        }
    }

    /// Writes the part before the columns.
    fn write_metadata(&mut self) {
        let Self { builder, layout, .. } = self;
        // In the order of Arrow's writer.
        let buffers = builder.create_vector(&layout.buffers);
        let nodes = builder.create_vector(&layout.nodes);
        let mut batch = RecordBatchBuilder::new(builder);
        batch.add_length(layout.rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        let batch = batch.finish().as_union_value();
        let mut message = MessageBuilder::new(builder);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_bodyLength(self.body.bytes.len() as i64);
        message.add_header(batch);
        let message = message.finish();
        builder.finish(message, None);
        let description = builder.finished_data();
        let end = (PREFIX_BYTES + description.len()).next_multiple_of(ALIGNMENT);
        self.metadata.clear();
        self.metadata.extend_from_slice(&MARKER);
        self.metadata.extend_from_slice(&((end - PREFIX_BYTES) as u32).to_le_bytes());
        self.metadata.extend_from_slice(description);
        self.metadata.resize(end, 0);
        builder.reset();
    }
}

/// The header of a table: its schema, and the dictionaries of its columns.
pub fn header(table: &RecordBatch) -> Result<Vec<u8>, FrameError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let (generator, mut context) = (IpcDataGenerator::default(), IpcWriteContext::default());
    // Every batch of the table has the same dictionaries.
    let mut dictionaries = DictionaryTracker::new(true);
    let mut header = Vec::new();
    let append = |header: &mut Vec<u8>, encoded: EncodedData| {
        write_message(header, encoded, &options).map(drop)
    };
    let schema = generator.schema_to_bytes_with_dictionary_tracker(
        table.schema_ref(),
        &mut dictionaries,
        &options,
    );
    append(&mut header, schema)?;
    let of_schema = header.len();
    let no_rows = table.slice(0, 0);
    let (values, _) = generator.encode(&no_rows, &mut dictionaries, &options, &mut context)?;
    for dictionary in values {
        append(&mut header, dictionary)?;
    }
    let (bytes, limit) = (header.len() - of_schema, DICTIONARIES_BYTES_MAX);
    if bytes > limit {
        return Err(FrameError::Dictionaries { bytes, limit });
    }
    Ok(header)
}
