//! Pickling: by the bytes that the crate states.

use pyo3::{prelude::*, types::PyType};

/// How `pickle` and `copy` make the object again: `from_bytes` of its class.
pub type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyType>,));

pub fn reduced<'py>(object: &Bound<'py, PyAny>) -> PyResult<Reduced<'py>> {
    let bytes = object.call_method0("to_bytes")?;
    let operator = object.py().import("operator")?;
    let call = operator.getattr("methodcaller")?.call1(("from_bytes", bytes))?;
    Ok((call, (object.get_type(),)))
}
