//! A job or a stream: Python's two classes share all but the windows.

use crate::buffers::{Buffer, ZERO_COPY_BYTES};
use approxlib::{Error, Job, Progress, Report, Stream};
use std::{ops::Range, os::fd::BorrowedFd};

#[derive(Debug)]
pub enum Handle {
    Job(Job),
    Stream(Stream),
}

/// How an application ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finish,
    Cancel,
}

/// Messages on their way into a job.
pub struct Batch {
    pub group: u8,
    pub messages: Vec<Buffer>,
    /// Whether to copy messages; by default the short ones.
    pub copy: Option<bool>,
    /// The first messages, which the job has taken.
    pub taken: usize,
    /// The ids of the messages taken.
    pub ids: Range<u32>,
}

impl Batch {
    fn is_copied(&self, message: &Buffer) -> bool {
        self.copy.unwrap_or(message.len() < ZERO_COPY_BYTES)
    }

    fn count(&mut self, ids: Range<u32>) {
        let first = if self.taken == 0 { ids.start } else { self.ids.start };
        self.taken += ids.len();
        self.ids = first..ids.end;
    }
}

impl Handle {
    pub fn job(&self) -> &Job {
        match self {
            Self::Job(job) => job,
            Self::Stream(stream) => stream.job(),
        }
    }

    /// Sends until the buffer is full. Returns whether the job has taken the complete batch.
    pub fn try_send(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        loop {
            let left = &batch.messages[batch.taken..];
            let copied = left.iter().take_while(|message| batch.is_copied(message)).count();
            // An empty batch comes here too, for the job's answer.
            if copied > 0 || batch.messages.is_empty() {
                let ids = self.try_send_all(batch.group, &left[..copied])?;
                let is_full = ids.len() < copied;
                batch.count(ids);
                if is_full {
                    return Ok(false);
                }
            }
            let Some(message) = batch.messages.get(batch.taken).cloned() else { return Ok(true) };
            if !batch.is_copied(&message) {
                let Some(id) = self.try_send_owned(batch.group, message)? else {
                    return Ok(false);
                };
                batch.count(id..id + 1);
            }
        }
    }

    fn try_send_all(&mut self, group: u8, messages: &[Buffer]) -> Result<Range<u32>, Error> {
        match self {
            Self::Job(job) => job.try_send_all(group, messages),
            Self::Stream(stream) => stream.try_send_all(group, messages),
        }
    }

    fn try_send_owned(&mut self, group: u8, message: Buffer) -> Result<Option<u32>, Error> {
        match self {
            Self::Job(job) => job.try_send_owned(group, message, drop),
            Self::Stream(stream) => stream.try_send_owned(group, message, drop),
        }
    }

    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        match self {
            Self::Job(job) => job.set_msr(group, msr),
            Self::Stream(stream) => stream.set_msr(group, msr),
        }
    }

    pub fn progress(&self) -> Progress {
        self.job().progress()
    }

    pub fn begin(&self, end: End) {
        match end {
            End::Finish => self.job().begin_finish(),
            End::Cancel => self.job().begin_cancel(),
        }
    }

    pub fn try_outcome(&mut self) -> Result<Option<Report>, Error> {
        match self {
            Self::Job(job) => job.try_outcome(),
            Self::Stream(stream) => stream.try_outcome(),
        }
    }

    pub fn changed_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.job().changed_fd()
    }

    /// `None` for a job without windows.
    pub fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Job(_) => None,
            Self::Stream(stream) => Some(stream),
        }
    }
}
