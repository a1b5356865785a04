//! Forks of the process. A child has no threads of its parent, and finds locks that they held.

use crate::status::{Failure, Outcome, atp_status::ATP_ERROR_THREAD};
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// How often this process and its parents have forked since the library was used.
static FORKS: AtomicU64 = AtomicU64::new(0);
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on.
pub fn count() -> Outcome {
    // Not `Once`: a child could find it locked for ever. Two handlers only count twice.
    if IS_COUNTING.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handler only writes an atomic, which a forked child may do.
    match unsafe { nix::libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => {
            IS_COUNTING.store(true, Ordering::Release);
            Ok(())
        }
        errno => {
            let error = io::Error::from_raw_os_error(errno);
            let text = format!("forks of this process can't be noticed: {error}; free some memory");
            Err(Failure::new(ATP_ERROR_THREAD, text))
        }
    }
}

pub fn counted() -> u64 {
    FORKS.load(Ordering::Relaxed)
}
