//! The classes `Record` and `Records`.

use super::{table, values};
use crate::{
    answers::{self, Answering, Batches},
    stub::stub,
};
use approx_windows::ReceivedWindow;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};
use std::sync::Arc;

#[doc = stub!(Record)]
#[pyclass(frozen, module = "atp.kafka")]
pub struct Record {
    window: Arc<ReceivedWindow>,
    group: usize,
    at: usize,
}

impl Record {
    fn record(&self) -> &approx_windows::Record {
        &self.window.groups[self.group].records[self.at]
    }
}

pub fn bytes<'py>(py: Python<'py>, bytes: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    bytes.map(|bytes| PyBytes::new(py, bytes))
}

pub fn headers<'py>(
    py: Python<'py>,
    record: &approx_windows::Record,
) -> PyResult<Bound<'py, PyTuple>> {
    let headers = record.headers.iter();
    PyTuple::new(py, headers.map(|(name, value)| (name, bytes(py, value.as_deref()))))
}

#[pymethods]
impl Record {
    #[doc = stub!(Record.offset)]
    #[getter]
    fn offset(&self) -> u64 {
        self.record().offset
    }

    #[doc = stub!(Record.timestamp)]
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values::time(py, self.record().timestamp_ms)
    }

    #[doc = stub!(Record.timestamp_ms)]
    #[getter]
    fn timestamp_ms(&self) -> Option<i64> {
        self.record().timestamp_ms
    }

    #[doc = stub!(Record.key)]
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes(py, self.record().key.as_deref())
    }

    #[doc = stub!(Record.value)]
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes(py, self.record().value.as_deref())
    }

    #[doc = stub!(Record.headers)]
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        headers(py, self.record())
    }

    #[doc = stub!(Record.group)]
    #[getter]
    fn group(&self) -> &str {
        &self.window.groups[self.group].header.name
    }

    #[doc = stub!(Record.weight)]
    #[getter]
    fn weight(&self) -> f64 {
        values::weight(&self.window.groups[self.group])
    }

    #[doc = stub!(Record.json)]
    fn json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let record = self.record();
        let Some(value) = &record.value else { return Ok(py.None().into_bound(py)) };
        let loads = py.import("json")?.getattr("loads")?;
        loads.call1((PyBytes::new(py, value),)).map_err(|error| {
            match error.is_instance_of::<PyValueError>(py) {
                true => PyValueError::new_err(format!(
                    "the value of record {} is no JSON: {}",
                    record.offset,
                    error.value(py)
                )),
                false => error,
            }
        })
    }

    fn __repr__(&self) -> String {
        let record = self.record();
        let value = record.value.as_ref().map_or("no value".to_owned(), |value| {
            let bytes = value.len();
            format!("{bytes} bytes")
        });
        format!("<atp.kafka.Record {} of group {:?}: {value}>", record.offset, self.group())
    }
}

/// The records of a window that arrived and count.
#[pyclass(frozen, module = "atp.kafka")]
pub struct Records(pub Arc<ReceivedWindow>);

impl Records {
    fn of(&self, group: usize, ats: std::ops::Range<usize>) -> impl Iterator<Item = Record> {
        ats.map(move |at| Record { window: self.0.clone(), group, at })
    }
}

#[pymethods]
impl Records {
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let groups = self.0.groups.iter().enumerate();
        let records = groups.flat_map(|(group, of)| self.of(group, 0..of.records.len()));
        let records = records.map(|record| Bound::new(py, record)).collect::<PyResult<Vec<_>>>();
        PyList::new(py, records?)
    }

    /// The sample: the group and the record, `None` for one that was counted before.
    fn sample<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u8, Option<Bound<'py, Record>>)>> {
        let mut sample = Vec::new();
        for (group, of) in self.0.groups.iter().enumerate() {
            let id = of.header.id;
            for record in self.of(group, 0..of.records.len()) {
                sample.push((id, Some(Bound::new(py, record)?)));
            }
            let before = of.arrived - of.records.len() as u64;
            sample.extend((0..before).map(|_| (id, None)));
        }
        Ok(sample)
    }

    /// A query of these columns that knows the groups.
    fn answering(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
    ) -> PyResult<Answering> {
        let (query, columns) = (answers::parsed(query)?, answers::columns(columns)?);
        let answering = self.0.answering(query, &columns);
        answering.map(Answering::of).map_err(|error| answers::raise(py, error))
    }

    /// The columns of the records as lists, in the order of `all`.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let records = || self.0.records();
        let groups = || {
            let groups = self.0.groups.iter();
            groups.flat_map(|group| group.records.iter().map(move |_| group))
        };
        columns.set_item(
            "offset",
            PyList::new(py, records().map(|r| r.offset).collect::<Vec<_>>())?,
        )?;
        let times: Vec<_> = records().map(|record| record.timestamp_ms).collect();
        columns.set_item("timestamp", PyList::new(py, times)?)?;
        let keys: Vec<_> = records().map(|record| bytes(py, record.key.as_deref())).collect();
        columns.set_item("key", PyList::new(py, keys)?)?;
        let values: Vec<_> = records().map(|record| bytes(py, record.value.as_deref())).collect();
        columns.set_item("value", PyList::new(py, values)?)?;
        let of = records().map(|record| headers(py, record)).collect::<PyResult<Vec<_>>>()?;
        columns.set_item("headers", PyList::new(py, of)?)?;
        let names: Vec<_> =
            groups().map(|group| PyString::intern(py, &group.header.name)).collect();
        columns.set_item("group", PyList::new(py, names)?)?;
        let weights: Vec<_> = groups().map(values::weight).collect();
        columns.set_item("weight", PyList::new(py, weights)?)?;
        Ok(columns)
    }

    /// A batch of Arrow with these columns.
    fn batches(&self, py: Python<'_>) -> PyResult<Batches> {
        let made = py.detach(|| table::batch(&self.0));
        let batch = made.map_err(|error| PyValueError::new_err(format!("to_arrow: {error}")))?;
        Ok(Batches::new(batch.schema(), vec![batch]))
    }
}
