//! The class `Frame`: a data frame as messages of whole rows.

use super::table::Division;
use crate::{
    arguments::shown,
    arrow::{is_arrow, read},
    stub::stub,
};
use approx_frames::FrameError;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyBytes, PyList, PyString},
};

#[doc = stub!(Frame)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Frame {
    pub frame: approx_frames::Frame,
    order: &'static str,
    schema: SchemaRef,
}

#[pymethods]
impl Frame {
    #[new]
    #[pyo3(signature = (data, *, rows = None, ordered = None, seed = None))]
    fn new(
        data: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        ordered: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Division { rows, of_file, order } = Division::new(rows, ordered, seed)?;
        let (schema, batches) = batches(data)?;
        let divided =
            data.py().detach(|| approx_frames::Frame::new(&schema, &batches, rows, of_file));
        divided.map(|frame| Self { frame, order, schema }).map_err(|error| refused(&error))
    }

    #[doc = stub!(Frame.followed_by)]
    #[pyo3(signature = (data, *, rows = None))]
    fn followed_by(
        &self,
        data: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Division { rows, of_file, order } =
            Division::new(rows, Some(&PyBool::new(data.py(), true)), None)?;
        let ((_, batches), schema) = (batches(data)?, self.schema.clone());
        let divided =
            data.py().detach(|| approx_frames::Frame::new(&schema, &batches, rows, of_file));
        let frame = divided.map_err(|error| match error {
            FrameError::OtherSchema { reason, .. } => PyValueError::new_err(format!(
                "a batch has other columns than the first one: {reason}"
            )),
            error => refused(&error),
        })?;
        if frame.header != self.frame.header {
            return Err(PyValueError::new_err(
                "a batch has other dictionaries (categories) than the first one: give all batches \
                 the same ones, or send plain values",
            ));
        }
        Ok(Self { frame, order, schema })
    }

    #[doc = stub!(Frame.heads)]
    #[getter]
    fn heads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let totals = self.frame.totals.to_string().into_bytes();
        PyList::new(py, [PyBytes::new(py, &self.frame.header), PyBytes::new(py, &totals)])
    }

    #[doc = stub!(Frame.messages)]
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.frame.messages().map(|message| PyBytes::new(py, &message)))
    }

    #[doc = stub!(Frame.order)]
    #[getter]
    fn order(&self) -> &'static str {
        self.order
    }

    fn __len__(&self) -> usize {
        self.frame.messages().len()
    }
}

/// The batches of a frame, of a stream, or of an iterable of them.
fn batches(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    if is_arrow(data)? {
        return read(data);
    }
    let wanted = || {
        PyTypeError::new_err(format!(
            "data must be a data frame of pandas, polars or pyarrow, anything with Arrow's \
             interface for C, or an iterable of these, not {}",
            shown(data)
        ))
    };
    if data.is_instance_of::<PyString>() {
        return Err(wanted());
    }
    let (mut schema, mut all) = (None, Vec::new());
    for item in data.try_iter().map_err(|_| wanted())? {
        let item = item?;
        if !is_arrow(&item)? {
            let shown = shown(&item);
            return Err(PyTypeError::new_err(format!(
                "batch {} must have Arrow's interface for C, not be {shown}",
                all.len()
            )));
        }
        let (of_item, batches) = read(&item)?;
        schema = schema.or(Some(of_item));
        all.extend(batches);
    }
    let none = || PyValueError::new_err("the iterable has no batch: nothing can be sent");
    Ok((schema.ok_or_else(none)?, all))
}

/// A type that can't be sent is a `TypeError`.
fn refused(error: &FrameError) -> PyErr {
    match error {
        FrameError::Type { .. } => PyTypeError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}
