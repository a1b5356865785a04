//! A bounded-loss transport in the manner of MLT (Wang et al., "Towards Domain-Specific Network
//! Transport for Distributed DNN Training", NSDI 2024; as DLCP, arXiv 2008.08445, 2020): losses
//! within a bound that both ends know aren't retransmitted.
//!
//! Rules, from other papers' reports (the paper's text was not at hand, so no section is cited):
//!
//! - Both ends know the share p of the data that may be lost. After a share of 1 - p, the receiver
//!   sends a stop, and the sender stops. Here p is 1 - MSR, of a job's messages.
//! - New data goes before retransmissions. A sender without new data sends a probe, the receiver
//!   answers with a bitmap, and the sender retransmits all missing packets. This repeats until the
//!   receiver has enough.
//! - Packets are independent: they may arrive in any order.
//! - Rate control is weak, just enough to prevent collapse. DLCP's is like DCTCP's: additive steps,
//!   and reductions by the share of marked packets. MLT's uses delay.
//!
//! Differences:
//!
//! - Switches have one queue that marks, since no message here is more important than another.
//!   MLT's switches prefer the gradients of the first layers and the large ones, and drop the
//!   others first.
//! - A sender begins at the rate of its line.
//! - The stop isn't sent on a reliable channel. It answers every packet that still arrives.
//!
//! A sender sends everything until it is stopped, which is NetApprox's EarlySend. A drawn sample
//! would be too small after any loss. OptiReduce (NSDI 2025) bounds the time of an iteration
//! instead of its loss. Jobs could then miss their share, so it is not a scheme here.

mod body;
mod rate;
mod receiver;
mod sender;

pub use body::MltBody;
pub use receiver::MltReceiver;
pub use sender::MltSender;

use super::{ECN_THRESHOLD_PACKETS, Policy, Spec, wire_bytes};
use crate::net::PortQueues;

/// The scheme. Its senders follow EarlySend only.
pub static SPEC: Spec = Spec {
    title: "MLT",
    description: "a bounded-loss transport in the manner of MLT",
    names: &[("mlt-es", Policy::EarlySend)],
    color: [230, 159, 0],
    variant_colors: &[],
    takes_laws: false,
    features: &[],
    stops_by_itself: true,
    shares_buffer: true,
    sprays: false,
    queues: |environment, _| PortQueues::single(ECN_THRESHOLD_PACKETS, environment.buffer_bytes),
    ends: |route, environment, _, total| {
        let settings = MltSettings {
            round_trip_ps: environment.round_trip_ps(MltSettings::ROUND_TRIP_BYTES),
            bits_per_s: environment.bits_per_s,
            needed: environment.msr.needed(total),
        };
        let sender = MltSender::new(route, settings);
        (Box::new(sender), Box::new(MltReceiver::new(route, settings.needed)))
    },
};

/// IP and UDP headers, and 24 bytes: packet number, transmission, and position of the first
/// message.
const HEADER_BYTES: u32 = 20 + 8 + 24;
/// Bytes of messages in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_500 - HEADER_BYTES;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(1_500);
/// An acknowledgment, a probe, or a stop on the wire.
const SHORT_PACKET_BYTES: u32 = wire_bytes(HEADER_BYTES);
/// Packets covered by an answer to a probe: one bit each.
const BITMAP_PACKETS_MAX: u32 = SEGMENT_BYTES_MAX * 8;

/// Settings of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MltSettings {
    /// Round-trip time of a full packet and its acknowledgment, with empty queues.
    pub round_trip_ps: u64,
    /// The rate of the sender's line, which is the initial rate.
    pub bits_per_s: u64,
    /// Number of messages that the receiver needs.
    pub needed: u32,
}

impl MltSettings {
    /// Lengths on the wire of a full packet and of its acknowledgment, which define the round trip.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, SHORT_PACKET_BYTES);

    /// The time without an answer after which a sender slows down, or probes again.
    const fn timeout_ps(&self) -> u64 {
        10 * self.round_trip_ps
    }
}
