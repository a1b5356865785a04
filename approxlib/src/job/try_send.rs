//! Sending without waiting, for applications that wait by themselves ([`Job::changed_fd`]).

use super::{HAND_OVER_BYTES, Job, Stream, data::Data, refused};
use crate::error::Error;
use atp_common::wire::HEADER_LEN;
use std::ops::Range;

impl Job {
    /// As [`Job::send_all`], but stops instead of blocking when the buffer is full. The ids are
    /// those of the first messages, which the job has taken; the range is empty if there was no
    /// room for any. [`Job::changed_fd`] shows when to try again with the others.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// let mut job = approxlib::Job::builder().connect("10.0.0.9:4747")?;
    /// let values: Vec<[u8; 8]> = (0..1_000u64).map(u64::to_be_bytes).collect();
    /// let mut left = &values[..];
    /// while !left.is_empty() {
    ///     let taken = job.try_send_all(0, left)?;
    ///     left = &left[taken.len()..];
    ///     // Poll `job.changed_fd()` here.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Job::send_all`].
    pub fn try_send_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
    ) -> Result<Range<u32>, Error> {
        for message in messages {
            self.check_len(message.as_ref().len())?;
        }
        let mut ids: Option<Range<u32>> = None;
        let mut copies = std::mem::take(&mut self.copies);
        let mut left = messages.iter().peekable();
        loop {
            let mut bytes = 0;
            while let Some(message) = left.next_if(|_| bytes < HAND_OVER_BYTES) {
                bytes += message.as_ref().len() + HEADER_LEN;
                copies.push(self.pool.copy(message.as_ref()));
            }
            let copied = copies.len();
            let mut new = copies.drain(..).map(Data::Copied);
            let taken = self.shared.try_put_all(group, &mut new, &mut self.pool);
            drop(new);
            let taken = taken.map_err(|error| refused(group, error))?;
            let is_full = taken.len() < copied;
            let first = ids.map_or(taken.start, |ids| ids.start);
            ids = Some(first..taken.end);
            if is_full || left.peek().is_none() {
                self.copies = copies;
                return Ok(first..taken.end);
            }
        }
    }

    /// As [`Job::send_owned`], but returns `None` instead of blocking while the buffer is full. The
    /// job has not taken the message then, and has called `release`.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn try_send_owned<B, F>(
        &mut self,
        group: u8,
        bytes: B,
        release: F,
    ) -> Result<Option<u32>, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        let message = self.owned(bytes, release)?;
        self.try_put_waiting(group, &mut Some(message))
    }
}

impl Stream {
    /// Queues a message of `group` in the present window without blocking: see
    /// [`Job::try_send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`]; [`Error::WindowEnding`] after [`Stream::begin_end_window`]: with
    /// overlapping windows, only while two windows have not ended.
    pub fn try_send_in(&mut self, group: u8, message: &[u8]) -> Result<Option<u32>, Error> {
        self.try_ready_to_send()?.try_send_in(group, message)
    }

    /// Queues messages of `group` in the present window without blocking: see
    /// [`Job::try_send_all`].
    ///
    /// # Errors
    /// As [`Job::send_all`]; [`Error::WindowEnding`] after [`Stream::begin_end_window`]: with
    /// overlapping windows, only while two windows have not ended.
    pub fn try_send_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
    ) -> Result<Range<u32>, Error> {
        self.try_ready_to_send()?.try_send_all(group, messages)
    }

    /// Queues a message of `group` in the present window without a copy and without blocking: see
    /// [`Job::try_send_owned`].
    ///
    /// # Errors
    /// As [`Job::send_in`]; [`Error::WindowEnding`] after [`Stream::begin_end_window`]: with
    /// overlapping windows, only while two windows have not ended.
    pub fn try_send_owned<B, F>(
        &mut self,
        group: u8,
        bytes: B,
        release: F,
    ) -> Result<Option<u32>, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        self.try_ready_to_send()?.try_send_owned(group, bytes, release)
    }
}
