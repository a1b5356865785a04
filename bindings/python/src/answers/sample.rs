//! The class `Sample`.

use super::{
    errors::raise,
    estimate::Estimate,
    input::{Delivered, Level, Messages, Stratum, with_bytes},
    locked::Locked,
    stored::{Reduced, reduced},
    value::number_of,
};
use crate::arguments::{integer, number};
use crate::stub::stub;
use approx_answers::{AnswerError, Confidence};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyBytes};

#[doc = stub!(Sample)]
#[pyclass(frozen, module = "atp.answers")]
pub struct Sample(pub Locked<approx_answers::Sample>);

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
        Self(Locked::new(approx_answers::Sample::new()))
    }

    #[doc = stub!(Sample.messages)]
    #[getter]
    fn messages(&self) -> u64 {
        self.0.lock().messages()
    }

    #[doc = stub!(Sample.messages_sent)]
    #[getter]
    fn messages_sent(&self) -> Option<u64> {
        self.0.lock().messages_sent()
    }

    #[doc = stub!(Sample.missing)]
    #[getter]
    fn missing(&self) -> u64 {
        self.0.lock().missing()
    }

    #[doc = stub!(Sample.push)]
    fn push(
        &self,
        py: Python<'_>,
        stratum: Stratum,
        records: &Bound<'_, PyAny>,
        total: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let records = integer("records", records, u64::MAX)?;
        let pushed = match number_of(|| "total".to_owned(), total)? {
            Some(total) => self.0.lock().push(stratum.0, records, total),
            None => self.0.lock().push_missing(stratum.0, records),
        };
        pushed.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Sample.push_pair)]
    fn push_pair(
        &self,
        py: Python<'_>,
        stratum: Stratum,
        denominator: &Bound<'_, PyAny>,
        numerator: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let x = number_of(|| "denominator".to_owned(), denominator)?;
        let y = number_of(|| "numerator".to_owned(), numerator)?;
        let pushed = match x.zip(y) {
            Some((x, y)) => self.0.lock().push_pair(stratum.0, x, y),
            None => self.0.lock().push_missing(stratum.0, 1),
        };
        pushed.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Sample.set_messages_sent)]
    fn set_messages_sent(
        &self,
        py: Python<'_>,
        stratum: Stratum,
        messages: Messages,
    ) -> PyResult<()> {
        let set = self.0.lock().set_messages_sent(stratum.0, messages.0);
        set.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Sample.set_exact_records)]
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

    #[doc = stub!(Sample.set_delivery)]
    fn set_delivery(&self, py: Python<'_>, stratum: Stratum, delivery: Delivered) -> PyResult<()> {
        let set = self.0.lock().set_delivery(stratum.0, &delivery.0);
        set.map_err(|error| raise(py, error))
    }

    #[doc = stub!(Sample.from_bytes)]
    #[staticmethod]
    fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = with_bytes(data, approx_answers::Sample::from_bytes)?;
        read.map(|sample| Self(Locked::new(sample))).map_err(|error| raise(data.py(), error))
    }

    #[doc = stub!(Sample.to_bytes)]
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.lock().to_bytes())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        reduced(slf)
    }

    #[doc = stub!(Sample.merge)]
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        check_merge(slf.is(other))?;
        let other = other.get().0.copied();
        let merged = slf.get().0.lock().merge(&other);
        merged.map_err(|error| raise(slf.py(), error))
    }

    #[doc = stub!(Sample.sum)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn sum(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        let made = self.0.lock().sum(confidence.0);
        answer(py, made)
    }

    #[doc = stub!(Sample.count)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn count(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        let made = self.0.lock().count(confidence.0);
        answer(py, made)
    }

    #[doc = stub!(Sample.mean)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn mean(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        let made = self.0.lock().mean(confidence.0);
        answer(py, made)
    }

    #[doc = stub!(Sample.ratio)]
    #[pyo3(signature = (confidence = Level(Confidence::P95)))]
    fn ratio(&self, py: Python<'_>, confidence: Level) -> PyResult<Estimate> {
        let made = self.0.lock().ratio(confidence.0);
        answer(py, made)
    }
}
