//! A job or a stream: Python's two classes share all but the windows.

use crate::buffers::Buffer;
use approxlib::{Error, Job, Progress, Report, Stream};
use std::{ops::Range, os::fd::BorrowedFd};

#[derive(Debug)]
pub enum Handle {
    Job(Job),
    /// With whether its windows overlap.
    Stream(Stream, bool),
}

/// How an application ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finish,
    Cancel,
}

impl Handle {
    pub fn job(&self) -> &Job {
        match self {
            Self::Job(job) => job,
            Self::Stream(stream, _) => stream.job(),
        }
    }

    pub fn try_send_all(&mut self, group: u8, messages: &[Buffer]) -> Result<Range<u32>, Error> {
        match self {
            Self::Job(job) => job.try_send_all(group, messages),
            Self::Stream(stream, overlaps) => {
                or_wait(*overlaps, 0..0, stream.try_send_all(group, messages))
            }
        }
    }

    pub fn try_send_owned(&mut self, group: u8, message: Buffer) -> Result<Option<u32>, Error> {
        match self {
            Self::Job(job) => job.try_send_owned(group, message, drop),
            Self::Stream(stream, overlaps) => {
                or_wait(*overlaps, None, stream.try_send_owned(group, message, drop))
            }
        }
    }

    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        match self {
            Self::Job(job) => job.set_msr(group, msr),
            Self::Stream(stream, _) => stream.set_msr(group, msr),
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
            Self::Stream(stream, _) => stream.try_outcome(),
        }
    }

    pub fn changed_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.job().changed_fd()
    }

    /// `None` for a job without windows.
    pub fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Job(_) => None,
            Self::Stream(stream, _) => Some(stream),
        }
    }
}

/// While two windows have not ended, the next one waits, as for room in the buffer.
fn or_wait<T>(overlaps: bool, nothing: T, sent: Result<T, Error>) -> Result<T, Error> {
    match sent {
        Err(Error::WindowEnding) if overlaps => Ok(nothing),
        sent => sent,
    }
}
