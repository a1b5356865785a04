//! The interface between a host and the endpoints of its flows.

use super::{HostState, Packet};
use atp_common::units::{Rate, Share};

/// One end of a flow.
pub trait Endpoint {
    /// Handles an arrived packet of the flow.
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet);

    /// Handles the time that [`Endpoint::wake_ps`] named.
    fn wake(&mut self, _context: &mut Context<'_>) {}

    /// The time of the next wake-up, unless an earlier event changes it. It may lie in the past.
    fn wake_ps(&self) -> Option<u64> {
        None
    }

    /// Earliest time at which the endpoint may have a data packet for the line. The host serves the
    /// endpoint with the earliest time first. `None` means not before the next event.
    fn ready_ps(&self) -> Option<u64> {
        None
    }

    /// The next data packet, if there is one after all. The host calls this only when the line is
    /// free.
    fn next_packet(&mut self, _now_ps: u64) -> Option<Packet> {
        None
    }

    /// Whether the endpoint has to request data from its peer. The host's pull queue decides when:
    /// it serves all flows round-robin, at the rate of the line.
    fn wants_pull(&self) -> bool {
        false
    }

    /// Requests data, and returns the requested bytes on the wire. Called only if
    /// [`Endpoint::wants_pull`].
    fn pull(&mut self, _context: &mut Context<'_>) -> u32 {
        0
    }

    /// Queues a message of `bytes` bytes from the application.
    fn queue(&mut self, _context: &mut Context<'_>, _bytes: u32) {}

    /// Notes that the application has no more messages.
    fn finish(&mut self, _context: &mut Context<'_>) {}

    /// Whether the sender knows that its job is complete. Only for schemes that stop by themselves.
    fn has_ended(&self) -> bool {
        false
    }

    /// The present state of the sender's control laws, if it has any.
    fn probe(&self) -> Option<Probe> {
        None
    }

    /// The sender's estimates of its path, if it keeps them for a later flow.
    fn path_state(&self) -> Option<PathState> {
        None
    }

    /// Starts from what an earlier flow of the same connection has learned, before any data.
    fn resume(&mut self, _state: PathState) {}

    /// Drops unsent data, because the job is complete. Not for schemes that stop by themselves.
    fn stop(&mut self) {}
}

/// The state of a sender's control laws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The target loss rate (NetApprox §4.2, Eq. 1).
    pub tlr: Share,
    /// The loss rate of the epoch evaluated last.
    pub loss: Share,
    /// Sending rate, in bytes as the laws count them.
    pub rate: Rate,
    /// The switch queue of the sender's packets.
    pub queue: u8,
    /// Number of epochs evaluated so far.
    pub epochs_evaluated: u32,
    /// Bytes of data sent so far, counted as in `rate`.
    pub sent_bytes: u64,
}

/// A TCP-like sender's estimates of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathState {
    /// The congestion window.
    pub window_bytes: f64,
    /// The slow-start threshold.
    pub threshold_bytes: f64,
    /// DCTCP's estimate of the share of marked bytes.
    pub alpha: f64,
    /// The smoothed RTT, 0 before the first sample, and its variation.
    pub round_trip_ps: (f64, f64),
}

/// The time and the outputs of a call to an endpoint.
#[derive(Debug)]
pub struct Context<'a> {
    /// Current time, picoseconds.
    pub now_ps: u64,
    /// Control packets to send before any data.
    pub out: &'a mut Vec<Packet>,
    /// Number of messages delivered to the application. The endpoint adds to it.
    pub delivered: &'a mut u32,
    /// State that all endpoints of the host share.
    pub host: &'a mut HostState,
}

impl Context<'_> {
    /// Current time, nanoseconds.
    pub const fn now_ns(&self) -> u64 {
        self.now_ps / crate::engine::NS
    }
}
