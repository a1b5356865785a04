//! The rows that a receiver got, for data frames of other libraries.

use crate::{
    address, arrow,
    types::{object, tuple},
};
use approx_session::{ReceivedRows, Sender};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict, PyTuple},
};

/// Record batches of one schema.
#[pyclass(frozen, module = "atp")]
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
