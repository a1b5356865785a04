//! Sending: the application's messages go to the sender thread, with or without waiting for room.

use super::{Job, data::Data, owned::OwnedMessage, refused};
use crate::error::Error;
use atp_common::wire::HEADER_LEN;
use std::{iter::Peekable, ops::Range, sync::Arc};

/// The bytes of copies that are made before they are handed to the sender thread: few enough to be
/// in the processor's first cache.
const HAND_OVER_BYTES: usize = 8 << 10;

impl Job {
    /// Sends a message of group 0: see [`Job::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message)
    }

    /// Queues a message of `group` for sending, and returns its id. Ids count from 0 in each group
    /// and window. The first message after [`Job::end_window`] begins the next window.
    ///
    /// The data is copied once. The call blocks while the buffer is full
    /// ([`JobBuilder::buffer_bytes`](crate::JobBuilder::buffer_bytes)), and with
    /// [`JobBuilder::overlap_windows`](crate::JobBuilder::overlap_windows) while two windows have
    /// not ended.
    ///
    /// If N was announced and the receiver has `ceil(MSR * N)` messages of every group, the job or
    /// window is complete. Further messages are then accepted and discarded.
    ///
    /// # Errors
    /// - [`Error::TooLarge`]: the message is longer than
    ///   [`JobBuilder::message_bytes_max`](crate::JobBuilder::message_bytes_max).
    /// - [`Error::TooMany`]: the group already has its N messages.
    /// - [`Error::NoGroup`]: the job was opened without this group.
    /// - [`Error::WindowEnding`]: the report of the window that [`Job::begin_end_window`] has ended
    ///   was not taken, and windows don't overlap.
    /// - [`Error::Short`]: the job has failed.
    /// - [`Error::Ended`]: the input was ended before.
    pub fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        let data = self.copied(message)?;
        self.put(group, data)
    }

    /// Queues several messages of `group` for sending, and returns their ids. As [`Job::send_in`]
    /// for each of them, at a lower cost for short messages.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// let mut job = approxlib::Job::builder().connect("10.0.0.9:4747")?;
    /// let values: Vec<[u8; 8]> = (0..1_000u64).map(u64::to_be_bytes).collect();
    /// job.send_all(0, &values)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Job::send_in`]. With [`Error::TooLarge`] no message is queued; with another error, the
    /// first ones may be.
    pub fn send_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
    ) -> Result<Range<u32>, Error> {
        self.put_all(group, messages, true)
    }

    /// As [`Job::send_in`], but without a copy: packets are read from the application's memory. The
    /// job drops its reference when the receiver has the message, or doesn't need it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// use std::sync::Arc;
    /// let mut job = approxlib::Job::builder().connect("10.0.0.9:4747")?;
    /// let block: Arc<[u8]> = vec![0; 1 << 20].into();
    /// job.send_shared(0, block.clone())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_shared(&mut self, group: u8, message: Arc<[u8]>) -> Result<u32, Error> {
        self.check_len(message.len())?;
        self.put(group, Data::Shared(message))
    }

    /// As [`Job::send_shared`], for memory of any kind: of C, of another runtime, of a pool. The
    /// job takes `bytes`, and calls `release` with them when it no longer needs them. It does so
    /// once for each message, also if this call fails or the job ends early: in this call, or in
    /// the job's thread.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// use std::sync::mpsc;
    /// let mut job = approxlib::Job::builder().connect("10.0.0.9:4747")?;
    /// let (free, blocks) = mpsc::channel::<Vec<u8>>();
    /// (0..4).for_each(|_| free.send(vec![0; 1 << 20]).unwrap());
    /// for mut block in blocks.iter().take(1_000) {
    ///     block.fill(7);
    ///     let free = free.clone();
    ///     job.send_owned(0, block, move |block| drop(free.send(block)))?;
    /// }
    /// job.finish()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `release` must not wait for this job, nor for the task that waits for it. Its panic is
    /// logged. If the length of `bytes` changes meanwhile, the job ends with [`Error::Thread`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_owned<B, F>(&mut self, group: u8, bytes: B, release: F) -> Result<u32, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        let message = self.owned(bytes, release)?;
        self.put(group, message)
    }

    /// As [`Job::send_in`], but returns `None` instead of blocking. The job has not taken the
    /// message then, and a further call copies it again. [`Job::changed_fd`] shows when to try.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn try_send_in(&mut self, group: u8, message: &[u8]) -> Result<Option<u32>, Error> {
        let data = self.copied(message)?;
        self.try_put(group, &mut Some(data))
    }

    /// As [`Job::send_all`], but stops instead of blocking. The ids are those of the first
    /// messages, which the job has taken; the range is empty if there was no room for any.
    /// [`Job::changed_fd`] shows when to try again with the others.
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
        self.put_all(group, messages, false)
    }

    /// As [`Job::send_owned`], but returns `None` instead of blocking. The job has not taken the
    /// message then, and has called `release`.
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
        self.try_put(group, &mut Some(message))
    }

    /// A copy of a message, if it isn't too long.
    pub(crate) fn copied(&mut self, message: &[u8]) -> Result<Data, Error> {
        self.check_len(message.len())?;
        Ok(Data::Copied(self.pool.copy(message)))
    }

    /// A message in memory of the application, if it isn't too long.
    pub(crate) fn owned<B, F>(&self, bytes: B, release: F) -> Result<Data, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        F: FnOnce(B) + Send + 'static,
    {
        let message = OwnedMessage::new(bytes, release);
        self.check_len(message.bytes().len())?;
        Ok(Data::Owned(message))
    }

    fn check_len(&self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.message_bytes_max;
        if bytes > bytes_max { Err(Error::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    /// Takes a waiting message if there is room for it, and returns its id.
    pub(crate) fn try_put(
        &mut self,
        group: u8,
        waiting: &mut Option<Data>,
    ) -> Result<Option<u32>, Error> {
        if !self.try_begin_window()? {
            return Ok(None);
        }
        let mut message = waiting.take().into_iter().peekable();
        let ids = self.accept(group, &mut message, false)?;
        *waiting = message.next();
        Ok((!ids.is_empty()).then_some(ids.start))
    }

    fn put(&mut self, group: u8, message: Data) -> Result<u32, Error> {
        self.begin_window()?;
        let ids = self.accept(group, &mut std::iter::once(message).peekable(), true)?;
        Ok(ids.start)
    }

    /// Copies messages, and hands them to the sender thread. Without waiting it stops at the first
    /// one for which there is no room.
    fn put_all<M: AsRef<[u8]>>(
        &mut self,
        group: u8,
        messages: &[M],
        waits: bool,
    ) -> Result<Range<u32>, Error> {
        for message in messages {
            self.check_len(message.as_ref().len())?;
        }
        if waits {
            self.begin_window()?;
        } else if !self.try_begin_window()? {
            return Ok(0..0);
        }
        let mut left = messages.iter().peekable();
        let mut first = None;
        loop {
            let mut copies = std::mem::take(&mut self.copies);
            let mut bytes = 0;
            while let Some(message) = left.next_if(|_| bytes < HAND_OVER_BYTES) {
                bytes += message.as_ref().len() + HEADER_LEN;
                copies.push(self.pool.copy(message.as_ref()));
            }
            let copied = copies.len();
            let ids = self.accept(group, &mut copies.drain(..).map(Data::Copied).peekable(), waits);
            self.copies = copies;
            let ids = ids?;
            let first = *first.get_or_insert(ids.start);
            if ids.len() < copied || left.peek().is_none() {
                return Ok(first..ids.end);
            }
        }
    }

    fn accept(
        &mut self,
        group: u8,
        messages: &mut Peekable<impl Iterator<Item = Data>>,
        waits: bool,
    ) -> Result<Range<u32>, Error> {
        let accepted = self.shared.put(group, messages, waits, &mut self.pool);
        accepted.map_err(|error| refused(group, error))
    }
}
