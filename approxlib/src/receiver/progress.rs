//! The progress of the jobs that a receiver serves.

use super::{Receiver, source::Source};
use crate::{address::canonical, error::Error};
use serde::{Deserialize, Serialize};
use std::{io, net::SocketAddr};

/// The progress of one sender's job, or of the present window of its stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The sender's address.
    pub source: SocketAddr,
    /// The job's id.
    pub job: u32,
    /// The window of a stream, counted from 0; 0 for other jobs.
    pub window: u32,
    /// One entry per group of which a message has arrived, by id.
    pub groups: Vec<GroupArrivals>,
}

/// The progress of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupArrivals {
    /// The group's id.
    pub group: u8,
    /// Complete messages, also those that [`Receiver::recv`] has not returned yet.
    pub delivered: u32,
}

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

/// For the receiver thread: the progress of a sender, unless its job has ended.
pub fn of_source(source: &Source) -> Option<SourceProgress> {
    if source.delivered() == 0 || source.transport.is_finished() {
        return None;
    }
    let arrivals = |(group, delivered)| GroupArrivals { group, delivered };
    let mut groups: Vec<_> = source.transport.delivered_by_group().map(arrivals).collect();
    groups.sort_unstable_by_key(|group| group.group);
    Some(SourceProgress {
        source: canonical(source.key.address),
        job: source.key.job,
        window: source.transport.window(),
        groups,
    })
}
