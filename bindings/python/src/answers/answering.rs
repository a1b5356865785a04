//! The classes `Query` and `Answering`.

use super::{
    errors::raise,
    estimate::{Estimate, warnings},
    input::{Delivered, Level, Messages, Stratum, columns, rows, with_bytes},
    locked::Locked,
};
use crate::{
    arguments::{number, shown},
    stub::stub,
    types::object,
};
use approx_answers::Confidence;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

#[doc = stub!(Query)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Query(approx_answers::Query);

pub fn parsed(text: &Bound<'_, PyAny>) -> PyResult<approx_answers::Query> {
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

    #[doc = stub!(Query.functions)]
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.functions.iter().map(ToString::to_string))
    }

    #[doc = stub!(Query.by)]
    #[getter]
    fn by<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.by)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<atp.answers.Query {}>", self.0)
    }
}

#[doc = stub!(Answering)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Answering(pub Locked<approx_answers::Answering>);

impl Answering {
    pub fn of(answering: approx_answers::Answering) -> Self {
        Self(Locked::new(answering))
    }
}

/// The answers of a query, as Python has them: a row for each key with an answer of each function.
pub fn answers<'py>(
    py: Python<'py>,
    query: &approx_answers::Query,
    answers: approx_answers::Answers,
) -> PyResult<Bound<'py, PyAny>> {
    let functions = answers.functions.len();
    let rows: Vec<_> =
        answers.by_key().map(|rows| row(py, rows, functions)).collect::<PyResult<_>>()?;
    object!(py, "atp._answers", "Answers" {
        rows: PyTuple::new(py, rows)?,
        functions: PyTuple::new(py, answers.functions)?,
        separates: answers.separates,
        keys_seen_from: answers.keys_seen_from,
        missing: answers.missing,
        warnings: warnings(py, &answers.warnings)?,
        query: query.to_string(),
        by: PyTuple::new(py, &query.by)?,
    })
}

/// A key, and the answer of each function for it; `None` where it has none.
fn row<'py>(
    py: Python<'py>,
    rows: &[approx_answers::Row],
    functions: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut items = vec![py.None().into_bound(py); functions + 1];
    items[0] = match rows.first().map(|row| &row.key[..]) {
        None | Some([]) => py.None().into_bound(py),
        Some([key]) => PyString::new(py, key).into_any(),
        Some(columns) => PyTuple::new(py, columns)?.into_any(),
    };
    for row in rows {
        items[row.function + 1] = Bound::new(py, Estimate(row.estimate.clone()))?.into_any();
    }
    PyTuple::new(py, items)
}

#[pymethods]
impl Answering {
    #[new]
    fn new(query: &Bound<'_, PyAny>, columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let answering = approx_answers::Answering::new(parsed(query)?, &self::columns(columns)?);
        let answering = answering.map_err(|error| raise(query.py(), error))?;
        Ok(Self(Locked::new(answering)))
    }

    #[doc = stub!(Answering.of_csv)]
    #[staticmethod]
    fn of_csv(query: &Bound<'_, PyAny>, header: &Bound<'_, PyAny>) -> PyResult<Self> {
        let parsed = parsed(query)?;
        let made = with_bytes(header, |header| approx_answers::Answering::of_csv(parsed, header))?;
        made.map(|made| Self(Locked::new(made))).map_err(|error| raise(query.py(), error))
    }

    #[doc = stub!(Answering.query)]
    #[getter]
    fn query(&self) -> Query {
        Query(self.0.lock().query().clone())
    }

    #[doc = stub!(Answering.messages)]
    #[getter]
    fn messages(&self) -> u64 {
        self.0.lock().messages()
    }

    #[doc = stub!(Answering.push_message)]
    fn push_message(&self, stratum: Stratum, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let parsed = self::rows(rows)?;
        let pushed = self.0.lock().push_message(stratum.0, parsed);
        pushed.map_err(|error| raise(rows.py(), error))
    }

    #[doc = stub!(Answering.push_csv)]
    fn push_csv(&self, stratum: Stratum, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let pushed = with_bytes(message, |message| self.0.lock().push_csv(stratum.0, message))?;
        pushed.map_err(|error| raise(message.py(), error))
    }

    #[doc = stub!(Answering.push_totals)]
    fn push_totals(&self, stratum: Stratum, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let pushed = with_bytes(message, |message| self.0.lock().push_totals(stratum.0, message))?;
        pushed.map_err(|error| raise(message.py(), error))
    }

    #[doc = stub!(Answering.set_messages_sent)]
    fn set_messages_sent(
        &self,
        py: Python<'_>,
        stratum: Stratum,
        messages: Messages,
    ) -> PyResult<()> {
        let set = self.0.lock().set_messages_sent(stratum.0, messages.0);
        set.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Answering.set_exact_records)]
    fn set_exact_records(
        &self,
        py: Python<'_>,
        stratum: Stratum,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let records = number("records", records)?;
        let set = self.0.lock().set_exact_records(stratum.0, records);
        set.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Answering.set_delivery)]
    fn set_delivery(&self, py: Python<'_>, stratum: Stratum, delivery: Delivered) -> PyResult<()> {
        let set = self.0.lock().set_delivery(stratum.0, &delivery.0);
        set.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Answering.remove_stratum)]
    fn remove_stratum(&self, stratum: Stratum) {
        self.0.lock().remove_stratum(stratum.0);
    }

    #[doc = stub!(Answering.answers)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn answers<'py>(&self, py: Python<'py>, confidence: Level) -> PyResult<Bound<'py, PyAny>> {
        let (query, made) = {
            let answering = self.0.lock();
            (answering.query().clone(), answering.answers(confidence.0))
        };
        answers(py, &query, made.map_err(|error| raise(py, error))?)
    }

    #[doc = stub!(Answering.overall)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn overall(&self, py: Python<'_>, confidence: Level) -> PyResult<Option<Estimate>> {
        let overall = self.0.lock().overall(confidence.0);
        Ok(overall.map_err(|error| raise(py, error))?.map(Estimate))
    }
}
