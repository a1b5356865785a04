//! Asking a receiver for the progress of its jobs.

use super::{Receiver, SourceProgress};
use crate::error::Error;
use std::io;

impl Receiver {
    /// The progress of all running jobs of which a message has arrived, in no particular order.
    /// [`Event::Started`](crate::Event::Started) tells their N and MSR. The call asks the
    /// receiver's thread and waits for its answer: milliseconds, and a second at most. A receiver
    /// whose thread has ended has no running jobs.
    ///
    /// # Errors
    /// [`Error::Thread`] if the thread hasn't answered within a second. Call again.
    pub fn progress(&self) -> Result<Vec<SourceProgress>, Error> {
        let late = "the receiver thread has not answered within a second: call again";
        let late = || Error::Thread(io::Error::new(io::ErrorKind::TimedOut, late));
        self.queue.progress().ok_or_else(late)
    }

    /// Asks for the progress without waiting. [`Receiver::try_progress`] takes the number returned.
    pub fn ask_progress(&self) -> u64 {
        self.queue.ask_progress()
    }

    /// The answer to [`Receiver::ask_progress`] or a later one; `None` while there is none.
    /// [`Receiver::readable_fd`] doesn't show it: try again after a millisecond.
    pub fn try_progress(&self, asked: u64) -> Option<Vec<SourceProgress>> {
        self.queue.try_progress(asked)
    }
}
