//! Reads the messages of a table.

use crate::{FrameError, batch_check, columns::is_plain, schema_check};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::{Message, MetadataVersion, convert::fb_to_schema, reader, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::{collections::HashMap, sync::Arc};

/// Begins each message of Arrow's IPC format. No text in UTF-8 begins so.
pub const MARKER: [u8; 4] = [0xff; 4];
/// The marker, and the length of the metadata.
pub const PREFIX_BYTES: usize = 8;

/// The columns of a table, and the reader of its messages.
#[derive(Clone, Debug)]
pub struct FrameReader {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
}

/// A part of a message: its metadata, and its body.
struct Part<'a> {
    message: Message<'a>,
    body: &'a [u8],
}

impl FrameReader {
    /// Whether a header is one of Arrow's, and not of CSV.
    pub fn is_header(header: &[u8]) -> bool {
        header.starts_with(&MARKER)
    }

    /// Reads the header of a table, as [`Frame::header`](crate::Frame::header) has it. The bytes may
    /// be anybody's.
    ///
    /// # Errors
    /// It is no header.
    pub fn new(header: &[u8]) -> Result<Self, FrameError> {
        let (part, mut rest) = next_part(header)?;
        let Some(schema) = part.message.header_as_schema() else {
            return Err(FrameError::message("the header has no schema"));
        };
        schema_check::check(schema)?;
        let schema = Arc::new(fb_to_schema(schema));
        let mut dictionaries = HashMap::new();
        while !rest.is_empty() {
            let (part, after) = next_part(rest)?;
            read_dictionary(&part, &schema, &mut dictionaries)?;
            rest = after;
        }
        Ok(Self { schema, dictionaries })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the rows of a message. The bytes may be anybody's.
    ///
    /// # Errors
    /// It is no message of this table.
    pub fn read(&self, message: &[u8]) -> Result<RecordBatch, FrameError> {
        let (part, rest) = next_part(message)?;
        let Some(batch) = part.message.header_as_record_batch() else {
            return Err(FrameError::message("a message has no rows"));
        };
        if !rest.is_empty() {
            return Err(FrameError::message("a message has bytes after its rows"));
        }
        batch_check::check(batch, &self.schema, part.body.len())?;
        let Self { schema, dictionaries } = self;
        let (body, version) = (part.body.into(), part.message.version());
        let schema = Arc::clone(schema);
        reader::read_record_batch(&body, batch, schema, dictionaries, None, &version)
            .map_err(|error| of_arrow(&error))
    }
}

/// Reads a part, and what follows it.
fn next_part(bytes: &[u8]) -> Result<(Part<'_>, &[u8]), FrameError> {
    let too_short = || FrameError::message("a message is cut off");
    let (prefix, rest) = bytes.split_at_checked(PREFIX_BYTES).ok_or_else(too_short)?;
    let (marker, len) = prefix.split_at(MARKER.len());
    if marker != MARKER {
        return Err(FrameError::message("a message begins with other bytes"));
    }
    let len = len.try_into().map(u32::from_le_bytes).unwrap_or_default();
    let (metadata, rest) = rest.split_at_checked(len as usize).ok_or_else(too_short)?;
    let message = root_as_message(metadata)
        .map_err(|_| FrameError::message("the description of a message is damaged"))?;
    if message.version() != MetadataVersion::V5 {
        return Err(FrameError::message("a message is of another version than 5"));
    }
    let body_bytes = usize::try_from(message.bodyLength()).map_err(|_| too_short())?;
    let (body, rest) = rest.split_at_checked(body_bytes).ok_or_else(too_short)?;
    Ok((Part { message, body }, rest))
}

/// Reads a dictionary of the header: a batch of one column.
fn read_dictionary(
    part: &Part<'_>,
    schema: &Schema,
    dictionaries: &mut HashMap<i64, ArrayRef>,
) -> Result<(), FrameError> {
    let Some(dictionary) = part.message.header_as_dictionary_batch() else {
        return Err(FrameError::message("the header has more than a schema and dictionaries"));
    };
    let id = dictionary.id();
    if dictionary.isDelta() || dictionaries.contains_key(&id) {
        return Err(FrameError::message("the header has two dictionaries of a column"));
    }
    let fields = fields_of_dictionary(schema, id);
    let (Some(values), Some(batch)) = (values_of(&fields), dictionary.data()) else {
        return Err(FrameError::message("the header has a dictionary of no column"));
    };
    let of_values = Schema::new(vec![Field::new("", values, true)]);
    batch_check::check(batch, &of_values, part.body.len())?;
    let (body, version) = (part.body.into(), part.message.version());
    reader::read_dictionary(&body, dictionary, schema, dictionaries, &version)
        .map_err(|error| of_arrow(&error))
}

/// The fields with this dictionary, nested ones included.
fn fields_of_dictionary(schema: &Schema, id: i64) -> Vec<&Field> {
    #[expect(deprecated, reason = "there is no other way to an identifier of IPC")]
    schema.fields_with_dict_id(id)
}

/// The type of the values of these fields, which have the same dictionary.
fn values_of(fields: &[&Field]) -> Option<DataType> {
    let mut kinds = fields.iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, values) if is_plain(values) => Some(DataType::clone(values)),
        _ => None,
    });
    let first = kinds.next()??;
    kinds.all(|kind| kind.as_ref() == Some(&first)).then_some(first)
}

/// An error of Arrow's reader, in one line.
fn of_arrow(error: &ArrowError) -> FrameError {
    FrameError::message(error.to_string().replace(char::is_control, " "))
}
