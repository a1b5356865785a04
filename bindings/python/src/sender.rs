//! The part of a job that its batches use.

use crate::{
    arguments::{Copied, Group},
    batch::Batch,
    buffers::release_pending,
    errors::raise,
    exceptions::{closed, split, timed_out},
    guarded::Guarded,
    turn::Turn,
    types, wait,
};
use approxlib::{Error, Job};
use pyo3::{prelude::*, sync::PyOnceLock};
use std::{
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

pub struct Sender {
    pub job: Guarded<Job>,
    message_bytes_max: usize,
    /// The turns of several threads' batches.
    turn: Turn,
    /// Readable when a call that had to wait may go on. Made when a call first waits.
    changed: PyOnceLock<OwnedFd>,
}

impl Sender {
    pub fn new(job: Job, message_bytes_max: usize) -> Self {
        let job = Guarded::new("job", job);
        Self { job, message_bytes_max, turn: Turn::default(), changed: PyOnceLock::new() }
    }

    pub fn one(&self, data: &Bound<'_, PyAny>, group: Group, copy: Copied) -> PyResult<Batch> {
        // First: a forked child takes no buffer.
        self.job.check_process()?;
        Batch::one(data, self.message_bytes_max, group, copy)
    }

    pub fn changed(&self, py: Python<'_>) -> PyResult<BorrowedFd<'_>> {
        let own = |job: &mut Job| job.changed_fd()?.try_clone_to_owned().map_err(Error::Thread);
        let make = || self.job.with(py, own)?.map_err(|error| raise(py, error));
        Ok(self.changed.get_or_try_init(py, make)?.as_fd())
    }

    pub fn several(
        &self,
        name: &str,
        messages: &Bound<'_, PyAny>,
        group: Group,
        copy: Copied,
    ) -> PyResult<Batch> {
        // First: a forked child takes no buffer.
        self.job.check_process()?;
        Batch::several(name, messages, self.message_bytes_max, group, copy)
    }

    /// Sends a part of the batch. Returns the ids of the messages that the job has taken.
    pub fn try_send(&self, py: Python<'_>, batch: &mut Batch) -> PyResult<Range<u32>> {
        let sent = self.job.with(py, |job| batch.try_send(job))?;
        sent.map_err(|error| raise(py, error))
    }

    /// Waits for a turn, and then until `attempt` has sent a part of a batch.
    pub fn send_part<T>(
        &self,
        py: Python<'_>,
        attempt: impl FnMut() -> PyResult<Option<T>>,
    ) -> PyResult<T> {
        self.job.check_process()?;
        let _turn = self.turn.wait(py, None)?;
        let sent = self.until(py, None, attempt)?;
        sent.ok_or_else(|| closed("job"))
    }

    /// `None` at the deadline.
    fn send_some(
        &self,
        py: Python<'_>,
        batch: &mut Batch,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Range<u32>>> {
        let attempt = || {
            let ids = self.try_send(py, batch)?;
            Ok((!ids.is_empty() || batch.left() == 0).then_some(ids))
        };
        self.until(py, deadline, attempt)
    }

    /// `wait::until` the job has changed. A call that is given up keeps the descriptor readable for
    /// nobody.
    pub fn until<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        attempt: impl FnMut() -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        let done = wait::until(py, || self.changed(py), deadline, attempt);
        if !matches!(done, Ok(Some(_))) {
            // A job that has ended has none.
            drop(self.forget_waits(py));
        }
        done
    }

    pub fn forget_waits(&self, py: Python<'_>) -> PyResult<()> {
        self.job.with(py, |job| job.forget_waits())
    }

    /// Sends the batch. At the deadline the exception tells the ids of the messages taken so far.
    pub fn send_batch(
        &self,
        py: Python<'_>,
        mut batch: Batch,
        deadline: Option<Instant>,
    ) -> PyResult<Range<u32>> {
        let mut ids: Vec<Range<u32>> = Vec::new();
        let turn = self.turn.wait(py, deadline)?;
        let sent = loop {
            let new = match turn {
                Some(_) => self.send_some(py, &mut batch, deadline),
                None => Ok(None),
            };
            match new {
                Ok(Some(new)) => match ids.last_mut().filter(|last| last.end == new.start) {
                    Some(last) => last.end = new.end,
                    None => ids.push(new),
                },
                Ok(None) => {
                    let text = "the timeout has passed before there was room for all messages: \
                                send those that the job has not taken, in `sent`, again";
                    let ids = ids.iter().map(|ids| types::ids(py, ids.clone()));
                    break Err(timed_out(py, text, ids.collect::<PyResult<_>>()?));
                }
                Err(error) => break Err(error),
            }
            if batch.left() == 0 {
                break if ids.len() > 1 { Err(split()) } else { Ok(ids.pop().unwrap_or(0..0)) };
            }
        };
        drop(batch);
        release_pending(py);
        sent
    }
}
