//! The class `Sample`.

use super::{
    errors::raise,
    estimate::Estimate,
    input::{Delivered, Level, Messages, Stratum},
};
use crate::arguments::{integer, number};
use approx_answers::{AnswerError, Confidence};
use pyo3::{exceptions::PyValueError, prelude::*};

/// The messages of a job that arrived, summed up.
#[pyclass(module = "atp.answers")]
pub struct Sample(approx_answers::Sample);

/// Refuses to count a part twice.
pub fn check_merge(is_same: bool) -> PyResult<()> {
    let text = "no message may be in both parts: a part can't be merged with itself";
    if is_same { Err(PyValueError::new_err(text)) } else { Ok(()) }
}

fn answer(
    py: Python<'_>,
    answer: Result<approx_answers::Estimate, AnswerError>,
) -> PyResult<Estimate> {
    answer.map(Estimate).map_err(|error| raise(py, error))
}

#[pymethods]
impl Sample {
    #[new]
    fn new() -> Self {
        Self(approx_answers::Sample::new())
    }

    #[getter]
    fn messages(&self) -> u64 {
        self.0.messages()
    }

    #[getter]
    fn messages_sent(&self) -> Option<u64> {
        self.0.messages_sent()
    }

    fn push(
        &mut self,
        py: Python<'_>,
        stratum: Stratum,
        records: &Bound<'_, PyAny>,
        total: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (records, total) = (integer("records", records, u64::MAX)?, number("total", total)?);
        self.0.push(stratum.0, records, total).map_err(|error| raise(py, error))
    }

    fn push_pair(
        &mut self,
        py: Python<'_>,
        stratum: Stratum,
        denominator: &Bound<'_, PyAny>,
        numerator: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (x, y) = (number("denominator", denominator)?, number("numerator", numerator)?);
        self.0.push_pair(stratum.0, x, y).map_err(|error| raise(py, error))
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

    fn set_exact_records(
        &mut self,
        py: Python<'_>,
        stratum: Stratum,
        records: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let set = self.0.set_exact_records(stratum.0, number("records", records)?);
        set.map_err(|error| raise(py, error))
    }

    fn set_delivery(&mut self, delivery: Delivered) {
        self.0.set_delivery(delivery.0);
    }

    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        check_merge(slf.is(other))?;
        let merged = slf.try_borrow_mut()?.0.merge(&other.try_borrow()?.0);
        merged.map_err(|error| raise(slf.py(), error))
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn sum(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        answer(py, self.0.sum(confidence.0))
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn count(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        answer(py, self.0.count(confidence.0))
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn mean(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        answer(py, self.0.mean(confidence.0))
    }

    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn ratio(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        answer(py, self.0.ratio(confidence.0))
    }
}
