//! A job behind a number.

use crate::{
    failure::{self, Failure, Outcome},
    table::Table,
    wait,
};
use approxlib::{Error, Job, JobBuilder, JobHandle};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, OnceLock, PoisonError},
};

pub static JOBS: Table<Sender> = Table::new("job");

pub struct Sender {
    /// `None` once it has ended. Nobody waits with this lock.
    job: Mutex<Option<Job>>,
    pub message_bytes_max: u32,
    /// For calls that don't wait for the one that uses the job.
    pub handle: JobHandle,
    /// Readable when a call that had to wait may go on. Made when a call first waits.
    changed: OnceLock<OwnedFd>,
}

impl Sender {
    /// Opens a job, and returns its number.
    pub fn open((builder, message_bytes_max): (JobBuilder, u32), peer: &str) -> Outcome<i64> {
        let job = builder.connect(peer)?;
        let (handle, changed) = (job.handle(), OnceLock::new());
        Ok(JOBS.add(Self { job: Mutex::new(Some(job)), message_bytes_max, handle, changed }))
    }

    /// Uses the job, unless it has ended.
    pub fn with<T>(&self, work: impl FnOnce(&mut Job) -> Result<T, Error>) -> Outcome<T> {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(work(job.as_mut().ok_or_else(ended)?)?)
    }

    /// The outcome of a job that has ended; `None` before its end.
    pub fn end_if<T>(
        &self,
        outcome: impl FnOnce(&mut Job) -> Result<Option<T>, Error>,
    ) -> Outcome<Option<T>> {
        let mut kept = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outcome) = outcome(kept.as_mut().ok_or_else(ended)?).transpose() else {
            return Ok(None);
        };
        let job = kept.take();
        drop(kept);
        drop(job);
        Ok(Some(outcome?))
    }

    /// Waits until the job has changed.
    pub fn wait_for_change(&self, timeout_ms: i32) -> Outcome {
        if self.changed.get().is_none() {
            let own = |job: &mut Job| job.changed_fd()?.try_clone_to_owned().map_err(Error::Thread);
            // Another thread may have been first.
            let _ = self.changed.set(self.with(own)?);
        }
        if let Some(changed) = self.changed.get() {
            wait::readable([changed.as_fd()], timeout_ms);
        }
        Ok(())
    }

    /// Ends it without the receiver, if it has not ended. Calls that wait learn it first.
    pub fn abandon(&self) {
        self.handle.abandon();
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(job);
    }
}

fn ended() -> Failure {
    Failure::new(failure::CLOSED, "the job has ended: open another one")
}
