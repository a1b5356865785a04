//! The sending side of a job: its options, its handle for the application, and its sender thread.
//!
//! The path of one message:
//!
//! 1. [`Job::send_in`] copies the message and puts it into [`shared`], the state that the
//!    application's thread and the sender thread have in common. It blocks there while the buffer
//!    is full.
//! 2. [`thread`] takes it out. Once its window has begun, `atp_proto::flow::Job` queues it in the
//!    transport (`atp_proto::Sender`).
//! 3. `thread::transmit` asks the transport which packets to send, and the datapath when they may
//!    leave. It gives them to the socket in batches (`crate::udp`).
//! 4. `thread` reads acknowledgments and receipts, and releases the message's memory.
//! 5. `flow::Job` notices the ends of windows and of the job. `thread::reporting` writes the
//!    reports, for which [`Job::end_window`] and [`Job::finish`] wait.

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
mod send;
mod shared;
mod thread;
mod windows;

pub use fanout::Fanout;
pub use group::Group;
pub use handle::JobHandle;
pub use options::JobBuilder;
pub use progress::Progress;
pub use requests::Requests;

use crate::{
    error::{Error, ShortCause, Shortfall},
    report::Report,
};
use atp_proto::MsrError;
use data::MessageCopy;
pub(crate) use group::parse_msr;
use shared::{Command, Outcome, PutError, Shared};
use std::{io, net::SocketAddr, os::fd::BorrowedFd, sync::Arc, thread::JoinHandle};
use windows::WindowInput;

/// The sending side of an approximate job: messages to one receiver, of which a share must arrive.
/// It may end [windows](Job::end_window) before its own end.
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
    windows: WindowInput,
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

    /// A descriptor for `poll`, `epoll` and their like. It is readable when a `try_` call that gave
    /// nothing may give something, such as [`Job::try_send_in`] and [`Job::try_outcome`]. Only such
    /// a call makes it unreadable again, and after the job's end none does.
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

    /// Changes the minimal sampling rate of a group, from the current window on. After
    /// [`Job::end_window`], or after [`Job::begin_end_window`] with overlapping windows, that is
    /// the window of the next message. The call waits for the job's thread only, never for the
    /// network.
    ///
    /// - An exact group (opened with an MSR of 1) stays exact: its rate can't change.
    /// - An approximate group may be raised to 1. Its packets stay approximate traffic.
    /// - Once the sender has asked the receiver to confirm the end, the rate can only fall. A job
    ///   with an announced N asks by itself.
    ///
    /// # Errors
    /// [`Error::Msr`] if `msr` is not between 0 and 1; [`Error::MsrRefused`] with the reason.
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        let msr = group::parse_msr(msr)?;
        match self.shared.set_msr(group, msr, self.windows.is_between()) {
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

    /// The job's progress, at most 50 ms old; the rate of an idle job at most a second. The number
    /// of messages is always current.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Ends the input: no more messages follow, in the current window or another one. Waits until
    /// the receiver confirms that it has `ceil(MSR * N)` messages of every group. N is the number
    /// of messages sent, even if more were announced.
    ///
    /// The report has fewer messages if the deadline of the last window has passed, or the receiver
    /// has ended the job: [`Report::canceled`] or [`Report::ended_by_receiver`] tells which.
    ///
    /// After [`Job::end_window`] the receiver expects another window, so an empty one follows. The
    /// report counts it, its groups are those of the empty window, and the receiver's
    /// [`Event::Finished`](crate::Event::Finished) belongs to it.
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
