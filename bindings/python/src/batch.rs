//! Messages on their way into a job.

use crate::{
    answers::Frame,
    arguments::{self, Copied, Group},
    buffers::{Buffer, ZERO_COPY_BYTES, check_len},
};
use approxlib::{Error, Job};
use pyo3::{exceptions::PyTypeError, prelude::*};
use std::ops::Range;

/// The most messages that one call of the library looks at: it looks at all, and takes those for
/// which there is room.
const PIECE_MESSAGES: usize = 1024;
/// The most messages of a frame that are written at once: short ones stay in a processor's cache.
const WRITTEN_MESSAGES: usize = 128;

pub struct Batch {
    group: u8,
    messages: Messages,
    /// Whether to copy messages; by default the short ones, and those that may change.
    copy: Option<bool>,
}

enum Messages {
    Buffers {
        all: Vec<Buffer>,
        /// The first messages, which the job has taken.
        taken: usize,
    },
    /// The messages of a `Frame`, without objects of Python.
    OfFrame {
        left: Box<approx_frames::Messages>,
        /// Messages that were written. Their memory is used again.
        written: Vec<Vec<u8>>,
        /// The first written ones, which the job has taken.
        taken: usize,
    },
}

impl Batch {
    /// A message longer than `bytes_max` is refused.
    pub fn one(
        data: &Bound<'_, PyAny>,
        bytes_max: usize,
        group: Group,
        copy: Copied,
    ) -> PyResult<Self> {
        let messages = Messages::Buffers { all: vec![Buffer::new(data, bytes_max)?], taken: 0 };
        Ok(Self { group: group.0, messages, copy: copy.0 })
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
        if let Ok(frame) = messages.cast::<Frame>() {
            let frame = &frame.get().frame;
            check_len(messages.py(), frame.bytes_max(), bytes_max)?;
            let messages = Messages::OfFrame {
                left: Box::new(frame.messages()),
                written: Vec::new(),
                taken: 0,
            };
            return Ok(Self { group: group.0, messages, copy: copy.0 });
        }
        let not_several = || {
            PyTypeError::new_err(format!(
                "{name} takes several messages, as a list of bytes, not {}",
                arguments::shown(messages)
            ))
        };
        let messages = messages.try_iter().map_err(|_| not_several())?;
        let messages = messages.map(|message| Buffer::new(&message?, bytes_max));
        let messages = Messages::Buffers { all: messages.collect::<PyResult<_>>()?, taken: 0 };
        Ok(Self { group: group.0, messages, copy: copy.0 })
    }

    /// Messages that the job has not taken.
    pub fn left(&self) -> usize {
        match &self.messages {
            Messages::Buffers { all, taken } => all.len() - taken,
            Messages::OfFrame { left, written, taken } => left.len() + written.len() - taken,
        }
    }

    /// Sends until the buffer is full. Returns the ids of the messages taken.
    pub fn try_send(&mut self, job: &mut Job) -> Result<Range<u32>, Error> {
        let mut ids: Option<Range<u32>> = None;
        loop {
            let (new, wanted) = self.messages.try_send_piece(job, self.group, self.copy)?;
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
}

impl Messages {
    /// Sends some of the next messages. Returns the ids of those that the job has taken, and how
    /// many it was given.
    fn try_send_piece(
        &mut self,
        job: &mut Job,
        group: u8,
        copy: Option<bool>,
    ) -> Result<(Range<u32>, usize), Error> {
        match self {
            Self::Buffers { all, taken } => {
                let left = &all[*taken..];
                let left = &left[..left.len().min(PIECE_MESSAGES)];
                let copied = left.iter().take_while(|message| is_copied(message, copy)).count();
                // An empty batch comes here too, for the job's answer.
                let (new, wanted) = match left.first() {
                    Some(message) if copied == 0 => {
                        let id = job.try_send_owned(group, message.clone(), drop)?;
                        (id.map_or(0..0, |id| id..id + 1), 1)
                    }
                    _ => (job.try_send_all(group, &left[..copied])?, copied),
                };
                *taken += new.len();
                Ok((new, wanted))
            }
            Self::OfFrame { left, written, taken } => {
                if *taken == written.len() {
                    *taken = 0;
                    written.resize(left.len().min(WRITTEN_MESSAGES), Vec::new());
                    written.iter_mut().for_each(|message| {
                        left.write_next(message);
                    });
                }
                let next = &written[*taken..];
                let (new, wanted) = (job.try_send_all(group, next)?, next.len());
                *taken += new.len();
                Ok((new, wanted))
            }
        }
    }
}

fn is_copied(message: &Buffer, copy: Option<bool>) -> bool {
    let by_default = || message.len() < ZERO_COPY_BYTES || message.is_writable();
    copy.unwrap_or_else(by_default)
}
