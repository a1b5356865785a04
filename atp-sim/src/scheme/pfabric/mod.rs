//! pFabric (Alizadeh et al., SIGCOMM 2013): switches select packets by priority
//! ([`Queueing::Rank`]), and hosts hardly control rates.
//!
//! A flow of the paper is a message here. Its priority is its remaining bytes, and every packet
//! carries this number as its rank. A sender serves its message with the fewest remaining bytes
//! first. Jobs that share a host's line are served round-robin, as under every scheme.
//!
//! Section numbers of the paper, in this folder and in `net/discipline/rank.rs`, are cited from
//! memory and not yet checked against the text.

mod body;
mod message;
mod receiver;
mod sender;

pub use body::PFabricBody;
pub use receiver::PFabricReceiver;
pub use sender::PFabricSender;

use super::{Environment, Policy, Spec, wire_bytes};
use crate::{
    engine::S,
    net::{PortQueues, Queueing},
};

/// The scheme. Each port has its own small buffer, and switches share none (§4.1).
pub static SPEC: Spec = Spec {
    title: "pFabric",
    description: "pFabric",
    names: &[("pfabric-es", Policy::EarlySend), ("pfabric-ss", Policy::SampleSend)],
    color: [0, 158, 115],
    variant_colors: &[],
    takes_laws: false,
    features: &[],
    stops_by_itself: false,
    shares_buffer: false,
    sprays: false,
    queues: |environment, _| {
        let queueing = Queueing::Rank { bytes_max: settings(environment).port_bytes() };
        PortQueues::same(queueing, u64::MAX)
    },
    ends: |route, environment, _, _| {
        let sender = PFabricSender::new(route, settings(environment));
        (Box::new(sender), Box::new(PFabricReceiver::new(route)))
    },
};

fn settings(environment: &Environment<'_>) -> PFabricSettings {
    let round_trip_ps = environment.round_trip_ps(PFabricSettings::ROUND_TRIP_BYTES);
    PFabricSettings::new(round_trip_ps, environment.bits_per_s)
}

/// IP and TCP headers, with options for selective acknowledgments and the rank.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of a message in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// An acknowledgment, or a probe, which has one byte of payload (§4.2).
const SHORT_PACKET_BYTES: u32 = wire_bytes(HEADER_BYTES + 1);

/// Settings of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PFabricSettings {
    /// Round-trip time of a full packet and its acknowledgment between the most distant hosts, with
    /// empty queues.
    pub round_trip_ps: u64,
    /// Initial window of a message: one bandwidth-delay product, for line rate (§4.2; 12 packets in
    /// §5.1).
    pub window_packets: u32,
    /// The timeout in round trips. It is constant and has no backoff (§4.2: 3, about 45 us).
    pub timeout_round_trips: u32,
    /// The number of consecutive timeouts after which a message only sends probes (§4.2: 5).
    pub timeouts_max: u32,
}

impl PFabricSettings {
    /// Lengths on the wire of a full packet and of its acknowledgment, which define the round trip.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, SHORT_PACKET_BYTES);

    /// The paper's settings, for a fabric of this round trip and rate.
    pub fn new(round_trip_ps: u64, bits_per_s: u64) -> Self {
        let packets = product_bytes(round_trip_ps, bits_per_s).div_ceil(PACKET_BYTES.into());
        Self {
            round_trip_ps,
            window_packets: packets.clamp(1, u32::MAX.into()) as u32,
            timeout_round_trips: 3,
            timeouts_max: 5,
        }
    }

    /// The buffer of a switch's port: two bandwidth-delay products (§4.1; 36 KB in §5.1).
    pub fn port_bytes(&self) -> u64 {
        2 * u64::from(self.window_packets) * u64::from(PACKET_BYTES)
    }

    const fn timeout_ps(&self) -> u64 {
        self.round_trip_ps * self.timeout_round_trips as u64
    }
}

/// The bandwidth-delay product. 400 Gbit/s for a second is 2^36 bytes, with 2^79 as an intermediate
/// product.
fn product_bytes(round_trip_ps: u64, bits_per_s: u64) -> u64 {
    let bits = u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NS;

    /// pFabric §5.1: 10 Gbit/s and 14.6 us give 12 packets, a port of 24 packets (36 KB) and a
    /// timeout of about 45 us.
    #[test]
    fn settings__are_the_paper_s() {
        let settings = PFabricSettings::new(14_600 * NS, 10_000_000_000);
        assert_eq!(settings.window_packets, 12);
        assert_eq!(settings.port_bytes(), 24 * 1_538);
        assert_eq!(settings.timeout_ps(), 43_800 * NS);
    }
}
