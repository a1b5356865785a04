//! The receiving side: messages from any number of senders, at one UDP port.

mod answers;
mod builder;
mod events;
mod fin_acks;
mod inbox;
mod registrar;
mod sources;
mod tombstones;
mod traffic;
mod turn;
mod worker;

pub use builder::ReceiverBuilder;
pub use events::{Event, GroupSummary, Summary};
pub use inbox::ReceiverStats;

use crate::error::Error;
use inbox::Inbox;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Receives messages of approximate jobs.
///
/// A background thread (`atp-receiver`) reads the socket, puts messages together, and tells the
/// senders what has arrived, also while the application is busy. When the application falls too
/// far behind, the thread stops reading: what the socket's buffer can't hold is lost, and the
/// senders notice.
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// use approxlib::{Event, Receiver};
/// let mut receiver = Receiver::builder().bind("0.0.0.0:4747".parse().unwrap())?;
/// while let Some(event) = receiver.recv(None)? {
///     match event {
///         Event::Message { message, data, .. } => println!("{message}: {} bytes", data.len()),
///         Event::Finished { summary, .. } => {
///             println!("{} of {} messages", summary.delivered, summary.messages);
///             break;
///         }
///         Event::WindowEnded { .. } => {} // Of streams only.
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    local: SocketAddr,
    datapath: &'static str,
    inbox: Arc<Inbox>,
    /// Events taken from the inbox and not handed out.
    ready: VecDeque<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// The options of a receiver.
    pub fn builder() -> ReceiverBuilder {
        ReceiverBuilder::default()
    }

    /// The address that it is bound to, with the port that the kernel chose.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        Ok(self.local)
    }

    /// `ebpf` if a daemon's programs acknowledge what arrives, else `userspace`: what the receiver
    /// started with.
    pub fn datapath(&self) -> &str {
        self.datapath
    }

    /// The next event: a whole message, or the end of a job. Waits for `timeout` at most, for ever
    /// without one; `None` if nothing came.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, Error> {
        if self.ready.is_empty() {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            self.inbox.take(&mut self.ready, deadline)?;
        }
        Ok(self.ready.pop_front())
    }

    /// Gives back the memory of a message, which the application has done with, for messages to come.
    /// Never needed; where messages of tens of kilobytes come at gigabits per second it saves the
    /// system from taking their pages away and zeroing others.
    pub fn give_back(&mut self, data: Vec<u8>) {
        self.inbox.give_back(data);
    }

    /// What was received so far.
    pub fn stats(&self) -> ReceiverStats {
        self.inbox.stats()
    }
}

/// Senders of unfinished jobs are told that the receiver is gone.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.inbox.stop();
        if let Some(thread) = self.thread.take() {
            // A panic there was told through the inbox.
            let _ = thread.join();
        }
    }
}
