//! Messages on their way into a job.

use crate::{
    arguments::{self, Copied, Group},
    buffers::{Buffer, ZERO_COPY_BYTES},
};
use approxlib::{Error, Job};
use pyo3::{exceptions::PyTypeError, prelude::*};
use std::ops::Range;

/// The most messages that one call of the library looks at: it looks at all, and takes those for
/// which there is room.
const PIECE_MESSAGES: usize = 1024;

pub struct Batch {
    group: u8,
    messages: Vec<Buffer>,
    /// Whether to copy messages; by default the short ones, and those that may change.
    copy: Option<bool>,
    /// The first messages, which the job has taken.
    taken: usize,
}

impl Batch {
    /// A message longer than `bytes_max` is refused.
    pub fn one(
        data: &Bound<'_, PyAny>,
        bytes_max: usize,
        group: Group,
        copy: Copied,
    ) -> PyResult<Self> {
        let messages = vec![Buffer::new(data, bytes_max)?];
        Ok(Self { group: group.0, messages, copy: copy.0, taken: 0 })
    }

    /// `name`: of the method. The batch is refused before any message is sent, if one is longer
    /// than `bytes_max`.
    pub fn several(
        name: &str,
        messages: &Bound<'_, PyAny>,
        bytes_max: usize,
        group: Group,
        copy: Copied,
    ) -> PyResult<Self> {
        let not_several = || {
            PyTypeError::new_err(format!(
                "{name} takes several messages, as a list of bytes, not {}",
                arguments::shown(messages)
            ))
        };
        let messages = messages.try_iter().map_err(|_| not_several())?;
        let messages = messages.map(|message| Buffer::new(&message?, bytes_max));
        let messages = messages.collect::<PyResult<_>>()?;
        Ok(Self { group: group.0, messages, copy: copy.0, taken: 0 })
    }

    /// Messages that the job has not taken.
    pub fn left(&self) -> usize {
        self.messages.len() - self.taken
    }

    /// Sends until the buffer is full. Returns the ids of the messages taken.
    pub fn try_send(&mut self, job: &mut Job) -> Result<Range<u32>, Error> {
        let mut ids: Option<Range<u32>> = None;
        loop {
            let left = &self.messages[self.taken..];
            let left = &left[..left.len().min(PIECE_MESSAGES)];
            let copied = left.iter().take_while(|message| self.is_copied(message)).count();
            // An empty batch comes here too, for the job's answer.
            let (new, wanted) = match left.first() {
                Some(message) if copied == 0 => {
                    let id = job.try_send_owned(self.group, message.clone(), drop)?;
                    (id.map_or(0..0, |id| id..id + 1), 1)
                }
                _ => (job.try_send_all(self.group, &left[..copied])?, copied),
            };
            self.taken += new.len();
            let is_full = new.len() < wanted;
            if ids.is_none() || !new.is_empty() {
                let first = ids.filter(|ids| !ids.is_empty()).map_or(new.start, |ids| ids.start);
                ids = Some(first..new.end);
            }
            if is_full || self.left() == 0 {
                return Ok(ids.unwrap_or(0..0));
            }
        }
    }

    fn is_copied(&self, message: &Buffer) -> bool {
        let by_default = || message.len() < ZERO_COPY_BYTES || message.is_writable();
        self.copy.unwrap_or_else(by_default)
    }
}
