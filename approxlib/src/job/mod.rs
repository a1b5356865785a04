//! A job, seen from its sender.

mod account;
mod builder;
mod mailbox;
mod open;
mod spare;
mod store;
mod transmit;
mod worker;

pub use builder::JobBuilder;
pub use mailbox::Progress;

use crate::{
    error::{Error, ShortCause},
    report::Report,
};
use mailbox::{Mailbox, Refusal, Wishes};
use std::{io, net::SocketAddr, sync::Arc, thread::JoinHandle};

/// The group of every message, as long as a job has one.
const GROUP: u8 = 0;

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

    /// Hands a message over and returns its id (counted from 0). The data is copied, once. Waits
    /// while the buffer is full.
    ///
    /// Once the receiver has all that the job needs (N was announced, `ceil(MSR * N)` are there),
    /// further messages are accepted and not sent.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::TooMany`] for what the job doesn't allow; [`Error::Short`]
    /// if the job has failed meanwhile.
    pub fn send(&mut self, message: &[u8]) -> Result<u32, Error> {
        if message.len() > self.message_bytes_max {
            let bytes_max = self.message_bytes_max;
            return Err(Error::TooLarge { bytes: message.len(), bytes_max });
        }
        let message = self.spares.copy(message);
        self.mailbox.put(message, &mut self.spares).map_err(|refusal| match refusal {
            Refusal::TooMany(messages) => Error::TooMany { messages },
            Refusal::Failed(shortfall) => Error::Short(shortfall),
            Refusal::NoThread => thread_died(),
        })
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
    pub fn finish(mut self) -> Result<Report, Error> {
        self.mailbox.wish(Wishes { finish: true, abandon: false });
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
            self.mailbox.wish(Wishes { finish: false, abandon: true });
            self.join();
        }
    }
}

fn thread_died() -> Error {
    Error::Thread(io::Error::other("it ended without a result"))
}
