//! The progress of a thread that sends windows.

use approx_windows::{OutboxError, Position, Told};
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The progress, which the thread changes and calls wait for.
#[derive(Debug, Default)]
pub struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct Progress {
    /// Windows that are closed and not confirmed.
    pub unconfirmed: usize,
    /// Windows that are confirmed.
    pub confirmed: u64,
    /// Where the stream is read again.
    pub position: Option<Position>,
    /// The first call that finds it raises it.
    pub failure: Option<OutboxError>,
    pub has_failed: bool,
    pub has_finished: bool,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed, or for `limit`.
    pub fn wait(&self, limit: Duration, is_done: impl Fn(&Progress) -> bool) {
        let is_due = |progress: &mut Progress| !is_done(progress) && !progress.has_failed;
        drop(self.changed.wait_timeout_while(self.lock(), limit, is_due));
    }

    /// Takes the news of the thread.
    pub fn take(&self, told: Told) {
        {
            let mut progress = self.lock();
            match told {
                Told::Confirmed(position) => {
                    progress.confirmed += 1;
                    progress.unconfirmed -= 1;
                    progress.position = Some(position);
                }
                // An open window, which is sent again at its end.
                Told::Failed(_) => {}
                Told::GaveUp(error) => {
                    progress.failure = Some(error);
                    progress.has_failed = true;
                }
                Told::Finished => progress.has_finished = true,
            }
        }
        self.changed.notify_all();
    }
}
