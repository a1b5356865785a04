//! The classes `GroupBy`, `Quantiles` and `Top`: answers by key.

use super::{
    errors::raise,
    estimate::{Estimate, warnings},
    input::{Delivered, Level, Messages, Stratum, key_of, pairs, records, with_bytes},
    locked::Locked,
    sample::{Sample, check_merge},
    stored::{Reduced, reduced},
};
use crate::{
    arguments::{integer, number},
    stub::stub,
    types::object,
};
use approx_answers::Confidence;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyTuple},
};

fn keys_max(keys_max: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(integer("keys_max", keys_max, u32::MAX.into())? as usize)
}

/// A class with a key limit: what the three share. `$methods` are its answers.
macro_rules! table {
    ($name:ident, $inner:ty, $push:ident, $parse:ident, $($methods:tt)*) => {
        #[doc = stub!($name)]
        #[pyclass(frozen, module = "atp.answers")]
        pub struct $name(Locked<$inner>);

        #[pymethods]
        impl $name {
            #[new]
            fn new(keys_max: &Bound<'_, PyAny>) -> PyResult<Self> {
                Ok(Self(Locked::new(<$inner>::new(self::keys_max(keys_max)?))))
            }

            #[doc = stub!($name.messages)]
            #[getter]
            fn messages(&self) -> u64 {
                self.0.lock().all().messages()
            }

            #[doc = stub!($name.missing)]
            #[getter]
            fn missing(&self) -> u64 {
                self.0.lock().missing()
            }

            #[doc = stub!($name.$push)]
            fn $push(&self, stratum: Stratum, records: &Bound<'_, PyAny>) -> PyResult<()> {
                let parsed = self::$parse(records)?;
                let pushed = self.0.lock().$push(stratum.0, parsed);
                pushed.map_err(|error| raise(records.py(), error))
            }

            #[doc = stub!($name.set_messages_sent)]
            fn set_messages_sent(
                &self,
                py: Python<'_>,
                stratum: Stratum,
                messages: Messages,
            ) -> PyResult<()> {
                let set = self.0.lock().set_messages_sent(stratum.0, messages.0);
                set.map_err(|error| raise(py, error))
            }

            #[doc = stub!($name.set_exact_records)]
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

            #[doc = stub!($name.set_delivery)]
            fn set_delivery(
                &self,
                py: Python<'_>,
                stratum: Stratum,
                delivery: Delivered,
            ) -> PyResult<()> {
                let set = self.0.lock().set_delivery(stratum.0, &delivery.0);
                set.map_err(|error| raise(py, error))
            }

            #[doc = stub!($name.all)]
            fn all(&self) -> Sample {
                Sample(Locked::new(self.0.lock().all().clone()))
            }

            #[doc = stub!($name.from_bytes)]
            #[staticmethod]
            fn from_bytes(data: &Bound<'_, PyAny>) -> PyResult<Self> {
                let read = with_bytes(data, <$inner>::from_bytes)?;
                let made = read.map(|table| Self(Locked::new(table)));
                made.map_err(|error| raise(data.py(), error))
            }

            #[doc = stub!($name.to_bytes)]
            fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.lock().to_bytes())
            }

            fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
                reduced(slf)
            }

            #[doc = stub!($name.merge)]
            fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
                check_merge(slf.is(other))?;
                let other = other.get().0.copied();
                let merged = slf.get().0.lock().merge(&other);
                merged.map_err(|error| raise(slf.py(), error))
            }

            $($methods)*
        }
    };
}

table! { GroupBy, approx_answers::GroupBy<String>, push_pairs, pairs,
    #[doc = stub!(GroupBy.uncounted_records)]
    #[getter]
    fn uncounted_records(&self) -> u64 {
        self.0.lock().uncounted_records()
    }

    #[doc = stub!(GroupBy.push_message)]
    fn push_message(&self, stratum: Stratum, records: &Bound<'_, PyAny>) -> PyResult<()> {
        let parsed = self::records(records)?;
        let pushed = self.0.lock().push_message(stratum.0, parsed);
        pushed.map_err(|error| raise(records.py(), error))
    }

    #[doc = stub!(GroupBy.keys)]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let keys: Vec<String> = self.0.lock().keys().into_iter().cloned().collect();
        PyTuple::new(py, keys)
    }

    #[doc = stub!(GroupBy.warnings)]
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.0.lock().warnings();
        warnings(py, &found)
    }

    #[doc = stub!(GroupBy.sum)]
    #[pyo3(signature = (key, confidence = Level(Confidence::P95)))]
    fn sum(&self, key: &Bound<'_, PyAny>, confidence: Level) -> PyResult<Estimate> {
        let name = key_of(key)?;
        let answer = self.0.lock().sum(&name, confidence.0);
        answer.map(Estimate).map_err(|error| raise(key.py(), error))
    }

    #[doc = stub!(GroupBy.count)]
    #[pyo3(signature = (key, confidence = Level(Confidence::P95)))]
    fn count(&self, key: &Bound<'_, PyAny>, confidence: Level) -> PyResult<Estimate> {
        let name = key_of(key)?;
        let answer = self.0.lock().count(&name, confidence.0);
        answer.map(Estimate).map_err(|error| raise(key.py(), error))
    }

    #[doc = stub!(GroupBy.mean)]
    #[pyo3(signature = (key, confidence = Level(Confidence::P95)))]
    fn mean(&self, key: &Bound<'_, PyAny>, confidence: Level) -> PyResult<Estimate> {
        let name = key_of(key)?;
        let answer = self.0.lock().mean(&name, confidence.0);
        answer.map(Estimate).map_err(|error| raise(key.py(), error))
    }
}

table! { Quantiles, approx_answers::Quantiles<String>, push_message, records,
    #[doc = stub!(Quantiles.keys)]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let keys: Vec<String> = self.0.lock().keys().into_iter().cloned().collect();
        PyTuple::new(py, keys)
    }

    #[doc = stub!(Quantiles.warnings)]
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = self.0.lock().warnings();
        warnings(py, &found)
    }

    #[doc = stub!(Quantiles.quantile)]
    #[pyo3(signature = (key, rank, confidence = Level(Confidence::P95)))]
    fn quantile(
        &self,
        key: &Bound<'_, PyAny>,
        rank: &Bound<'_, PyAny>,
        confidence: Level,
    ) -> PyResult<Estimate> {
        let (name, rank) = (key_of(key)?, number("rank", rank)?);
        let answer = self.0.lock().quantile(&name, rank, confidence.0);
        answer.map(Estimate).map_err(|error| raise(key.py(), error))
    }
}

table! { Top, approx_answers::Top<String>, push_message, records,
    #[doc = stub!(Top.largest)]
    #[pyo3(signature = (ranks, confidence = Level(Confidence::P95)))]
    fn largest<'py>(
        &self,
        ranks: &Bound<'py, PyAny>,
        confidence: Level,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = ranks.py();
        let ranks = integer("ranks", ranks, u32::MAX.into())? as usize;
        let ranking = self.0.lock().largest(ranks, confidence.0);
        let ranking = ranking.map_err(|error| raise(py, error))?;
        let ranks: Vec<_> =
            ranking.ranks.into_iter().map(|(key, total)| (key, Estimate(total))).collect();
        object!(py, "atp._answers", "Ranking" {
            ranks: PyTuple::new(py, ranks)?,
            gap: ranking.gap.map(Estimate),
            separates: ranking.separates,
            warnings: warnings(py, &ranking.warnings)?,
        })
    }
}
