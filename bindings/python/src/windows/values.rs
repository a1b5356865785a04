//! Values of records that windows have, too.

use approx_windows::ReceivedGroup;
use pyo3::prelude::*;

/// The records that each one of a group stands for.
pub fn weight(group: &ReceivedGroup) -> f64 {
    group.header.records as f64 / group.arrived as f64
}

/// A time with a zone; `None` also beyond Python's years.
pub fn time(py: Python<'_>, time_ms: Option<i64>) -> PyResult<Bound<'_, PyAny>> {
    match time_ms {
        None => Ok(py.None().into_bound(py)),
        Some(time_ms) => py.import("atp._windows")?.call_method1("time_of", (time_ms,)),
    }
}
