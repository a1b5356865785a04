//! Arguments of Python's calls, parsed with one sentence for each mistake.

use approxlib::JobId;
use pyo3::{
    exceptions::{PyException, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyString},
};
use std::time::{Duration, Instant};

/// A group's id.
#[derive(Clone, Copy, Debug)]
pub struct Group(pub u8);

impl<'py> FromPyObject<'_, 'py> for Group {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        integer("group", &object, u8::MAX.into()).map(|id| Self(id as u8))
    }
}

/// Whether to copy messages; `None` copies the short ones.
#[derive(Clone, Copy, Debug)]
pub struct Copied(pub Option<bool>);

impl<'py> FromPyObject<'_, 'py> for Copied {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        (!object.is_none()).then(|| truth("copy", &object)).transpose().map(Self)
    }
}

/// An integer from 0 to `max`.
pub fn integer(name: &str, value: &Bound<'_, PyAny>, max: u64) -> PyResult<u64> {
    // numpy's integers are no `int`, but convert to one.
    let number = unless_interrupted(value, value.call_method0("__index__"))?;
    let number = number.filter(|_| !value.is_instance_of::<PyBool>());
    let number = number.filter(|number| number.is_instance_of::<PyInt>());
    let wanted = format!("{name} must be an integer from 0 to {max}, not {}", shown(value));
    match number {
        None => Err(PyTypeError::new_err(wanted)),
        Some(number) => match number.extract::<u64>() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(PyValueError::new_err(wanted)),
        },
    }
}

/// `None` for an exception that says that the value is none of this kind.
pub fn unless_interrupted<T>(value: &Bound<'_, PyAny>, done: PyResult<T>) -> PyResult<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_instance_of::<PyException>(value.py()) => Ok(None),
        Err(interrupt) => Err(interrupt),
    }
}

/// A number, such as a sampling rate. The library checks its limits.
pub fn number(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let is_number = !value.is_instance_of::<PyBool>() && !value.is_instance_of::<PyString>();
    let number = unless_interrupted(value, value.extract::<f64>())?.filter(|_| is_number);
    number.ok_or_else(|| {
        PyTypeError::new_err(format!("{name} must be a number, not {}", shown(value)))
    })
}

pub fn truth(name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let not_bool =
        || PyTypeError::new_err(format!("{name} must be True or False, not {}", shown(value)));
    value.extract::<bool>().map_err(|_| not_bool())
}

/// A time: seconds, or a `timedelta`.
pub fn duration(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let wanted =
        || format!("{name} must be seconds or a timedelta, 0 or more, not {}", shown(value));
    let total = unless_interrupted(value, value.call_method0("total_seconds"))?;
    let seconds = number(name, total.as_ref().unwrap_or(value));
    let seconds = unless_interrupted(value, seconds)?;
    let seconds = seconds.ok_or_else(|| PyTypeError::new_err(wanted()))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| PyValueError::new_err(wanted()))
}

/// When a timeout that begins now has passed; `None` for a wait without limit, also of infinity.
pub fn deadline(timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Instant>> {
    let is_endless = |timeout: &&Bound<'_, PyAny>| timeout.eq(f64::INFINITY).unwrap_or(false);
    let timeout = timeout.filter(|timeout| !is_endless(timeout));
    let timeout = timeout.map(|timeout| duration("timeout", timeout)).transpose()?;
    Ok(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
}

/// A job's id: a number or a name.
pub fn job_id(name: &str, value: &Bound<'_, PyAny>) -> PyResult<JobId> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(JobId::from(&*text.to_cow()?));
    }
    Ok(JobId::from(integer(name, value, u32::MAX.into())? as u32))
}

/// The value in an error message, which stays one sentence.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let is_short = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    let text = value.repr().ok().map(|text| text.to_string());
    match text {
        Some(text) if is_short || text.len() <= 60 => text,
        _ => value.get_type().name().map_or("that".to_owned(), |name| format!("a value of {name}")),
    }
}
