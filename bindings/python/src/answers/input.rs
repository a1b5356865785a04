//! Arguments of the answers: every number is checked before the crate gets it.

use crate::{
    answers::errors::raise,
    arguments::{integer, number, shown, truth},
    options::order,
};
use approx_answers::{Confidence, Delivery, Order};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyString},
};
use std::ops::Range;

/// A stratum's number.
#[derive(Clone, Copy, Debug)]
pub struct Stratum(pub u32);

impl<'py> FromPyObject<'_, 'py> for Stratum {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        integer("stratum", &object, u32::MAX.into()).map(|number| Self(number as u32))
    }
}

/// A number of messages, of which a group has as many as an u32 counts.
#[derive(Clone, Copy, Debug)]
pub struct Messages(pub u64);

impl<'py> FromPyObject<'_, 'py> for Messages {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        integer("messages", &object, u32::MAX.into()).map(Self)
    }
}

/// A level of confidence.
#[derive(Clone, Copy, Debug)]
pub struct Level(pub Confidence);

impl<'py> FromPyObject<'_, 'py> for Level {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let level = Confidence::new(number("confidence", &object)?);
        level.map(Self).map_err(|error| raise(object.py(), error))
    }
}

/// How the messages of a stratum were sent: of an `atp.answers.Delivery`.
pub struct Delivered(pub Delivery);

impl<'py> FromPyObject<'_, 'py> for Delivered {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let field = |name| {
            object.getattr(name).map_err(|_| {
                let shown = shown(&object);
                PyTypeError::new_err(format!(
                    "delivery must be an atp.answers.Delivery, not {shown}"
                ))
            })
        };
        let buffer = field("shuffle_buffer")?;
        let buffer = match buffer.is_none() {
            true => None,
            false => Some(integer("shuffle_buffer", &buffer, u32::MAX.into())? as u32),
        };
        let order = match order(&field("order")?, buffer)? {
            approxlib::Order::Unknown => Order::Unknown,
            approxlib::Order::Ordered => Order::Ordered,
            approxlib::Order::Shuffled { buffer } => {
                Order::Shuffled { buffer: buffer.map(u64::from) }
            }
        };
        let shortest_first = truth("shortest_first", &field("shortest_first")?)?;
        let lost = field("lost")?;
        let lost = match lost.is_none() {
            true => None,
            false => Some(ranges(&lost)?),
        };
        Ok(Self(Delivery { order, shortest_first, lost }))
    }
}

/// Ids as ascending ranges.
fn ranges(ranges: &Bound<'_, PyAny>) -> PyResult<Vec<Range<u64>>> {
    let mut before = 0;
    let range = |range: &Bound<'_, PyAny>| {
        let end = |name: &str| range.getattr(name).and_then(|end| end.extract::<u64>());
        match (end("start"), end("stop")) {
            (Ok(start), Ok(stop)) if before <= start && start <= stop => {
                before = stop;
                Ok(start..stop)
            }
            _ => Err(PyValueError::new_err(format!(
                "lost must hold ranges of ids in ascending order, not {}",
                shown(range)
            ))),
        }
    };
    items("lost", "a list of ranges", ranges)?.iter().map(range).collect()
}

/// A share, such as a MSR.
pub fn share(name: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let share = number(name, value)?;
    let wanted = || format!("{name} must lie between 0 and 1, not {}", shown(value));
    (0.0..=1.0).contains(&share).then_some(share).ok_or_else(|| PyValueError::new_err(wanted()))
}

/// The names of columns.
pub fn columns(columns: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let names = columns.extract::<Vec<String>>();
    names.map_err(|_| {
        let shown = shown(columns);
        PyTypeError::new_err(format!("columns must be a list of names, not {shown}"))
    })
}

/// The values of rows as text: that of numbers, and none for `None`.
pub fn rows(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<String>>> {
    items("rows", "a list of rows, each a list of values", rows)?
        .iter()
        .map(|row| {
            let values = items("a row", "a list of values", row)?;
            values.iter().map(text).collect::<PyResult<Vec<String>>>()
        })
        .collect()
}

/// Pairs of a key and a number.
pub fn records(records: &Bound<'_, PyAny>) -> PyResult<Vec<(String, f64)>> {
    let record = |record: &Bound<'_, PyAny>| {
        let (key, value) =
            record.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().map_err(|_| {
                let shown = shown(record);
                PyTypeError::new_err(format!("a record must be a key and a number, not {shown}"))
            })?;
        Ok((key_of(&key)?, number("the value of a record", &value)?))
    };
    let records = items("records", "a list of keys with numbers", records)?;
    records.iter().map(record).collect()
}

/// Keys with a denominator and a numerator.
pub fn pairs(records: &Bound<'_, PyAny>) -> PyResult<Vec<(String, f64, f64)>> {
    let record = |record: &Bound<'_, PyAny>| {
        type Three<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
        let (key, x, y) = record.extract::<Three<'_>>().map_err(|_| {
            let shown = shown(record);
            PyTypeError::new_err(format!("a record must be a key and two numbers, not {shown}"))
        })?;
        Ok((key_of(&key)?, number("a denominator", &x)?, number("a numerator", &y)?))
    };
    let records = items("records", "a list of keys with two numbers", records)?;
    records.iter().map(record).collect()
}

pub fn key_of(key: &Bound<'_, PyAny>) -> PyResult<String> {
    let wanted = || PyTypeError::new_err(format!("a key must be text, not {}", shown(key)));
    key.extract().map_err(|_| wanted())
}

fn items<'py>(
    name: &str,
    what: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let wanted = || PyTypeError::new_err(format!("{name} must be {what}, not {}", shown(value)));
    if value.is_instance_of::<PyString>() {
        return Err(wanted());
    }
    value.try_iter().map_err(|_| wanted())?.collect()
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is_number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
    if value.is_none() {
        Ok(String::new())
    } else if value.is_instance_of::<PyString>() {
        value.extract()
    } else if is_number && !value.is_instance_of::<PyBool>() {
        value.str()?.extract()
    } else if let Some(number) = scalar(value)? {
        number.str()?.extract()
    } else {
        let shown = shown(value);
        Err(PyTypeError::new_err(format!("a value must be text, a number or None, not {shown}")))
    }
}

/// The `int` or `float` of another type's number, such as a scalar of numpy.
fn scalar<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let numbers = value.py().import("numbers")?;
    if value.is_instance_of::<PyBool>() || !value.is_instance(&numbers.getattr("Real")?)? {
        return Ok(None);
    }
    let is_integer = value.is_instance(&numbers.getattr("Integral")?)?;
    let method = if is_integer { "__index__" } else { "__float__" };
    value.call_method0(method).map(Some)
}
