//! The rows that a receiver got, for data frames of other libraries.

use super::{
    input::with_bytes,
    stored::{Reduced, reduced},
};
use crate::{
    address, arrow,
    stub::stub,
    types::{object, tuple},
};
use approx_session::{ReceivedRows, Sender};
use arrow_array::RecordBatch;
use arrow_ipc::{reader::StreamReader, root_as_message, writer::StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyCapsule, PyDict, PyTuple},
};
use std::panic;

/// Record batches of one schema.
#[pyclass(frozen, module = "atp._native")]
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl Batches {
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.schema.fields().iter().map(|field| field.name()))
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// A stream of the batches. Each call makes another one, without copying values.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore it: consumers cast.
        let _ = requested_schema;
        arrow::export(py, self.schema.clone(), self.batches.clone())
    }

    #[doc = stub!(Batches.to_bytes)]
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let stream = py.detach(|| written(&self.schema, &self.batches));
        stream.map(|stream| PyBytes::new(py, &stream)).map_err(|error| failed(&error))
    }

    #[doc = stub!(Batches.from_bytes)]
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        with_bytes(data, read)?.map_err(|error| failed(&error))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        reduced(slf)
    }
}

fn written(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.into_inner()
}

/// Reads a stream. Arrow's reader takes its lengths for granted: it would allocate any, and panic
/// at ends of columns beyond those of their messages.
fn read(stream: &[u8]) -> Result<Batches, ArrowError> {
    check_lengths(stream).ok_or_else(|| ArrowError::IpcError("a message is cut off".into()))?;
    let read = || {
        let reader = StreamReader::try_new(stream, None)?;
        Ok(Batches { schema: reader.schema(), batches: reader.collect::<Result<_, _>>()? })
    };
    panic::catch_unwind(read)
        .unwrap_or_else(|_| Err(ArrowError::IpcError("a message is damaged".into())))
}

/// `None` for a stream that ends within a message.
fn check_lengths(mut stream: &[u8]) -> Option<()> {
    while !stream.is_empty() {
        let (prefix, rest) = stream.split_at_checked(8)?;
        let bytes: [u8; 4] = prefix.strip_prefix(&[0xff; 4])?.try_into().ok()?;
        let (metadata, rest) = rest.split_at_checked(u32::from_le_bytes(bytes) as usize)?;
        if metadata.is_empty() {
            break;
        }
        let body_bytes = root_as_message(metadata).ok()?.bodyLength();
        stream = rest.split_at_checked(usize::try_from(body_bytes).ok()?)?.1;
    }
    Some(())
}

fn failed(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the bytes of rows: {error}"))
}

/// The rows at the end of a session.
pub fn rows(py: Python<'_>, rows: ReceivedRows) -> PyResult<Bound<'_, PyAny>> {
    let ReceivedRows { schema, batches, senders, verdict, notes, left_out } = rows;
    let of_sender = |py, sender: &Sender| {
        object!(py, "atp._rows", "Sender" {
            source: address::pair(sender.source),
            job: sender.job,
            messages: sender.messages,
            messages_sent: sender.messages_sent,
        })
    };
    object!(py, "atp._rows", "Rows" {
        batches: Bound::new(py, Batches { schema, batches })?,
        senders: tuple(py, &senders, of_sender)?,
        verdict: verdict.name(),
        warnings: PyTuple::new(py, notes)?,
        messages_left_out: left_out,
    })
}
