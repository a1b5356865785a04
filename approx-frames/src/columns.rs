//! The types that columns may have in messages.

use crate::FrameError;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use std::sync::Arc;

/// The nesting of a column that is sent.
pub const DEPTH_MAX: usize = 16;

/// The schema in messages: the types of views become those of plain values, as a view's buffers
/// can't be divided.
///
/// # Errors
/// A type has no place in messages.
pub fn wire_schema(schema: &Schema) -> Result<Schema, FrameError> {
    if schema.fields().is_empty() {
        return Err(FrameError::NoColumn);
    }
    let fields = wire_fields(schema.fields(), "", 0)?;
    Ok(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch with the columns of [`wire_schema`].
pub fn wire_batch(batch: &RecordBatch, schema: &Arc<Schema>) -> Result<RecordBatch, FrameError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn wire_fields(fields: &Fields, path: &str, depth: usize) -> Result<Fields, FrameError> {
    fields.iter().map(|field| wire_field(field, path, depth)).collect()
}

fn wire_field(field: &FieldRef, path: &str, depth: usize) -> Result<FieldRef, FrameError> {
    let path = match path {
        "" => field.name().clone(),
        path => format!("{path}.{}", field.name()),
    };
    let kind = wire_type(field.data_type(), &path, depth)?;
    Ok(match kind == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(kind)),
    })
}

fn wire_type(kind: &DataType, path: &str, depth: usize) -> Result<DataType, FrameError> {
    let refused =
        |remedy| Err(FrameError::Type { column: path.to_owned(), kind: kind.to_string(), remedy });
    if depth > DEPTH_MAX {
        return refused("nest it less deeply");
    }
    let nested = |field: &FieldRef| wire_field(field, path, depth + 1);
    Ok(match kind {
        DataType::Utf8View => DataType::LargeUtf8,
        DataType::BinaryView => DataType::LargeBinary,
        DataType::List(field) => DataType::List(nested(field)?),
        DataType::LargeList(field) => DataType::LargeList(nested(field)?),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(nested(field)?, *len),
        DataType::Map(field, sorted) => DataType::Map(nested(field)?, *sorted),
        DataType::Struct(fields) => DataType::Struct(wire_fields(fields, path, depth + 1)?),
        DataType::Dictionary(key, value) if is_plain(value) => {
            DataType::Dictionary(key.clone(), Box::new(wire_type(value, path, depth)?))
        }
        DataType::Dictionary(..) => return refused("give its dictionary plain values"),
        DataType::ListView(_) | DataType::LargeListView(_) => return refused("cast it to a list"),
        DataType::RunEndEncoded(..) => return refused("send its plain values"),
        DataType::Union(..) => return refused("divide it into columns of one type each"),
        plain => plain.clone(),
    })
}

/// Whether values of the type hold no others, and aren't in a dictionary of their own.
pub fn is_plain(kind: &DataType) -> bool {
    !kind.is_nested() && !matches!(kind, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
}
