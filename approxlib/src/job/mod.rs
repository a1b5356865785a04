//! A job, seen from its sender.

mod account;
mod builder;
mod data;
mod fanout;
mod group;
mod mailbox;
mod open;
mod spare;
mod store;
mod stream;
mod transmit;
mod windows;
mod worker;

pub use builder::JobBuilder;
pub use fanout::Fanout;
pub use group::Group;
pub use mailbox::Progress;
pub use stream::Stream;

use crate::{
    error::{Error, ShortCause},
    report::Report,
};
use atp_proto::MsrError;
use data::Data;
use mailbox::{Command, Handed, Mailbox, Refusal};
use std::{io, net::SocketAddr, sync::Arc, thread::JoinHandle};

/// The sending side of an approximate job: messages to one receiver, of which a share must arrive.
///
/// A background thread (`atp-sender`) does the sending, also while the application does something
/// else. Dropping a job before [`Job::finish`] abandons it: what was not delivered is lost.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// let mut job = approxlib::Job::builder()
///     .messages(1_000)
///     .msr(0.8)
///     .connect("10.0.0.9:4747".parse().unwrap())?;
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
    mailbox: Arc<Mailbox>,
    spares: spare::Spares,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// The options of a job.
    pub fn builder() -> JobBuilder {
        JobBuilder::default()
    }

    /// The job's id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The receiver.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// `ebpf` or `userspace`: what the job started with.
    pub fn datapath(&self) -> &str {
        self.datapath
    }

    /// `fq`, `htb` or `userspace`.
    pub fn pacing(&self) -> &str {
        &self.pacing
    }

    /// Hands a message of group 0 over: see [`Job::send_in`].
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        self.send_in(0, message)
    }

    /// Hands a message of `group` over and returns its id (counted from 0 in its group and window).
    /// The data is copied, once. Waits while the buffer is full.
    ///
    /// Once the receiver has all that the job needs (N was announced, `ceil(MSR * N)` are there),
    /// further messages are accepted and not sent.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::TooMany`] and [`Error::NoGroup`] for what the job doesn't allow;
    /// [`Error::Short`] if the job has failed meanwhile.
    pub fn send_in(&mut self, group: u8, message: &[u8]) -> Result<u32, Error> {
        self.check_len(message.len())?;
        let data = Data::Own(self.spares.copy(message));
        self.hand_over(group, data)
    }

    /// The same without a copy: packets are read from the application's memory, of which the job lets go
    /// when the message has a receipt, or isn't needed.
    ///
    /// # Errors
    /// As [`Job::send_in`].
    pub fn send_shared(&mut self, group: u8, message: Arc<[u8]>) -> Result<u32, Error> {
        self.check_len(message.len())?;
        self.hand_over(group, Data::Shared(message))
    }

    fn check_len(&self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.message_bytes_max;
        if bytes > bytes_max { Err(Error::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }

    fn hand_over(&mut self, group: u8, data: Data) -> Result<u32, Error> {
        self.mailbox.put(Handed { group, data }, &mut self.spares).map_err(
            |refusal| match refusal {
                Refusal::TooMany(messages) => Error::TooMany { messages },
                Refusal::NoGroup => Error::NoGroup(group),
                Refusal::Failed(shortfall) => Error::Short(shortfall),
                Refusal::NoThread => thread_died(),
            },
        )
    }

    /// Changes the minimal sampling rate of a group while the job runs, as frameworks do that learn the
    /// error of their answer. An exact group stays exact; another may be raised to 1, and stays
    /// approximate traffic. Once the receiver was asked for the end, the rate can only fall.
    ///
    /// # Errors
    /// [`Error::Msr`] for what is no rate, [`Error::MsrRefused`] with the reason.
    pub fn set_msr(&mut self, group: u8, msr: f64) -> Result<(), Error> {
        let msr = group::parse_msr(msr)?;
        match self.mailbox.set_msr(group, msr) {
            Some(answer) => Ok(answer?),
            None => Err(Error::MsrRefused(MsrError::Ending)),
        }
    }

    /// Ends the job now: nothing more is sent, and the receiver is told what it won't get. Waits for
    /// its answer and reports what has arrived, which is enough only by chance.
    ///
    /// # Errors
    /// [`Error::Short`] if the receiver doesn't answer, or the job had failed before.
    pub fn cancel(self) -> Result<Report, Error> {
        self.end(Command::Cancel)
    }

    /// Where the job stands; at most 50 ms old.
    pub fn progress(&self) -> Progress {
        self.mailbox.progress()
    }

    /// Says that no more messages come and waits until the receiver has confirmed that it has what
    /// the job needs. Without an announced N, N is what was sent.
    ///
    /// # Errors
    /// [`Error::Short`] if the job ends below its minimal sampling rate: the peer fell silent,
    /// refused, or doesn't read. It says which group is short by how much, and carries the report
    /// of what was delivered.
    pub fn finish(self) -> Result<Report, Error> {
        self.end(Command::Finish)
    }

    /// Says that no more messages come, and doesn't wait.
    fn begin_finish(&self) {
        self.mailbox.command(Command::Finish);
    }

    fn end(mut self, command: Command) -> Result<Report, Error> {
        self.mailbox.command(command);
        let outcome = self.mailbox.outcome();
        self.join();
        match outcome {
            Some(Ok(report)) => Ok(report),
            Some(Err(shortfall)) => {
                debug_assert!(shortfall.cause != ShortCause::Abandoned);
                Err(Error::Short(shortfall))
            }
            None => Err(thread_died()),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic there was told through the mailbox.
            let _ = thread.join();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.mailbox.command(Command::Abandon);
            self.join();
        }
    }
}

fn thread_died() -> Error {
    Error::Thread(io::Error::other("it ended without a result"))
}
