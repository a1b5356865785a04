//! Work with the rights of other users.

use anyhow::Result;
use std::{panic::resume_unwind, thread};
use testbed::privilege::become_user;

/// Runs `work` on a thread with this user id. Descriptors that the thread opens stay usable.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            become_user(uid)?;
            work()
        });
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
