//! Writes the messages of a table in Arrow's IPC format.

use crate::{
    FrameError,
    body::{ALIGNMENT, Body, Layout},
    reader::{MARKER, PREFIX_BYTES},
};
use arrow_array::{Array, RecordBatch};
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

/// Writes messages of one table, whose dictionaries are in its header.
pub struct Writer<'a> {
    columns: Vec<ArrayData>,
    body: Body,
    /// That of the last message, and its metadata: the messages of numbers have the same.
    layout: Layout,
    metadata: Vec<u8>,
    builder: FlatBufferBuilder<'a>,
}

impl Writer<'_> {
    /// Begins with the header of a table: its schema, and the dictionaries of its columns.
    pub fn new(table: &RecordBatch) -> Result<(Self, Vec<u8>), FrameError> {
        let columns = table.columns().iter().map(|column| column.to_data()).collect();
        let (body, layout) = (Body::default(), Layout::default());
        let builder = FlatBufferBuilder::new();
        let writer = Self { columns, body, layout, metadata: Vec::new(), builder };
        Ok((writer, header(table)?))
    }

    /// A message with these rows.
    pub fn message(&mut self, rows: Range<usize>) -> Vec<u8> {
        self.body.write(&self.columns, rows);
        if self.layout != self.body.layout || self.metadata.is_empty() {
            self.layout.clone_from(&self.body.layout);
            self.write_metadata();
        }
        [&self.metadata[..], &self.body.bytes].concat()
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

fn header(table: &RecordBatch) -> Result<Vec<u8>, FrameError> {
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
