//! Arguments of the answers: every number is checked before the crate gets it.

use crate::{
    answers::{
        errors::raise,
        value::{Value, listed, number_of},
    },
    arguments::{integer, number, shown, truth},
    buffers::{Buffer, release_pending},
    options::order,
};
use approx_answers::{Confidence, Delivery, Order};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyString,
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

/// Calls `use_it` with the bytes of a text, or of memory of any kind.
pub fn with_bytes<T>(data: &Bound<'_, PyAny>, use_it: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
    if let Ok(text) = data.cast::<PyString>() {
        return Ok(use_it(text.to_cow()?.as_bytes()));
    }
    let done = Buffer::new(data, usize::MAX).map(|bytes| use_it(bytes.as_ref()));
    release_pending(data.py());
    done
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

/// The values of rows as text: that of numbers, and none for missing ones. An array with one
/// dimension has rows of one value.
pub fn rows(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<String>>> {
    let rows = items("rows", "a list of rows, each a list of values", &listed(rows)?)?;
    let row = |(at, row): (usize, &Bound<'_, PyAny>)| {
        let text = |(column, value)| text(value, at, column);
        if row.try_iter().is_err()
            && let Some(value) = Value::of(row)?
        {
            return Ok(vec![value.text()?]);
        }
        let values = items("a row", "a list of values", &listed(row)?)?;
        values.iter().enumerate().map(text).collect::<PyResult<Vec<String>>>()
    };
    rows.iter().enumerate().map(row).collect()
}

/// A record: its key and its number.
type Record = (String, Option<f64>);

/// Keys with a number.
pub fn records(records: &Bound<'_, PyAny>) -> PyResult<Vec<Record>> {
    let record = |(at, record): (usize, &Bound<'_, PyAny>)| {
        let [key, value] = parts(record, "a record must be a key and a number")?;
        let number = number_of(|| format!("the value of record {at}"), &value)?;
        Ok((key_of(&key)?, number))
    };
    let records = items("records", "a list of keys with numbers", records)?;
    records.iter().enumerate().map(record).collect()
}

/// A record: its key, its denominator and its numerator.
type Pair = (String, Option<f64>, Option<f64>);

/// Keys with a denominator and a numerator.
pub fn pairs(records: &Bound<'_, PyAny>) -> PyResult<Vec<Pair>> {
    let record = |(at, record): (usize, &Bound<'_, PyAny>)| {
        let [key, x, y] = parts(record, "a record must be a key and two numbers")?;
        let x = number_of(|| format!("the denominator of record {at}"), &x)?;
        let y = number_of(|| format!("the numerator of record {at}"), &y)?;
        Ok((key_of(&key)?, x, y))
    };
    let records = items("records", "a list of keys with two numbers", records)?;
    records.iter().enumerate().map(record).collect()
}

/// The parts of a record: a tuple, or another sequence such as a row of an array.
fn parts<'py, const N: usize>(
    record: &Bound<'py, PyAny>,
    wanted: &str,
) -> PyResult<[Bound<'py, PyAny>; N]> {
    let error = || PyTypeError::new_err(format!("{wanted}, not {}", shown(record)));
    if record.is_instance_of::<PyString>() {
        return Err(error());
    }
    let parts: Vec<_> = record.try_iter().map_err(|_| error())?.collect::<PyResult<_>>()?;
    parts.try_into().map_err(|_| error())
}

/// A key: a text, or the text of another value.
pub fn key_of(key: &Bound<'_, PyAny>) -> PyResult<String> {
    let wanted = match Value::of(key)? {
        Some(Value::Missing) => "leave out records without a key",
        Some(value) => return value.text(),
        None => "give its text",
    };
    let shown = shown(key);
    Err(PyTypeError::new_err(format!(
        "a key must be text, a number or a time, not {shown}: {wanted}"
    )))
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

fn text(value: &Bound<'_, PyAny>, row: usize, column: usize) -> PyResult<String> {
    match Value::of(value)? {
        Some(value) => value.text(),
        None => {
            let shown = shown(value);
            Err(PyTypeError::new_err(format!(
                "a value must be text, a number, a time or missing, not {shown}: see row {row}, \
                 value {column}"
            )))
        }
    }
}
