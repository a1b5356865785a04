//! Turns: batches of several threads go into a job one after another, each with ids in a row.

use crate::wait::SLICE;
use pyo3::prelude::*;
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

#[derive(Debug, Default)]
pub struct Turn {
    is_taken: Mutex<bool>,
    freed: Condvar,
}

/// A turn, until it is dropped.
pub struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn without the GIL; `None` at the deadline. Python's signal handlers run
    /// meanwhile.
    pub fn wait(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Option<Taken<'_>>> {
        if let Some(taken) = self.try_take() {
            return Ok(Some(taken));
        }
        loop {
            if let Some(taken) = py.detach(|| self.wait_slice()) {
                return Ok(Some(taken));
            }
            py.check_signals()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
        }
    }

    fn try_take(&self) -> Option<Taken<'_>> {
        let mut is_taken = self.is_taken.try_lock().ok().filter(|is_taken| !**is_taken)?;
        *is_taken = true;
        Some(Taken(self))
    }

    fn wait_slice(&self) -> Option<Taken<'_>> {
        let waited = self.freed.wait_timeout_while(self.lock(), SLICE, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_free = !*is_taken;
        *is_taken = true;
        // Not `then_some`: dropping a turn that was not taken would wait for the lock held here.
        is_free.then(|| Taken(self))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.freed.notify_one();
    }
}
