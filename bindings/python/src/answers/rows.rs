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
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyCapsule, PyDict, PyTuple},
};

/// Record batches of one schema.
#[pyclass(frozen, module = "atp._native")]
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
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

fn read(stream: &[u8]) -> Result<Batches, ArrowError> {
    let reader = StreamReader::try_new(stream, None)?;
    Ok(Batches { schema: reader.schema(), batches: reader.collect::<Result<_, _>>()? })
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
