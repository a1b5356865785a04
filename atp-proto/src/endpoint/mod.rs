//! The endpoint of a receiving host: any number of senders at one port.
//!
//! The caller gives it each packet ([`Endpoint::on_buffer`], [`Endpoint::on_packet`]) and the time
//! ([`Endpoint::handle_timeout`]), hands its [events](Endpoint::take_events) to the application and
//! sends its [replies](Endpoint::replies).
//!
//! The path of a packet:
//!
//! 1. `on_packet` finds the packet's sender in `sources`. A newcomer takes a place (`places`), or
//!    `sources` evicts a sender whose job has ended or that is silent. A sender that left the table
//!    has a tombstone (`tombstones`).
//! 2. The sender's transport ([`Receiver`](crate::Receiver)) takes the packet.
//! 3. Complete messages become `events`; ACKs, receipts and RESETs become `replies`.
//!
//! `on_fin` answers a FIN, also a repeated one, and that of a sender that left the table. `leave`
//! is the end of the receiver itself.

mod candidates;
mod datagram;
mod ends;
mod events;
mod lanes;
mod leave;
mod on_fin;
mod on_packet;
mod places;
mod progress;
mod replies;
mod requests;
mod reset_limiter;
mod source;
mod source_lanes;
mod sources;
mod stats;
mod tombstones;

pub use datagram::{Buffer, Datagram};
pub use ends::{Ends, PeerIp, canonical};
pub use events::{Event, EventKind};
pub use lanes::{Arrived, Host, Lanes};
pub use progress::{GroupArrivals, SourceProgress};
pub use replies::Replies;
pub use requests::{Request, RequestKind};
pub use source_lanes::SourceLanes;
pub use sources::Admission;
pub use stats::{Refusals, Stats};

use crate::Budget;
use leave::Leaving;
use reset_limiter::ResetLimiter;
use source::Source;
use sources::Sources;
use std::{net::SocketAddr, sync::Arc};

/// Windows of a job that can be open at once. Each has receipts of its own.
const OPEN_WINDOWS_MAX: usize = 2;

/// The receiving side of all jobs that arrive at one port.
///
/// `L`: each sender's lanes, as the host keeps them to advise them; `()` for a host without advice.
pub struct Endpoint<L> {
    sources: Sources<L>,
    resets: ResetLimiter,
    stats: Stats,
    replies: Replies,
    events: Vec<Event>,
    /// Set when the receiver has begun to leave.
    leaving: Option<Leaving>,
}

impl<L: Lanes> Endpoint<L> {
    /// An endpoint without senders.
    pub fn new(admission: Admission) -> Self {
        let bytes_max = admission.memory_bytes_max.max(admission.transport.budget_bytes_min());
        Self::with_budget(admission, Budget::new(bytes_max))
    }

    /// An endpoint whose senders share `budget`, perhaps with those of other endpoints. Then
    /// [`Admission::memory_bytes_max`] has no effect, and [`Stats::memory_bytes`] is that of all. A
    /// budget below [`ReceiverConfig::budget_bytes_min`](crate::ReceiverConfig::budget_bytes_min)
    /// refuses long messages.
    pub fn with_budget(admission: Admission, budget: Arc<Budget>) -> Self {
        Self {
            resets: ResetLimiter::new(admission.secret),
            sources: Sources::new(admission, budget),
            stats: Stats::default(),
            replies: Replies::default(),
            events: Vec::new(),
            leaving: None,
        }
    }

    /// Whether the first receipts to new senders say that this host gives advice.
    pub fn set_gives_advice(&mut self, gives_advice: bool) {
        self.sources.set_gives_advice(gives_advice);
    }

    /// Writes the receipts and requests that are due, and takes the advice that has changed. After
    /// [`Self::leave`] there are none.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        if self.leaving.is_some() {
            return;
        }
        for source in self.sources.iter_mut() {
            source.take_advice();
            let ends = source.ends();
            for _ in 0..OPEN_WINDOWS_MAX {
                if source.transport.receipt_due(now_ns) {
                    self.replies.control(ends, |out| source.transport.write_receipt(now_ns, out));
                }
            }
            if source.transport.request_due(now_ns) {
                self.replies.control(ends, |out| source.transport.write_request(now_ns, out));
            }
        }
    }

    /// When [`Self::handle_timeout`] is due next; `None` if not before the next packet, request or
    /// advice.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.leaving.is_some() {
            return None;
        }
        self.sources.iter().filter_map(|source| source.transport.poll_timeout()).min()
    }

    /// Forgets senders whose job has ended or that have been silent for too long. Call about once a
    /// second.
    pub fn expire(&mut self, now_ns: u64) {
        self.sources.expire(now_ns);
    }

    /// The packets to send. Clear them after each batch: they are kept until then.
    pub fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// The events for the application since the last call. Take them after each batch.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.events.drain(..)
    }

    /// Counters since the beginning.
    pub fn stats(&self) -> Stats {
        Stats {
            sources: self.sources.len() as u32,
            evicted: self.sources.evicted(),
            memory_bytes: self.sources.memory_bytes(),
            ..self.stats
        }
    }

    /// The lanes of all senders, with the senders' addresses.
    pub fn lanes_mut(&mut self) -> impl Iterator<Item = (SocketAddr, &mut L)> {
        self.sources.iter_mut().map(|source| (source.key.address, &mut source.lanes))
    }

    /// Ends the advice to all lanes: its giver has gone.
    pub fn end_advice(&mut self) {
        self.sources.iter_mut().for_each(Source::end_advice);
    }
}
