//! Values of rows, of any library's types. Types are known by their methods, so that the package
//! needs neither numpy nor pandas.

use crate::arguments::{shown, unless_interrupted};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyString, PyTuple},
};

/// A value of a row.
pub enum Value<'py> {
    /// `None`, NaN, and what pandas and numpy have for a missing value.
    Missing,
    /// An `int`, a `float` or a `Decimal`; a duration as its seconds.
    Number(Bound<'py, PyAny>),
    Text(String),
    /// A date or a time, as text in ISO 8601.
    Time(String),
}

impl<'py> Value<'py> {
    /// `None` for an object of another kind.
    pub fn of(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if value.is_none() {
            Ok(Some(Self::Missing))
        } else if value.is_instance_of::<PyString>() {
            Ok(Some(Self::Text(value.extract()?)))
        } else if value.is_exact_instance_of::<PyInt>() {
            Ok(Some(Self::Number(value.clone())))
        } else if value.is_instance_of::<PyInt>() {
            // A bool is 1 or 0.
            Ok(Some(Self::Number(value.call_method0("__index__")?)))
        } else if value.is_instance_of::<PyFloat>() {
            Ok(Some(Self::of_float(value.clone())?))
        } else {
            Self::of_library(value)
        }
    }

    /// A value of a type that isn't built in.
    fn of_library(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let kind = value.get_type();
        let name = kind.name()?;
        let is_of_pandas = || Ok::<_, PyErr>(kind.module()?.to_cow()?.starts_with("pandas."));
        if (name == "NAType" || name == "NaTType") && is_of_pandas()? {
            Ok(Some(Self::Missing))
        } else if value.hasattr("total_seconds")? {
            Self::of_float(value.call_method0("total_seconds")?).map(Some)
        } else if value.hasattr("isoformat")? {
            Ok(Some(Self::Time(value.call_method0("isoformat")?.extract()?)))
        } else if value.hasattr("dtype")? {
            Self::of_numpy(value)
        } else if name == "Decimal" && value.hasattr("is_nan")? {
            let is_missing = value.call_method0("is_nan")?.is_truthy()?;
            Ok(Some(if is_missing { Self::Missing } else { Self::Number(value.clone()) }))
        } else {
            Self::of_other(value)
        }
    }

    /// A scalar of numpy or a like library, or an array without dimensions.
    fn of_numpy(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Some(kind) = type_code(value)? else { return Self::of_other(value) };
        if !value.getattr("shape")?.eq(PyTuple::empty(value.py()))? {
            return Ok(None);
        }
        let scalar = value.get_item(PyTuple::empty(value.py()))?;
        // NaT is no time that equals itself.
        let is_missing = || scalar.ne(&scalar);
        Ok(Some(match kind {
            'b' => Self::Number(
                PyBool::new(value.py(), scalar.is_truthy()?).call_method0("__index__")?,
            ),
            'i' | 'u' => Self::Number(scalar.call_method0("__index__")?),
            'f' => Self::of_float(scalar.call_method0("__float__")?)?,
            'M' | 'm' if is_missing()? => Self::Missing,
            'M' => Self::Time(scalar.str()?.extract()?),
            // A year has no number of seconds.
            'm' => match scalar.div(scalar.get_type().call1((1, "s"))?) {
                Ok(seconds) => Self::of_float(seconds)?,
                Err(_) => return Ok(None),
            },
            'U' => Self::Text(scalar.extract()?),
            _ => return Ok(None),
        }))
    }

    /// Another type's number, such as a `Fraction`.
    fn of_other(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Some(number) = unless_interrupted(value, value.call_method0("__index__"))? {
            return Ok(Some(Self::Number(number)));
        }
        let number = unless_interrupted(value, value.call_method0("__float__"))?;
        number.map(Self::of_float).transpose()
    }

    fn of_float(number: Bound<'py, PyAny>) -> PyResult<Self> {
        let is_nan = number.extract::<f64>()?.is_nan();
        Ok(if is_nan { Self::Missing } else { Self::Number(number) })
    }

    /// The value as text: none if it is missing.
    pub fn text(self) -> PyResult<String> {
        match self {
            Self::Missing => Ok(String::new()),
            Self::Number(number) => number.str()?.extract(),
            Self::Text(text) | Self::Time(text) => Ok(text),
        }
    }
}

/// The letter that numpy has for the kind of a type: `None` if the object isn't one of numpy's.
fn type_code(value: &Bound<'_, PyAny>) -> PyResult<Option<char>> {
    let Some(dtype) = value.getattr_opt("dtype")? else { return Ok(None) };
    let Some(kind) = dtype.getattr_opt("kind")? else { return Ok(None) };
    Ok(kind.extract::<char>().ok())
}

/// An array of numbers as a list, which has the same numbers: reading each of numpy's is slow.
pub fn listed<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let is_of_numbers = matches!(type_code(values)?, Some('b' | 'i' | 'u' | 'f'));
    match is_of_numbers && values.hasattr("tolist")? {
        true => values.call_method0("tolist"),
        false => Ok(values.clone()),
    }
}

/// The number of a record; `None` if it is missing. `name` says in errors which one it is.
pub fn number_of(name: impl FnOnce() -> String, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let remedy = match Value::of(value)? {
        Some(Value::Missing) => return Ok(None),
        Some(Value::Number(number)) => {
            // An integer beyond all floats is too large for the crate, too.
            let is_below_zero = || number.lt(0).map(|is_below| if is_below { -1.0 } else { 1.0 });
            return match number.extract() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Ok(Some(is_below_zero()? * f64::INFINITY)),
            };
        }
        Some(Value::Time(_)) => ": give a time as seconds since one that you choose",
        Some(Value::Text(_)) | None => "",
    };
    let shown = shown(value);
    Err(PyTypeError::new_err(format!("{} must be a number, not {shown}{remedy}", name())))
}
