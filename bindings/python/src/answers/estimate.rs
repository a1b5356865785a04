//! The class `Estimate`.

use approx_answers::Warning;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyTuple},
};

use super::{
    errors::raise,
    input::with_bytes,
    stored::{Reduced, reduced},
};
use crate::arguments::number;
use crate::stub::stub;

#[doc = stub!(Estimate)]
#[derive(Clone)]
#[pyclass(frozen, from_py_object, module = "atp.answers")]
pub struct Estimate(pub approx_answers::Estimate);

/// The texts of warnings.
pub fn warnings<'py>(py: Python<'py>, warnings: &[Warning]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, warnings.iter().map(Warning::to_string))
}

#[pymethods]
impl Estimate {
    #[doc = stub!(Estimate.value)]
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }

    #[doc = stub!(Estimate.low)]
    #[getter]
    fn low(&self) -> f64 {
        self.0.low
    }

    #[doc = stub!(Estimate.high)]
    #[getter]
    fn high(&self) -> f64 {
        self.0.high
    }

    #[doc = stub!(Estimate.half_width)]
    #[getter]
    fn half_width(&self) -> f64 {
        self.0.half_width()
    }

    #[doc = stub!(Estimate.reach)]
    #[getter]
    fn reach(&self) -> f64 {
        self.0.reach()
    }

    #[doc = stub!(Estimate.brief)]
    #[getter]
    fn brief(&self) -> String {
        self.0.brief(2)
    }

    #[doc = stub!(Estimate.standard_error)]
    #[getter]
    fn standard_error(&self) -> f64 {
        self.0.standard_error()
    }

    #[doc = stub!(Estimate.confidence)]
    #[getter]
    fn confidence(&self) -> f64 {
        self.0.confidence.level()
    }

    #[doc = stub!(Estimate.bound)]
    #[getter]
    fn bound(&self) -> Option<String> {
        self.0.bound().map(|bound| bound.to_string())
    }

    #[doc = stub!(Estimate.degrees_of_freedom)]
    #[getter]
    fn degrees_of_freedom(&self) -> f64 {
        self.0.degrees_of_freedom
    }

    #[doc = stub!(Estimate.messages)]
    #[getter]
    fn messages(&self) -> u64 {
        self.0.messages
    }

    #[doc = stub!(Estimate.messages_sent)]
    #[getter]
    fn messages_sent(&self) -> Option<u64> {
        self.0.messages_sent
    }

    #[doc = stub!(Estimate.warnings)]
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        warnings(py, &self.0.warnings)
    }

    #[doc = stub!(Estimate.contains)]
    fn contains(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.0.contains(number("value", value)?))
    }

    #[doc = stub!(Estimate.from_bytes)]
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = with_bytes(data, approx_answers::Estimate::from_bytes)?;
        read.map(Self).map_err(|error| raise(data.py(), error))
    }

    #[doc = stub!(Estimate.to_bytes)]
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        reduced(slf)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<atp.answers.Estimate {}>", self.0)
    }
}
