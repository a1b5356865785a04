//! The receiving side: messages from any number of senders, at one UDP port.
//!
//! The path of a packet:
//!
//! 1. [`thread`], the receiver thread, reads a batch of GRO buffers from the socket (`crate::udp`).
//! 2. The endpoint (`atp_proto::endpoint`) finds the packet's sender, gives the packet to that
//!    sender's transport, and collects messages as events and packets to send back.
//!    [`arrival`] counts the packet for advice.
//! 3. [`send_replies`] sends ACKs, receipts and other packets back.
//! 4. [`event_queue`] hands the events to the application, which takes them by [`Receiver::recv`].

mod acknowledger;
mod advice;
mod advised_lanes;
mod arrival;
mod arriving;
mod builder;
mod coalescing;
mod counted_lane;
mod event_queue;
mod events;
mod own_addresses;
mod progress;
mod requests;
mod send_replies;
mod thread;

pub use atp_proto::endpoint::{GroupArrivals, Refusals, SourceProgress, Stats as ReceiverStats};
pub use builder::ReceiverBuilder;
pub use events::{Event, GroupSummary, GroupTerms, Summary, Terms};
pub use requests::RateRequest;

use crate::error::Error;
use atp_proto::endpoint;
use event_queue::EventQueue;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    os::fd::BorrowedFd,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Receives messages of approximate jobs, from any number of senders at one UDP port.
///
/// A background thread (`atp-receiver`) reads the socket, assembles messages, and sends receipts to
/// the senders while the application is busy. If the application falls behind by more than
/// [`ReceiverBuilder::buffer_bytes`], the thread stops reading. Packets that don't fit the socket's
/// buffer are then lost, and the senders slow down and retransmit.
///
/// Dropping the receiver tells the senders of unfinished jobs that it is gone. It waits until the
/// senders of ended jobs know of the end: see [`ReceiverBuilder::linger`].
///
/// ```no_run
/// # fn main() -> Result<(), approxlib::Error> {
/// use approxlib::{Event, Receiver};
/// let mut receiver = Receiver::builder().bind("0.0.0.0:4747")?;
/// while let Some(event) = receiver.recv(None)? {
///     match event {
///         Event::Message { message, data, .. } => println!("{message}: {} bytes", data.len()),
///         Event::Finished { summary, .. } => {
///             println!("{} of {} messages", summary.delivered, summary.messages);
///             break;
///         }
///         Event::Started { terms, .. } => println!("{:?} messages", terms.groups[0].messages),
///         Event::TermsChanged { .. } | Event::WindowEnded { .. } => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    local: SocketAddr,
    datapath: &'static str,
    queue: Arc<EventQueue>,
    /// Events taken from the queue, but not yet returned by `recv`.
    ready: VecDeque<endpoint::Event>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// The options of a receiver, at their defaults.
    pub fn builder() -> ReceiverBuilder {
        ReceiverBuilder::default()
    }

    /// The address that the receiver is bound to, with the port that the kernel chose.
    ///
    /// # Errors
    /// None at present.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        Ok(self.local)
    }

    /// The datapath with which the receiver started: `ebpf` if a daemon's programs acknowledge
    /// packets, else `userspace`.
    pub fn datapath(&self) -> &str {
        self.datapath
    }

    /// Returns the next event: a complete message, the end of a window, or the end of a job.
    ///
    /// Waits up to `timeout`, or without limit if it is `None`. Returns `None` if no event came.
    ///
    /// # Errors
    /// [`Error::Socket`] if the socket fails; [`Error::Thread`] if the receiver thread has ended.
    pub fn recv(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, Error> {
        if self.ready.is_empty() {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            self.queue.take(&mut self.ready, deadline)?;
        }
        Ok(self.ready.pop_front().map(Event::from))
    }

    /// A descriptor for `poll`, `epoll` and their like. It is readable when [`Receiver::recv`] may
    /// return an event or an error at once. Then call `recv` with a timeout of zero until it
    /// returns `None`: only that makes the descriptor unreadable again.
    ///
    /// # Errors
    /// [`Error::Thread`] if this process can't have another descriptor.
    pub fn readable_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.queue.readable().map_err(Error::Thread)
    }

    /// Returns the memory of a message to the receiver, for later messages.
    ///
    /// The call is optional. With messages of tens of kilobytes at gigabits per second it saves the
    /// system from unmapping their pages and zeroing new ones.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// # use approxlib::{Event, Receiver};
    /// # let mut receiver = Receiver::builder().bind("0.0.0.0:4747")?;
    /// if let Some(Event::Message { data, .. }) = receiver.recv(None)? {
    ///     println!("{} bytes", data.len());
    ///     receiver.recycle(data);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn recycle(&mut self, data: Vec<u8>) {
        self.queue.recycle(data);
    }

    /// Counters of the receiver, up to now.
    pub fn stats(&self) -> ReceiverStats {
        self.queue.stats()
    }
}

/// Stops the receiver thread, which tells the senders of unfinished jobs that the receiver is gone.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(thread) = self.thread.take() {
            // `EventQueue::set_thread_gone` has reported a panic of the thread already.
            let _ = thread.join();
        }
    }
}
