//! Aeolus (Hu et al., SIGCOMM 2020) over ExpressPass (Cho et al., SIGCOMM 2017): receivers give out
//! credits, one for each packet, and whoever has none yet sends what the network has room for.
//!
//! **ExpressPass.** A receiver sends credits at a rate of its own ([`credits`]), jittered. Every port and
//! every host lets through as many as the data that answers them fills the line the other way, and drops
//! the others ([`Queueing::Credited`](crate::net::Queueing::Credited)): those are the law's signal. Data
//! goes the way of its credits in the other direction, which a hash that knows no direction sees to; with
//! a path for every packet, data takes the path of the credit that it answers.
//!
//! **Aeolus.** Until the first credit comes, a sender sends at line rate what one bandwidth-delay product
//! holds. Ports refuse such packets as soon as a little waits, so that they can't do harm. Each is
//! acknowledged, and a probe follows the last one, so that what is missing is known within a round trip;
//! it is sent again first of all, with credits.
//!
//! **Jobs of many messages.** Both papers know flows that begin, have a length, and end. Here a flow is a
//! job, whose messages come over time and stand one after the other in a byte stream, as DCTCP's do. A
//! sender that has had nothing to send for a round trip says so, and gets no more credits ("a small
//! timeout period", ExpressPass §3.1); at once, if the application has said that nothing follows. What
//! comes after that is a new flow in the sense of both papers: a request, a burst of unscheduled packets,
//! and the receiver's law from its beginning. While credits come, messages wait for the next one. A
//! credit that finds nothing to send is lost, and counts as lost: who has little to send is given little
//! more than that.
//!
//! **LossDetector** of data that has a credit can't happen unless others (exact jobs over DCTCP) fill the
//! switches' buffers. They are mended all the same: credits and acknowledgements say what is here.
//!
//! Numbers of sections are cited from memory. What the papers leave open is as in ExpressPass's authors'
//! simulator (kaist-ina/ns2-xpass): jitter of a tenth, a first rate of half the line's, a floor of a credit
//! for a round trip, 100 us until a request is repeated, a receiver's weights of round trips. Its credits
//! are 76 to 92 bytes long, here 84 to 92, as in the paper: Ethernet has none shorter. It also makes the
//! first rate smaller for flows of less than 40 packets; a request here doesn't know what comes after the
//! first message.
//!
//! One thing is read into Algorithm 1: a rate is evaluated by credits that were sent at that rate, so by a
//! round trip of credits, one round trip later. Evaluated by all credits of which it becomes known in a round
//! trip, as the text can be read too, four flows have 87 % of a line across the fat tree, for each loss
//! lowers their rates twice; this way all of what credits leave.

pub mod credits;
mod receiver;
mod sender;
mod unacknowledged;

pub use receiver::AeolusReceiver;
pub use sender::AeolusSender;

use super::{Route, wire_bytes};
use crate::{
    engine::{S, US},
    net::{Aeolus, Body, Label, Packet},
};

/// IP and TCP headers, with options: for the credit's number, and its time.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of the stream in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// A packet without data: the shortest that Ethernet has.
const CONTROL_BYTES: u32 = wire_bytes(0);

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AeolusSettings {
    /// What a full packet and a credit take where nothing waits, between the hosts that are farthest from
    /// each other.
    pub round_trip_ps: u64,
    /// The rate of the hosts' lines.
    pub bits_per_s: u64,
    /// Bytes on the wire that may leave before the first credit comes: one bandwidth-delay product (Aeolus
    /// §3.1). 0 is ExpressPass without Aeolus.
    pub unscheduled_bytes: u32,
}

impl AeolusSettings {
    /// What a full packet takes on the wire, and what a credit does: a round trip is of these two.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, crate::net::CREDIT_BYTES);

    /// The papers', for a fabric of such a round trip and rate.
    pub fn new(round_trip_ps: u64, bits_per_s: u64) -> Self {
        // 400 Gbit/s for a second is 2^36 bytes, and 2^79 on the way there.
        let bits = u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
        let unscheduled_bytes = u32::try_from(bits / 8).unwrap_or(u32::MAX);
        Self { round_trip_ps, bits_per_s, unscheduled_bytes }
    }

    /// How long a sender waits for a word.
    fn timeout_ps(&self) -> u64 {
        (4 * self.round_trip_ps).max(100 * US)
    }
}

/// A packet of `route`'s direction.
fn packet(route: Route, path: u32, dscp: u8, wire_bytes: u32, body: Aeolus) -> Packet {
    let label = Label { dscp, ..route.label(wire_bytes, path) };
    Packet { label, body: Body::Aeolus(body) }
}
