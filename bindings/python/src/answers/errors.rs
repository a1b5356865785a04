//! Errors of approx-answers as Python's exceptions.

use crate::exceptions::make;
use approx_answers::{AnswerError, QueryError};
use pyo3::{prelude::*, types::PyDict};

/// The crate's error in its exception, so that a planner knows it again.
#[pyclass(frozen, module = "atp.answers")]
pub struct Cause(AnswerError);

pub fn raise(py: Python<'_>, error: impl Into<QueryError>) -> PyErr {
    let error = error.into();
    let attributes = PyDict::new(py);
    let text = error.to_string();
    let made = match error {
        QueryError::Answer(error) => attributes
            .set_item("_native", Bound::new(py, Cause(error)).ok())
            .and_then(|()| make(py, "AnswerError", text, &attributes)),
        _ => make(py, "QueryError", text, &attributes),
    };
    made.unwrap_or_else(|error| error)
}

/// The crate's error of an exception that `raise` made.
pub fn cause(py: Python<'_>, error: &PyErr) -> Option<AnswerError> {
    let cause = error.value(py).getattr("_native").ok()?;
    Some(cause.cast::<Cause>().ok()?.get().0.clone())
}
