//! The sending side of a job: its options, its handle for the application, and its sender thread.
//!
//! The path of one message:
//!
//! 1. [`Job::send_in`] copies the message and puts it into [`shared`], the state that the
//!    application's thread and the sender thread have in common. It blocks there while the buffer
//!    is full.
//! 2. [`thread`] takes it out and queues it in the transport (`atp_proto::Sender`).
//! 3. `thread::transmit` asks the transport which packets to send, and the datapath when they may
//!    leave. It gives them to the socket in batches (`crate::udp`).
//! 4. `thread` reads acknowledgments and receipts, and releases the message's memory.
//! 5. `thread::reporting` notices the end of the job and writes the report, for which
//!    [`Job::finish`] waits.

mod buffer_pool;
mod builder;
mod data;
mod fanout;
mod group;
mod handle;
mod known_path;
mod open;
mod options;
mod owned;
mod progress;
mod requests;
mod shared;
mod stream;
mod thread;
mod try_send;

pub use fanout::Fanout;
pub use group::Group;
pub use handle::JobHandle;
pub use options::JobBuilder;
pub use progress::Progress;
pub use requests::Requests;
pub use stream::Stream;

use crate::{
    error::{Error, ShortCause, Shortfall},
    report::Report,
};
use atp_common::wire::HEADER_LEN;
use atp_proto::MsrError;
use data::{Data, MessageCopy};
pub(crate) use group::parse_msr;
use owned::OwnedMessage;
use shared::{Command, Outcome, PutError, Shared};
use std::{io, net::SocketAddr, ops::Range, os::fd::BorrowedFd, sync::Arc, thread::JoinHandle};

/// The bytes of copies that `Job::send_all` makes before it hands them to the sender thread: few
/// enough to be in the processor's first cache.
const HAND_OVER_BYTES: usize = 8 << 10;

