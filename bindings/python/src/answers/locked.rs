//! A value of approx-answers as several threads of Python use it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that is locked for single calls of the crate. Python's code never runs under the lock:
/// arguments are parsed before, results are made after. So the lock is free whenever the GIL is
/// held, also in a forked child.
#[derive(Debug)]
pub struct Locked<T>(Mutex<T>);

impl<T> Locked<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Locked<T> {
    /// For calls of two values: two locks at once might be taken in two orders.
    pub fn copied(&self) -> T {
        self.lock().clone()
    }
}
