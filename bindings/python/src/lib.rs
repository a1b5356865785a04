//! The native part of the Python package `atp`: approxlib's jobs and receivers as Python classes.
//!
//! Two rules keep Python and the library's threads apart:
//!
//! - A lock is never awaited with the GIL held, and the GIL never with a lock held (`guarded`).
//! - The library's threads never take the GIL. Buffers that they release wait in a queue, which
//!   Python's next call empties (`buffers`).

mod address;
mod answers;
mod arguments;
mod arrow;
mod batch;
mod buffers;
mod errors;
mod exceptions;
mod guarded;
mod job;
mod message;
mod options;
mod parts;
mod receiver;
mod sender;
mod stub;
mod turn;
mod types;
mod wait;
mod windows;

use pyo3::prelude::*;

/// The module `atp._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    guarded::notice_forks()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ZERO_COPY_BYTES", buffers::ZERO_COPY_BYTES)?;
    module.add_class::<job::Job>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<parts::Parts>()?;
    module.add_class::<receiver::Receiver>()?;
    windows::add_classes(module)?;
    answers::add_classes(module)
}
