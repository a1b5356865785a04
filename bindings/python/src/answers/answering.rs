//! The classes `Query` and `Answering`.

use super::{
    errors::raise,
    estimate::{Estimate, warnings},
    input::{Delivered, Level, Messages, Stratum, columns, rows},
};
use crate::{arguments::shown, types::object};
use approx_answers::Confidence;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyTuple},
};

/// A query of one table.
#[pyclass(frozen, module = "atp.answers")]
pub struct Query(approx_answers::Query);

fn parsed(text: &Bound<'_, PyAny>) -> PyResult<approx_answers::Query> {
    if let Ok(query) = text.cast::<Query>() {
        return Ok(query.get().0.clone());
    }
    let wanted = || PyTypeError::new_err(format!("a query must be text, not {}", shown(text)));
    let query = text.extract::<String>().map_err(|_| wanted())?.parse();
    query.map_err(|error: approx_answers::QueryError| raise(text.py(), error))
}

#[pymethods]
impl Query {
    #[new]
    fn new(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        parsed(text).map(Self)
    }

    /// The column of the keys.
    #[getter]
    fn by(&self) -> Option<&str> {
        self.0.by.as_deref()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<atp.answers.Query {}>", self.0)
    }
}

/// The answer of a query, at any time of its job.
#[pyclass(module = "atp.answers")]
pub struct Answering(approx_answers::Answering);

#[pymethods]
impl Answering {
    #[new]
    fn new(query: &Bound<'_, PyAny>, columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let answering = approx_answers::Answering::new(parsed(query)?, &self::columns(columns)?);
        answering.map(Self).map_err(|error| raise(query.py(), error))
    }

    #[getter]
    fn query(&self) -> Query {
        Query(self.0.query().clone())
    }

    #[getter]
    fn messages(&self) -> u64 {
        self.0.messages()
    }

    fn push_message(&mut self, stratum: Stratum, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let pushed = self.0.push_message(stratum.0, self::rows(rows)?);
        pushed.map_err(|error| raise(rows.py(), error))
    }

    fn set_messages_sent(
        &mut self,
        py: Python<'_>,
        stratum: Stratum,
        messages: Messages,
    ) -> PyResult<()> {
        let set = self.0.set_messages_sent(stratum.0, messages.0);
        set.map_err(|error| raise(py, error))
    }

    fn set_delivery(&mut self, delivery: Delivered) {
        self.0.set_delivery(delivery.0);
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn answers<'py>(&self, py: Python<'py>, confidence: Level) -> PyResult<Bound<'py, PyAny>> {
        let answers = self.0.answers(confidence.0).map_err(|error| raise(py, error))?;
        let rows: Vec<_> =
            answers.rows.into_iter().map(|(key, answer)| (key, Estimate(answer))).collect();
        object!(py, "atp._answers", "Answers" {
            rows: PyTuple::new(py, rows)?,
            separates: answers.separates,
            warnings: warnings(py, &answers.warnings)?,
        })
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn overall(&self, py: Python<'_>, confidence: Level) -> PyResult<Option<Estimate>> {
        let overall = self.0.overall(confidence.0).map_err(|error| raise(py, error))?;
        Ok(overall.map(Estimate))
    }
}