/// The sending side of an approximate job: messages to one receiver, of which a share must arrive.
///
/// A background thread (`atp-sender`) transmits while the application does something else. Dropping
/// a job before [`Job::finish`] abandons it: messages that were not delivered yet are lost.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// let mut job = approxlib::Job::builder()
///     .messages(1_000)
///     .msr(0.8)
///     .connect("10.0.0.9:4747")?;
/// for i in 0..1_000u32 {
///     job.send(format!("record {i}").as_bytes())?;
/// }
/// let report = job.finish()?;
/// println!("{} of {} messages", report.groups[0].delivered, report.groups[0].messages);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Job {
    id: u32,
    peer: SocketAddr,
    datapath: &'static str,
    pacing: String,
    message_bytes_max: usize,
    shared: Arc<Shared>,
    pool: buffer_pool::BufferPool,
    /// Memory that is reused in every [`Job::send_all`].
    copies: Vec<MessageCopy>,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// The options of a job, at their defaults.
    pub fn builder() -> JobBuilder {
        JobBuilder::default()
    }

    /// The job's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The receiver's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The datapath with which the job started: `ebpf` or `userspace`.
    pub fn datapath(&self) -> &str {
        self.datapath
    }

    /// The pacing with which the job started: `fq`, `htb` or `userspace`.
    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    /// Sends a message of group 0: see [`Job::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message)
    }

    /// Queues a message of `group` for sending, and returns its id. Ids count from 0 in each group
    /// and window.
    ///
    /// The data is copied once. The call blocks while the buffer is full
    /// ([`JobBuilder::buffer_bytes`]).
    ///
    /// If N was announced and the receiver has `ceil(MSR * N)` messages of every group, the job is
    /// complete. Further messages are then accepted and discarded.
    ///
    /// # Errors
    /// - [`Error::TooLarge`]: the message is longer than [`JobBuilder::message_bytes_max`].
    /// - [`Error::TooMany`]: the group already has its N messages.
    /// - [`Error::NoGroup`]: the job was opened without this group.
    /// - [`Error::Short`]: the job has failed.
    /// - [`Error::Ended`]: the input was ended before.
    pub fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        let data = self.copied(message)?;
        Ok(self.put(group, std::iter::once(data))?.start)
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
        for message in messages {
            self.check_len(message.as_ref().len())?;
        }
        let mut ids = self.put(group, std::iter::empty())?;
        let mut copies = std::mem::take(&mut self.copies);
        let mut left = messages.iter().peekable();
        while left.peek().is_some() {
            let mut bytes = 0;
            while let Some(message) = left.next_if(|_| bytes < HAND_OVER_BYTES) {
                bytes += message.as_ref().len() + HEADER_LEN;
                copies.push(self.pool.copy(message.as_ref()));
            }
            ids.end = self.put(group, copies.drain(..).map(Data::Copied))?.end;
        }
        self.copies = copies;
        Ok(ids)
    }

    /// As [`Job::send_in`], but returns `None` instead of blocking while the buffer is full. The
    /// job has not taken the message then, and a further call copies it again. [`Job::changed_fd`]
    /// shows when to try.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn try_send_in(&mut self, group: u8, message: &[u8]) -> Result<Option<u32>, Error> {
        let data = self.copied(message)?;
        self.try_put_waiting(group, &mut Some(data))
    }

    /// A copy of a message, if it isn't too long.
    pub(crate) fn copied(&mut self, message: &[u8]) -> Result<Data, Error> {
        self.check_len(message.len())?;
        Ok(Data::Copied(self.pool.copy(message)))
    }

    /// A descriptor for `poll`, `epoll` and their like. It is readable when a call that returned
    /// `None` may return something: [`Job::try_send_in`], [`Job::try_outcome`]. Only such a call
    /// makes it unreadable again, and after the job's end none does.
    ///
    /// # Errors
    /// [`Error::Thread`] if this process can't have another descriptor.
    pub fn changed_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.shared.changed_fd().map_err(Error::Thread)
    }

    /// Forgets the calls that didn't send for want of room, or of a window. An application that has
    /// given them up calls this: otherwise [`Job::changed_fd`] stays readable from when they would
    /// succeed until they are made again. Now it becomes readable once, for other calls that wait.
    pub fn forget_waits(&self) {
        self.shared.forget_waits();
    }

    /// Takes a waiting message if there is room for it, and returns its id.
    pub(crate) fn try_put_waiting(
        &mut self,
        group: u8,
        waiting: &mut Option<Data>,
    ) -> Result<Option<u32>, Error> {
        let Some(data) = waiting.take() else { return Ok(None) };
        match self.shared.try_put(group, data, &mut self.pool) {
            Ok(Ok(id)) => Ok(Some(id)),
            Ok(Err(data)) => {
                *waiting = Some(data);
                Ok(None)
            }
            Err(error) => Err(refused(group, error)),
        }
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
        Ok(self.put(group, std::iter::once(Data::Shared(message)))?.start)
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
        Ok(self.put(group, std::iter::once(message))?.start)
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

    fn put(
        &mut self,
        group: u8,
        messages: impl Iterator<Item = Data>,
    ) -> Result<Range<u32>, Error> {
        self.shared.put(group, messages, &mut self.pool).map_err(|error| refused(group, error))
    }

    /// Changes the minimal sampling rate of a group while the job runs.
    ///
    /// - An exact group (opened with an MSR of 1) stays exact: its rate can't change.
    /// - An approximate group may be raised to 1. Its packets stay approximate traffic.
    /// - Once the sender has asked the receiver to confirm the end, the rate can only fall.
    ///
    /// # Errors
    /// [`Error::Msr`] if `msr` is not between 0 and 1; [`Error::MsrRefused`] with the reason.
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        self.set_msr_from(group, msr, false)
    }

    /// The same, from the next window of a stream on.
    fn set_msr_from(&self, group: u8, msr: f64, is_of_next: bool) -> Result<(), Error> {
        let msr = group::parse_msr(msr)?;
        match self.shared.set_msr(group, msr, is_of_next) {
            Some(answer) => Ok(answer?),
            None => Err(Error::MsrRefused(MsrError::Ending)),
        }
    }

    /// Ends the job now. No more data is sent, and the receiver learns which messages it won't get.
    /// Waits for the receiver's confirmation and reports what was delivered. The report may show
    /// fewer messages than the job needs: see [`Report::canceled`].
    ///
    /// # Errors
    /// [`Error::Short`] if the receiver doesn't confirm, or the job has failed before.
    pub fn cancel(self) -> Result<Report, Error> {
        self.end(Command::Cancel)
    }

    /// The job's progress, at most 50 ms old. The number of messages is always current.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Ends the input: no more messages follow. Waits until the receiver confirms that it has
    /// `ceil(MSR * N)` messages of every group. N is the number of messages sent, even if more were
    /// announced.
    ///
    /// # Errors
    /// [`Error::Short`] if the job ends below its minimal sampling rate, for example because the
    /// peer doesn't answer, refuses the job, or doesn't read. The error names each group that is
    /// short, and carries the report of what was delivered.
    pub fn finish(self) -> Result<Report, Error> {
        self.end(Command::Finish)
    }

    /// Ends the input without waiting for the receiver: [`Job::finish`] in two steps.
    /// [`Job::try_outcome`] is the second.
    pub fn begin_finish(&self) {
        self.shared.command(Command::Finish);
    }

    /// Ends the job without waiting for the receiver: [`Job::cancel`] in two steps.
    /// [`Job::try_outcome`] is the second.
    pub fn begin_cancel(&self) {
        self.shared.command(Command::Cancel);
    }

    /// The report of a job that has ended, once; `None` before its end. [`Job::changed_fd`] shows
    /// when to try again.
    ///
    /// # Errors
    /// As [`Job::finish`]; [`Error::Thread`] after the call that returned the report.
    pub fn try_outcome(&mut self) -> Result<Option<Report>, Error> {
        match self.shared.try_outcome() {
            None => Ok(None),
            Some(outcome) => {
                self.join();
                report(outcome).map(Some)
            }
        }
    }

    fn end(mut self, command: Command) -> Result<Report, Error> {
        self.shared.command(command);
        let outcome = self.shared.outcome();
        self.join();
        report(outcome)
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // `Shared::set_thread_gone` has reported a panic of the thread already.
            let _ = thread.join();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shared.command(Command::Abandon);
            self.join();
        }
    }
}

fn report(outcome: Option<Outcome>) -> Result<Report, Error> {
    match outcome {
        Some(Ok(report)) => Ok(report),
        Some(Err(shortfall)) => Err(failed(shortfall)),
        None => Err(thread_died()),
    }
}

/// The error of a job that has failed, or that another thread has abandoned.
fn failed(shortfall: Box<Shortfall>) -> Error {
    match shortfall.cause {
        ShortCause::Abandoned => Error::Ended,
        _ => Error::Short(shortfall),
    }
}

fn refused(group: u8, error: PutError) -> Error {
    match error {
        PutError::TooMany(messages) => Error::TooMany { messages },
        PutError::NoGroup => Error::NoGroup(group),
        PutError::Ended => Error::Ended,
        PutError::Failed(shortfall) => failed(shortfall),
        PutError::NoThread => thread_died(),
    }
}

fn thread_died() -> Error {
    Error::Thread(io::Error::other("the sender thread ended without a result"))
}
