//! The class `Table`: a CSV file as messages of whole records.

use super::input::with_bytes;
use crate::arguments::{integer, shown, truth};
use crate::stub::stub;
use approx_answers::RecordOrder;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyList},
};

#[doc = stub!(Table)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Table {
    table: approx_answers::Table,
    order: &'static str,
}

#[pymethods]
impl Table {
    /// The group of the records.
    #[classattr]
    const ROWS_GROUP: u8 = approx_answers::Table::ROWS_GROUP;
    /// The group of the header and of the totals.
    #[classattr]
    const HEADER_GROUP: u8 = approx_answers::Table::HEADER_GROUP;
    /// The message of the header in its group.
    #[classattr]
    const HEADER_MESSAGE: u32 = approx_answers::Table::HEADER_MESSAGE;
    /// The message of the totals in that group.
    #[classattr]
    const TOTALS_MESSAGE: u32 = approx_answers::Table::TOTALS_MESSAGE;

    #[new]
    #[pyo3(signature = (csv, *, rows = None, ordered = None, seed = None))]
    fn new(
        csv: &Bound<'_, PyAny>,
        rows: Option<&Bound<'_, PyAny>>,
        ordered: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Division { rows, of_file, order } = Division::new(rows, ordered, seed)?;
        let table = with_bytes(csv, |csv| approx_answers::Table::read(csv, rows, of_file))?;
        let table = table.map_err(|error| PyValueError::new_err(with_source(&error)))?;
        Ok(Self { table, order })
    }

    #[doc = stub!(Table.header)]
    #[getter]
    fn header<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.table.header)
    }

    #[doc = stub!(Table.heads)]
    #[getter]
    fn heads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.table.heads().iter().map(|head| PyBytes::new(py, head)))
    }

    #[doc = stub!(Table.messages)]
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.table.messages.iter().map(|message| PyBytes::new(py, message)))
    }

    #[doc = stub!(Table.order)]
    #[getter]
    fn order(&self) -> &'static str {
        self.order
    }

    #[doc = stub!(Table.long_records)]
    #[getter]
    fn long_records(&self) -> u64 {
        self.table.long_records.number
    }

    #[doc = stub!(Table.note)]
    #[getter]
    fn note(&self) -> Option<String> {
        self.table.note()
    }

    fn __len__(&self) -> usize {
        self.table.messages.len()
    }
}

/// How a table is divided into messages.
pub struct Division {
    pub rows: Option<u32>,
    pub of_file: RecordOrder,
    /// The order's name.
    pub order: &'static str,
}

impl Division {
    /// From the arguments `rows`, `ordered` and `seed`.
    pub fn new(
        rows: Option<&Bound<'_, PyAny>>,
        ordered: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let ordered = ordered.map(|on| truth("ordered", on)).transpose()?.unwrap_or(false);
        let seed = seed.map(|seed| integer("seed", seed, u64::MAX)).transpose()?;
        let rows = match rows {
            None => None,
            Some(rows) => match integer("rows", rows, u32::MAX.into())? {
                0 => {
                    let shown = shown(rows);
                    let text = format!("rows must be 1 at least, not {shown}");
                    return Err(PyValueError::new_err(text));
                }
                rows => Some(rows as u32),
            },
        };
        let (of_file, order) = match (ordered, seed) {
            (true, None) => (RecordOrder::OfFile, "ordered"),
            (true, Some(_)) => {
                return Err(PyValueError::new_err("ordered records need no seed"));
            }
            (false, None) => (RecordOrder::Shuffled, "shuffled"),
            (false, Some(seed)) => (RecordOrder::ShuffledBy(seed), "shuffled"),
        };
        Ok(Self { rows, of_file, order })
    }
}

/// An error with what caused it.
fn with_source(error: &approx_answers::TableError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
