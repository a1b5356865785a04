//! The interface between a host and the endpoints of its flows.

use super::Packet;
use atp_common::units::{Rate, Share};

/// One end of a flow.
pub trait Endpoint {
    /// A packet of the flow arrived.
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet);

    /// The time that [`Endpoint::wake_ps`] named has come.
    fn wake(&mut self, _context: &mut Context<'_>) {}

    /// When to be woken, unless something happens before. It may lie in the past.
    fn wake_ps(&self) -> Option<u64> {
        None
    }

    /// Earliest time at which it may have a data packet for the line. The host serves the endpoint
    /// with the earliest time first. `None`: not before the next event.
    fn ready_ps(&self) -> Option<u64> {
        None
    }

    /// The next data packet, if there is one after all. The host calls it only when the line is
    /// free.
    fn next_packet(&mut self, _now_ps: u64) -> Option<Packet> {
        None
    }

    /// It has to request data from its peer. The host's pull queue decides when: it serves all
    /// flows round-robin, at the rate of the line.
    fn wants_pull(&self) -> bool {
        false
    }

    /// Requests data. Returns the bytes on the wire that the requested data takes. Called only if
    /// [`Endpoint::wants_pull`].
    fn pull(&mut self, _context: &mut Context<'_>) -> u32 {
        0
    }

    /// The application queues a message of so many bytes.
    fn queue(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// The application has no more messages.
    fn finish(&mut self, _context: &mut Context<'_>) {}

    /// The sender knows that the job has what it needs. Only of schemes that stop by themselves.
    fn has_ended(&self) -> bool {
        false
    }

    /// The present state of its control laws, if it has such laws.
    fn probe(&self) -> Option<Probe> {
        None
    }

    /// The job has what it needs: unsent data is dropped. Not for schemes that stop by themselves.
    fn stop(&mut self) {}
}

/// The state of a sender's control laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Target loss rate (NetApprox §4.2, Eq. 1).
    pub tlr: Share,
    /// Loss rate of the epoch that was evaluated last.
    pub loss: Share,
    /// Sending rate, in bytes as the laws count them.
    pub rate: Rate,
    /// The switches' queue of its packets.
    pub queue: u8,
    /// Number of epochs evaluated so far.
    pub epochs_evaluated: u32,
    /// Bytes of data sent so far, counted as in `rate`.
    pub sent_bytes: u64,
}

/// The time, and the outputs of an endpoint's call.
#[derive(Debug)]
pub struct Context<'a> {
    /// Current time, picoseconds.
    pub now_ps: u64,
    /// Control packets to send, before any data.
    pub out: &'a mut Vec<Packet>,
    /// Number of messages delivered to the application: the endpoint adds to it.
    pub delivered: &'a mut u32,
}

impl Context<'_> {
    /// Current time, nanoseconds.
    pub const fn now_ns(&self) -> u64 {
        self.now_ps / crate::engine::NS
    }
}
