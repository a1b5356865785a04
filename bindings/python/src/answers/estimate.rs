//! The class `Estimate`.

use approx_answers::Warning;
use pyo3::{prelude::*, types::PyTuple};

use crate::arguments::number;

/// An answer with its interval.
#[derive(Clone)]
#[pyclass(frozen, from_py_object, module = "atp.answers")]
pub struct Estimate(pub approx_answers::Estimate);

/// The texts of warnings.
pub fn warnings<'py>(py: Python<'py>, warnings: &[Warning]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, warnings.iter().map(Warning::to_string))
}

#[pymethods]
impl Estimate {
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }

    #[getter]
    fn low(&self) -> f64 {
        self.0.low
    }

    #[getter]
    fn high(&self) -> f64 {
        self.0.high
    }

    #[getter]
    fn half_width(&self) -> f64 {
        self.0.half_width()
    }

    #[getter]
    fn reach(&self) -> f64 {
        self.0.reach()
    }

    #[getter]
    fn standard_error(&self) -> f64 {
        self.0.standard_error()
    }

    #[getter]
    fn confidence(&self) -> f64 {
        self.0.confidence.level()
    }

    /// The side on which the answer bounds that of all rows.
    #[getter]
    fn bound(&self) -> Option<String> {
        self.0.bound().map(|bound| bound.to_string())
    }

    #[getter]
    fn degrees_of_freedom(&self) -> f64 {
        self.0.degrees_of_freedom
    }

    #[getter]
    fn messages(&self) -> u64 {
        self.0.messages
    }

    #[getter]
    fn messages_sent(&self) -> Option<u64> {
        self.0.messages_sent
    }

    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        warnings(py, &self.0.warnings)
    }

    fn contains(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.0.contains(number("value", value)?))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<atp.answers.Estimate {}>", self.0)
    }
}
