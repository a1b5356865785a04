//! A bounded-loss transport in the manner of MLT (Wang et al., "Towards Domain-Specific Network Transport
//! for Distributed DNN Training", NSDI 2024; as DLCP, arXiv 2008.08445, 2020): what is lost within a
//! bound that both ends know isn't sent again.
//!
//! Its paper's rules, as those who read it report them (its text was not at hand, so no section is
//! named):
//!
//! - Both ends know the share p of the data that may be lost. When 1 - p of it is here, the receiver says
//!   so, and the sender stops. Here p is 1 - MSR, and of a job's messages.
//! - Nothing is sent again while there is something that was never sent. A sender that is through asks
//!   what is missing; the receiver answers with a bitmap; and all that is missing is sent again, until
//!   the receiver has enough.
//! - Packets stand for themselves: they may come in any order.
//! - Little rate control, just so much that the network doesn't collapse: DLCP's is like DCTCP's, by
//!   additive steps and by the share of marked packets. MLT's goes by delay.
//!
//! What differs: switches have one queue that marks, since no message here is more important than another
//! (MLT's prefer the gradients of the first layers and the large ones, and drop the others first); a
//! sender begins at the rate of its line; the word that stops it isn't on a reliable channel, but
//! answers whatever still comes.
//!
//! A sender sends all that it has until it is stopped, which is NetApprox's EarlySend: a drawn sample of
//! which some may be lost would be too small. OptiReduce (NSDI 2025) bounds the time of a round instead of
//! its loss, which leaves a job that needs its share with less than that: it is no scheme of its own
//! here.

mod rate;
mod receiver;
mod sender;

pub use receiver::MltReceiver;
pub use sender::MltSender;

use super::wire_bytes;

/// IP's and UDP's headers, and 24 bytes: packet number, transmission, and where the first message begins.
const HEADER_BYTES: u32 = 20 + 8 + 24;
/// Bytes of messages in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_500 - HEADER_BYTES;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(1_500);
/// An acknowledgement, a probe, or a stop on the wire.
const SHORT_PACKET_BYTES: u32 = wire_bytes(HEADER_BYTES);
/// What an answer to a probe can tell of: one bit for each packet.
const BITMAP_PACKETS_MAX: u32 = SEGMENT_BYTES_MAX * 8;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MltSettings {
    /// What a full packet and its acknowledgement take where nothing waits.
    pub round_trip_ps: u64,
    /// The rate of the sender's line, with which it begins.
    pub bits_per_s: u64,
    /// How many messages the receiver needs.
    pub needed: u32,
}

impl MltSettings {
    /// What a full packet takes on the wire, and what its acknowledgement does: a round trip is of these
    /// two.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, SHORT_PACKET_BYTES);

    /// Without a word for so long, a sender slows down, or asks again.
    const fn timeout_ps(&self) -> u64 {
        10 * self.round_trip_ps
    }
}
