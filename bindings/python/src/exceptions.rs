//! Exceptions of `atp/_errors.py`: those of the package's own, and how to make any.

use approx_windows::StateError;
use pyo3::{
    prelude::*,
    types::{PyDict, PyRange, PyTuple},
};

/// The use of a job or receiver that has ended.
pub fn closed(what: &str) -> PyErr {
    own("ClosedError", format!("the {what} has ended: open another one"))
}

/// The use of a job or receiver in a forked child.
pub fn forked(what: &str) -> PyErr {
    let text = format!(
        "the {what} belongs to the process that opened it, not to this fork: open another one here"
    );
    own("ForkedError", text)
}

/// The use of a message after `Receiver.recycle`.
pub fn recycled() -> PyErr {
    own("ClosedError", "the message's memory was given back by Receiver.recycle".to_owned())
}

/// A batch that the job has taken, but not in a row.
pub fn split() -> PyErr {
    let text = "the job has taken the batch, but its ids aren't in a row, because a window ended or \
                try_send_many was used meanwhile: send_parts tells all ids";
    own("SplitError", text.to_owned())
}

/// A call that has reached its timeout. `sent`: the ids of the messages that the job has taken.
pub fn timed_out(py: Python<'_>, text: &str, sent: Vec<Bound<'_, PyRange>>) -> PyErr {
    let attributes = PyDict::new(py);
    let sent = PyTuple::new(py, sent).and_then(|sent| attributes.set_item("sent", sent));
    let made = sent.and_then(|()| make(py, "TimedOutError", text.to_owned(), &attributes));
    made.unwrap_or_else(|error| error)
}

/// The state of a receiver of windows can't be read or written.
pub fn state_failed(py: Python<'_>, error: &StateError) -> PyErr {
    let attributes = PyDict::new(py);
    let errno = match error {
        StateError::Io { source, .. } => source.raw_os_error(),
        StateError::Damaged { .. } | StateError::Locked { .. } => None,
    };
    let set = attributes.set_item("errno", errno);
    let made = set.and_then(|()| make(py, "StateError", error.to_string(), &attributes));
    made.unwrap_or_else(|error| error)
}

fn own(class: &str, text: String) -> PyErr {
    Python::attach(|py| make(py, class, text, &PyDict::new(py)).unwrap_or_else(|error| error))
}

/// An exception of `atp._errors`.
pub fn make(
    py: Python<'_>,
    class: &str,
    text: String,
    attributes: &Bound<'_, PyDict>,
) -> PyResult<PyErr> {
    let error = py.import("atp._errors")?.getattr(class)?.call1((text,))?;
    for (name, value) in attributes {
        error.setattr(name.extract::<String>()?.as_str(), value)?;
    }
    Ok(PyErr::from_value(error))
}

/// Whether it is one of the package's exceptions.
pub fn is_own(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    Ok(error.matches(py, py.import("atp._errors")?.getattr("Error")?)?)
}
