//! Waiting without the GIL, in slices: between them Python's signal handlers run.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pyo3::prelude::*;
use std::{
    os::fd::BorrowedFd,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// The longest time without a look at signals.
pub const SLICE: Duration = Duration::from_millis(50);

/// Tries at once, and whenever the descriptor is readable, until `deadline`. A call that needn't
/// wait makes no descriptor.
pub fn until<'a, T>(
    py: Python<'_>,
    fd: impl Fn() -> PyResult<BorrowedFd<'a>>,
    deadline: Option<Instant>,
    mut attempt: impl FnMut() -> PyResult<Option<T>>,
) -> PyResult<Option<T>> {
    loop {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
        py.check_signals()?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        let (fd, slice) = (fd()?, left.map_or(SLICE, |left| left.min(SLICE)));
        py.detach(|| wait_readable(fd, slice));
    }
}

/// Tries at once, and after each millisecond: for answers that no descriptor shows.
pub fn until_given<T>(
    py: Python<'_>,
    mut attempt: impl FnMut() -> PyResult<Option<T>>,
) -> PyResult<T> {
    loop {
        if let Some(given) = attempt()? {
            return Ok(given);
        }
        py.check_signals()?;
        py.detach(|| thread::sleep(Duration::from_millis(1)));
    }
}

fn wait_readable(fd: BorrowedFd<'_>, slice: Duration) {
    let ms = PollTimeout::try_from(slice.as_millis() + 1).unwrap_or(PollTimeout::ZERO);
    // A signal ends it early, and so does an error: the next attempt tells.
    let _ = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], ms);
}

/// Runs a call that may block, such as the resolution of a name, on a thread of its own. `None` at
/// the deadline. Then, and if Python is interrupted, the thread goes on, and drops what the call
/// returns.
pub fn on_thread<T: Send + 'static>(
    py: Python<'_>,
    deadline: Option<Instant>,
    call: impl FnOnce() -> T + Send + 'static,
) -> PyResult<Option<T>> {
    let (done, mut result) = mpsc::channel();
    let thread = thread::Builder::new().name("atp-call".to_owned());
    thread.spawn(move || drop(done.send(call())))?;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        let waited = py.detach(move || (result.recv_timeout(slice), result));
        result = waited.1;
        match waited.0 {
            Ok(value) => return Ok(Some(value)),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(None);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let text = "a thread of the library ended unexpectedly";
                return Err(pyo3::exceptions::PyRuntimeError::new_err(text));
            }
        }
    }
}
