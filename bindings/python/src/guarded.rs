//! A value of the library behind a lock, as Python's threads use it.

use crate::{buffers, exceptions};
use pyo3::prelude::*;
use std::{
    io,
    mem::ManuallyDrop,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU32, Ordering},
    },
};

/// How often this process and its parents have forked.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on.
pub fn notice_forks() -> io::Result<()> {
    // SAFETY: the handler only writes an atomic, which is allowed in a forked child.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A value that ends at some time, and that only the process that made it may use: its threads
/// don't exist in a forked child, and its locks may be held there for ever.
#[derive(Debug)]
pub struct Guarded<T: Send + 'static> {
    /// "job" or "receiver"
    what: &'static str,
    forks: u32,
    value: ManuallyDrop<Mutex<Option<T>>>,
}

impl<T: Send> Guarded<T> {
    pub fn new(what: &'static str, value: T) -> Self {
        let value = ManuallyDrop::new(Mutex::new(Some(value)));
        Self { what, forks: FORKS.load(Ordering::Relaxed), value }
    }

    /// Calls `short` with the value. It must not wait: if no other thread uses the value, it runs
    /// with the GIL held.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        short: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        buffers::release_pending(py);
        let done = match self.value.try_lock() {
            Ok(mut value) => value.as_mut().map(short),
            Err(TryLockError::Poisoned(value)) => value.into_inner().as_mut().map(short),
            Err(TryLockError::WouldBlock) => py.detach(|| self.lock().as_mut().map(short)),
        };
        done.ok_or_else(|| exceptions::closed(self.what))
    }

    /// Calls `long` with the value and without the GIL.
    pub fn with_detached<R: Send>(
        &self,
        py: Python<'_>,
        long: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        self.check_process()?;
        buffers::release_pending(py);
        let done = py.detach(|| self.lock().as_mut().map(long));
        done.ok_or_else(|| exceptions::closed(self.what))
    }

    /// Takes the value if `long`, which runs without the GIL, says that it has ended.
    pub fn take_ended<R: Send>(
        &self,
        py: Python<'_>,
        long: impl FnOnce(&mut T) -> Option<R> + Send,
    ) -> PyResult<Option<(R, T)>> {
        self.check_process()?;
        buffers::release_pending(py);
        let taken = py.detach(|| {
            let mut value = self.lock();
            let ended = value.as_mut().map(long)?;
            Some(ended.and_then(|ended| Some((ended, value.take()?))))
        });
        taken.ok_or_else(|| exceptions::closed(self.what))
    }

    /// Takes the value; `None` if it has ended before.
    pub fn take(&self, py: Python<'_>) -> PyResult<Option<T>> {
        self.check_process()?;
        Ok(py.detach(|| self.lock().take()))
    }

    pub fn has_ended(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_process()?;
        Ok(py.detach(|| self.lock().is_none()))
    }

    /// Refuses the use in a forked child.
    pub fn check_process(&self) -> PyResult<()> {
        if self.is_of_this_process() { Ok(()) } else { Err(exceptions::forked(self.what)) }
    }

    pub fn is_of_this_process(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Drop for Guarded<T> {
    fn drop(&mut self) {
        // A forked child must leave the value alone.
        if !self.is_of_this_process() {
            return;
        }
        // SAFETY: the field isn't used after this line.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        let value = value.into_inner().unwrap_or_else(PoisonError::into_inner);
        if value.is_some() {
            // Dropping waits for a thread of the library.
            let mut value = Some(value);
            Python::try_attach(|py| py.detach(|| drop(value.take())));
        }
    }
}
