//! Aeolus (Hu et al., SIGCOMM 2020) over ExpressPass (Cho et al., SIGCOMM 2017): receivers give one
//! credit for each packet, and senders without a credit yet use the network's spare capacity.
//!
//! **ExpressPass.** A receiver sends credits at its own rate ([`credits`]), with jitter. Every port
//! and every host limits credits to the rate at which their answers fill the line in the other
//! direction, and drops the rest ([`Queueing::Credit`]). The drops are the law's signal. Data takes
//! its credit's path in the other direction, because the path hash is symmetric. If every packet
//! takes its own path, data takes the path of the credit that it answers.
//!
//! **Aeolus.** Until the first credit arrives, a sender sends one bandwidth-delay product at line
//! rate. Ports refuse these unscheduled packets as soon as a few packets wait, so they delay no
//! others. Each is acknowledged, and a probe follows the last one. So a sender detects losses
//! within a round trip, and retransmits them with its first credits.
//!
//! **Jobs of many messages.** Flows of both papers begin, have a length, and end. Here a flow is a
//! job. Its messages come over time, and are consecutive in a byte stream, as with DCTCP.
//!
//! - A sender without data for a round trip sends a stop, and gets no more credits ("a small
//!   timeout period", ExpressPass §3.1). It sends the stop at once if the application has no more
//!   messages.
//! - Later messages are a new flow in the sense of both papers: a request, a burst of unscheduled
//!   packets, and the receiver's law from its beginning.
//! - While credits arrive, messages wait for the next one.
//! - A credit that finds no data counts as lost. So a sender with little data gets few credits more
//!   than it needs.
//!
//! **Losses** of data with a credit happen only if foreign traffic (exact jobs over DCTCP) fills
//! the switches' buffers. Credits and acknowledgments report the received data, so the sender
//! detects and repairs these losses too.
//!
//! **Sources.** Section numbers are cited from memory. Details that the papers leave open are as in
//! the simulator of ExpressPass's authors (kaist-ina/ns2-xpass):
//!
//! - jitter of a tenth;
//! - an initial rate of half the line's, and a minimum of a credit per round trip;
//! - 100 us until a request is repeated;
//! - a receiver's weights of round trips.
//!
//! In that simulator credits are 76 to 92 bytes long. Here they have 84 to 92 bytes, as in the
//! paper, because Ethernet has no shorter frame. That simulator also reduces the initial rate for
//! flows of less than 40 packets. A request here doesn't know the number of later messages.
//!
//! **One reading of Algorithm 1**: a rate is evaluated by the credits that were sent at that rate,
//! which are one round trip of credits, one round trip later. The text also permits an evaluation
//! by all credits whose fate becomes known in a round trip. Each loss then reduces the rate twice,
//! and four flows across the fat tree get 87 % of a line instead of all that credits leave.

mod body;
pub mod credits;
mod receiver;
mod sender;
mod unacknowledged;

pub use body::{AeolusBody, AeolusReport};
pub use receiver::AeolusReceiver;
pub use sender::AeolusSender;

use super::{ECN_THRESHOLD_PACKETS, Environment, Packet, Policy, Route, Spec, wire_bytes};
use crate::{
    engine::{S, US},
    net::{CreditLimits, Label, PortQueues, Queueing},
};

/// The scheme. At most 8 credits wait at a port (SIGCOMM 2017, §3.1). Ports refuse unscheduled
/// packets from 6 KB of queued data on (SIGCOMM 2020, §4.1).
pub static SPEC: Spec = Spec {
    title: "Aeolus",
    description: "Aeolus over ExpressPass",
    names: &[("aeolus-es", Policy::EarlySend), ("aeolus-ss", Policy::SampleSend)],
    color: [86, 180, 233],
    variant_colors: &[],
    takes_laws: false,
    features: &[],
    stops_by_itself: false,
    shares_buffer: true,
    sprays: false,
    queues: |environment, _| {
        let queueing = Queueing::Credit(CreditLimits {
            credits_max: 8,
            unscheduled_bytes: 6_000,
            mark_from: ECN_THRESHOLD_PACKETS,
        });
        PortQueues::same(queueing, environment.buffer_bytes)
    },
    ends: |route, environment, _, _| {
        let settings = settings(environment);
        let sender = AeolusSender::new(route, settings);
        (Box::new(sender), Box::new(AeolusReceiver::new(route, settings)))
    },
};

fn settings(environment: &Environment<'_>) -> AeolusSettings {
    let round_trip_ps = environment.round_trip_ps(AeolusSettings::ROUND_TRIP_BYTES);
    AeolusSettings::new(round_trip_ps, environment.bits_per_s)
}

/// IP and TCP headers, with options for the credit's number and time.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of the stream in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// A packet without data on the wire: Ethernet's shortest.
const CONTROL_BYTES: u32 = wire_bytes(0);

/// Settings of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AeolusSettings {
    /// Round-trip time of a full packet and a credit between the most distant hosts, with empty
    /// queues.
    pub round_trip_ps: u64,
    /// The rate of the hosts' lines.
    pub bits_per_s: u64,
    /// Bytes on the wire that may be sent before the first credit: one bandwidth-delay product
    /// (Aeolus §3.1). 0 is ExpressPass without Aeolus.
    pub unscheduled_bytes: u32,
}

impl AeolusSettings {
    /// Lengths on the wire of a full packet and of a credit, which define the round trip.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, crate::net::CREDIT_BYTES);

    /// The papers' settings, for a fabric of this round trip and rate.
    pub fn new(round_trip_ps: u64, bits_per_s: u64) -> Self {
        // 400 Gbit/s for a second is 2^36 bytes, with 2^79 as an intermediate product.
        let bits = u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
        let unscheduled_bytes = u32::try_from(bits / 8).unwrap_or(u32::MAX);
        Self { round_trip_ps, bits_per_s, unscheduled_bytes }
    }

    /// Time without an answer after which a sender repeats its request or stop.
    fn timeout_ps(&self) -> u64 {
        (4 * self.round_trip_ps).max(100 * US)
    }
}

/// A packet in `route`'s direction.
fn packet(route: Route, path: u32, dscp: u8, wire_bytes: u32, body: AeolusBody) -> Packet {
    let label = Label { dscp, ..route.label(wire_bytes, path) };
    Packet { label, body: body.into() }
}
