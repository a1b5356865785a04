//! Writes the messages of a table in Arrow's IPC format.

use crate::FrameError;
use arrow_array::RecordBatch;
use arrow_ipc::{
    MetadataVersion,
    writer::{
        DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
        write_message,
    },
};

/// The most bytes of all dictionaries of a table.
pub const DICTIONARIES_BYTES_MAX: usize = 8 << 20;
/// The least alignment of buffers, for short messages.
const ALIGNMENT: usize = 8;

/// Writes messages of one table, whose dictionaries are in its header.
pub struct Writer {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl Writer {
    /// Begins with the header of a table: its schema, and the dictionaries of its columns.
    pub fn new(batch: &RecordBatch) -> Result<(Self, Vec<u8>), FrameError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let mut writer = Self {
            generator: IpcDataGenerator::default(),
            // Every batch of the table has the same dictionaries.
            dictionaries: DictionaryTracker::new(true),
            options,
            context: IpcWriteContext::default(),
        };
        let schema = writer.generator.schema_to_bytes_with_dictionary_tracker(
            batch.schema_ref(),
            &mut writer.dictionaries,
            &writer.options,
        );
        let mut header = Vec::new();
        writer.append(&mut header, schema)?;
        let of_schema = header.len();
        for dictionary in writer.encode(&batch.slice(0, 0))?.0 {
            writer.append(&mut header, dictionary)?;
        }
        let (bytes, limit) = (header.len() - of_schema, DICTIONARIES_BYTES_MAX);
        if bytes > limit {
            return Err(FrameError::Dictionaries { bytes, limit });
        }
        Ok((writer, header))
    }

    /// A message with these rows.
    pub fn message(&mut self, rows: &RecordBatch) -> Result<Vec<u8>, FrameError> {
        let (_, encoded) = self.encode(rows)?;
        let mut message = Vec::with_capacity(encoded.ipc_message.len() + encoded.arrow_data.len());
        self.append(&mut message, encoded)?;
        Ok(message)
    }

    fn encode(
        &mut self,
        rows: &RecordBatch,
    ) -> Result<(Vec<EncodedData>, EncodedData), FrameError> {
        let Self { generator, dictionaries, options, context } = self;
        Ok(generator.encode(rows, dictionaries, options, context)?)
    }

    fn append(&self, message: &mut Vec<u8>, encoded: EncodedData) -> Result<(), FrameError> {
        write_message(message, encoded, &self.options)?;
        Ok(())
    }
}
