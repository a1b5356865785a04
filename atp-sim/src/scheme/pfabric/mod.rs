//! pFabric (Alizadeh et al., SIGCOMM 2013): switches decide whose packets go on
//! ([`Queueing::PFabric`](crate::net::Queueing::PFabric)), and hosts do next to nothing about rates.
//!
//! What pFabric calls a flow is a message here. Its priority is what remains of it, and every packet
//! carries that as its rank. A sender gives its line the message first of which the least remains; jobs
//! that share a host's line take turns, as they do under every scheme.
//!
//! Numbers of sections of its paper, in this folder and in `net/discipline`, are cited from memory: they are
//! still to be checked against the text.

mod message;
mod receiver;
mod sender;

pub use receiver::PFabricReceiver;
pub use sender::PFabricSender;

use super::wire_bytes;
use crate::engine::S;

/// IP and TCP headers, with options: for selective acknowledgements, and for the rank.
const HEADER_BYTES: u32 = 20 + 32;
/// Bytes of a message in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_448;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// An acknowledgement, or a probe, which has one byte of payload (§4.2).
const SHORT_PACKET_BYTES: u32 = wire_bytes(HEADER_BYTES + 1);

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PFabricSettings {
    /// What a full packet and its acknowledgement take where nothing waits, between the hosts that are
    /// farthest from each other.
    pub round_trip_ps: u64,
    /// The window that a message begins with, one bandwidth-delay product: line rate (§4.2; 12 packets
    /// in §5.1).
    pub window_packets: u32,
    /// The timeout, in round trips; it doesn't adapt and isn't backed off (§4.2: 3, about 45 us).
    pub timeout_round_trips: u32,
    /// So many timeouts without a word between them, and a message only probes (§4.2: 5).
    pub timeouts_max: u32,
}

impl PFabricSettings {
    /// What a full packet takes on the wire, and what its acknowledgement does: a round trip is of these
    /// two.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, SHORT_PACKET_BYTES);

    /// The paper's, for a fabric of such a round trip and rate.
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

/// Bandwidth times delay. 400 Gbit/s for a second is 2^36 bytes, and 2^79 on the way there.
fn product_bytes(round_trip_ps: u64, bits_per_s: u64) -> u64 {
    let bits = u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
    u64::try_from(bits / 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::NS;

    /// pFabric §5.1: 10 Gbit/s and 14.6 us make 12 packets, a port of 24 packets (36 KB) and a timeout
    /// of about 45 us.
    #[test]
    fn settings__are_the_paper_s() {
        let settings = PFabricSettings::new(14_600 * NS, 10_000_000_000);
        assert_eq!(settings.window_packets, 12);
        assert_eq!(settings.port_bytes(), 24 * 1_538);
        assert_eq!(settings.timeout_ps(), 43_800 * NS);
    }
}
