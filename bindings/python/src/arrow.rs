//! Data frames of other Python libraries, by [Arrow's PyCapsule interface][spec].
//!
//! A capsule holds a C struct of another extension. Its pointers must be trusted; its values are
//! checked before safe code reads them.
//!
//! [spec]: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html

use crate::arguments::shown;
use arrow_array::{
    Array, RecordBatch, RecordBatchIterator, RecordBatchOptions, StructArray,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type},
    ffi_stream::FFI_ArrowArrayStream,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyCapsule,
};
use std::{
    ffi::{CStr, c_int, c_void},
    ptr::NonNull,
    sync::Arc,
};

const STREAM: (&str, &CStr) = ("__arrow_c_stream__", c"arrow_array_stream");
const SCHEMA: (&str, &CStr) = ("__arrow_c_array__", c"arrow_schema");
const ARRAY: (&str, &CStr) = ("__arrow_c_array__", c"arrow_array");

/// Whether [`read`] can read it.
pub fn is_arrow(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(data.hasattr(STREAM.0)? || data.hasattr(ARRAY.0)?)
}

/// The rows of a stream, or of one batch. The GIL stays attached: the producer may be Python code.
pub fn read(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    if data.hasattr(STREAM.0)? {
        let capsule = data.call_method0(STREAM.0)?;
        // SAFETY: a capsule of this name holds a stream, which a consumer moves out.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(content(&capsule, STREAM)?.as_ptr()) };
        return read_stream(data.py(), stream);
    }
    let returned = data.call_method0(ARRAY.0)?;
    let pair = returned.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>();
    let wanted = |_| {
        let shown = shown(&returned);
        PyTypeError::new_err(format!("{} must return two capsules, not {shown}", ARRAY.0))
    };
    let (schema, array) = pair.map_err(wanted)?;
    let (schema, array) = (content(&schema, SCHEMA)?, content(&array, ARRAY)?);
    // SAFETY: capsules of these names hold a schema and an array, which a consumer moves out.
    let (schema, array) = unsafe { (moved(schema), FFI_ArrowArray::from_raw(array.as_ptr())) };
    let schema = schema.filter(|_| !array.is_released()).ok_or_else(|| consumed(ARRAY.0))?;
    let schema = columns(&schema)?;
    let batch = rows(array, &schema)?;
    Ok((schema, vec![batch]))
}

/// The rows as a capsule for [`STREAM`]. It releases them if no consumer took them.
pub fn export(
    py: Python<'_>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> PyResult<Bound<'_, PyCapsule>> {
    // Consumers trust the stream's schema.
    if let Some(other) = batches.iter().find(|batch| batch.schema_ref().fields() != schema.fields())
    {
        let other = other.schema_ref();
        return Err(PyValueError::new_err(format!(
            "a batch has the columns {other}, not {schema}"
        )));
    }
    let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM.1)
}

/// The C struct in the capsule that a method returned.
fn content<T>(returned: &Bound<'_, PyAny>, (method, name): (&str, &CStr)) -> PyResult<NonNull<T>> {
    let capsule = returned.cast::<PyCapsule>().ok();
    let content = capsule.and_then(|capsule| capsule.pointer_checked(Some(name)).ok());
    content.map(NonNull::cast).ok_or_else(|| {
        let shown = shown(returned);
        PyTypeError::new_err(format!("{method} must return a capsule {name:?}, not {shown}"))
    })
}

// `moved` counts words.
const _: () = assert!(size_of::<i64>() == size_of::<*const c_void>());

/// The schema, unless somebody took it before.
///
/// # Safety
/// It points to a schema.
unsafe fn moved(schema: NonNull<FFI_ArrowSchema>) -> Option<FFI_ArrowSchema> {
    // The callback `release` follows seven fields of a word each, and is null in a released schema.
    // SAFETY: the caller's.
    let release = unsafe { schema.cast::<*const c_void>().add(7).read() };
    // SAFETY: the caller's.
    (!release.is_null()).then(|| unsafe { FFI_ArrowSchema::from_raw(schema.as_ptr()) })
}

fn read_stream(
    py: Python<'_>,
    mut stream: FFI_ArrowArrayStream,
) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let (Some(get_schema), Some(get_next), Some(_)) =
        (stream.get_schema, stream.get_next, stream.release)
    else {
        return Err(consumed(STREAM.0));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream isn't released, and its callbacks are called by one thread.
    match unsafe { get_schema(&mut stream, &mut schema) } {
        0 => {}
        code => return Err(stopped(&mut stream, code)),
    }
    let schema = columns(&schema)?;
    let mut batches = Vec::new();
    loop {
        // A generator may have no end.
        py.check_signals()?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above.
        match unsafe { get_next(&mut stream, &mut array) } {
            0 if array.is_released() => return Ok((schema, batches)),
            0 => batches.push(rows(array, &schema)?),
            code => return Err(stopped(&mut stream, code)),
        }
    }
}

/// The columns of a C schema.
fn columns(schema: &FFI_ArrowSchema) -> PyResult<SchemaRef> {
    if schema.format() != "+s" {
        let of = DataType::try_from(schema).map_err(failed)?;
        return Err(PyTypeError::new_err(format!("data must have columns, not be of type {of}")));
    }
    let column = |column: &FFI_ArrowSchema| {
        Field::try_from(column).map(FieldRef::new).map_err(|error| {
            let name = column.name().unwrap_or("");
            PyTypeError::new_err(format!("column {name:?}: {error}"))
        })
    };
    let fields = schema.children().map(column).collect::<PyResult<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields).with_metadata(schema.metadata().map_err(failed)?)))
}

/// The batch in a C array of these columns.
fn rows(array: FFI_ArrowArray, schema: &SchemaRef) -> PyResult<RecordBatch> {
    let columns = DataType::Struct(schema.fields().clone());
    // SAFETY: an array that isn't released, of the type that its producer stated.
    let data = unsafe { from_ffi_and_data_type(array, columns) }.map_err(failed)?;
    // Offsets, keys of dictionaries and UTF-8: safe code takes them to be valid.
    data.validate_full().map_err(failed)?;
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        return Err(PyValueError::new_err("reading the frame: a row is missing as a whole"));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = rows.into_parts().1;
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(failed)
}

/// The error of a stream's callback.
fn stopped(stream: &mut FFI_ArrowArrayStream, code: c_int) -> PyErr {
    // SAFETY: the stream isn't released, and its last callback failed.
    let text = stream.get_last_error.map(|get_last_error| unsafe { get_last_error(stream) });
    let text = text.filter(|text| !text.is_null());
    // SAFETY: a string that is there until the next callback.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
    PyValueError::new_err(match text {
        // pyarrow appends Python's traceback.
        Some(text) => {
            let text = text.split(". Detail: ").next().unwrap_or_default();
            format!("reading the frame: {text}")
        }
        None => format!("reading the frame: its stream failed with error {code}"),
    })
}

fn failed(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("reading the frame: {error}"))
}

fn consumed(method: &str) -> PyErr {
    PyValueError::new_err(format!("{method} returned what was read before: return a new capsule"))
}
