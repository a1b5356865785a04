//! NDP (Handley et al., SIGCOMM 2017): switches trim packets without room to their headers
//! ([`Queueing::Trimming`]). So receivers know of all packets, and pull them at the rate of their
//! line.
//!
//! - The first window is sent at line rate, without a handshake. All further packets are pulled
//!   (§3.2). A sender that runs out of data keeps the rest of its window for later.
//! - Every packet is acknowledged at once, and every header negatively. Each answer adds one pull.
//!   A pull carries the number of packets pulled so far, so a lost pull costs nothing once the next
//!   one arrives (§3.2.1). A pull without delay is part of the acknowledgment (footnote 4).
//! - A host has one pull queue for all its flows: [`Endpoint::pull`](super::Endpoint::pull).
//! - A sender uses each path to its peer once in a random order, then again in another order, and
//!   so on (§3.1.1). An experiment can also give each flow one path.
//! - A packet is lost only if a switch has no room for its header. A timeout retransmits it.
//!
//! A flow is one connection: a stream of messages in full packets as far as they fill them, as with
//! DCTCP here. A message counts as soon as all of its packets are received, in any order.
//!
//! Differences:
//!
//! - Switches don't return headers to their sender (§3.2.4).
//! - Senders avoid no path (§3.2.3), because there are no failures here.
//! - A receiver that has all sent packets takes its waiting pulls back. Its last acknowledgment
//!   reports them as pulled, so that both ends agree about the rest of the window.

mod body;
mod path_permutation;
mod receiver;
mod sender;

pub use body::{NdpBody, NdpData};
pub use receiver::NdpReceiver;
pub use sender::NdpSender;

use super::{ECN_THRESHOLD_PACKETS, Environment, Feature, Policy, Spec, wire_bytes};
use crate::{
    engine::S,
    net::{PortQueues, Queueing, TrimmingLimits},
};

/// The scheme. Its packets don't use the switch's buffer.
pub static SPEC: Spec = Spec {
    title: "NDP",
    description: "NDP, whose switches trim packets",
    names: &[("ndp-es", Policy::EarlySend), ("ndp-ss", Policy::SampleSend)],
    color: [204, 121, 167],
    variant_colors: &[],
    takes_laws: false,
    features: &[Feature::ShortestFirst],
    stops_by_itself: false,
    shares_buffer: false,
    sprays: true,
    queues: |environment, _| {
        let queueing = Queueing::Trimming(NdpSettings::limits(ECN_THRESHOLD_PACKETS));
        PortQueues::same(queueing, environment.buffer_bytes)
    },
    ends: |route, environment, choices, _| {
        let paths = match route.sprayed {
            true => environment.network.paths(route.source, route.destination),
            false => vec![route.path(0)],
        };
        let seed = environment.seed ^ u64::from(route.flow) << 32;
        let sender = NdpSender::new(route, settings(environment), paths, seed)
            .with_order(choices.features.order());
        (Box::new(sender), Box::new(NdpReceiver::new(route)))
    },
};

fn settings(environment: &Environment<'_>) -> NdpSettings {
    let round_trip_ps = environment.round_trip_ps(NdpSettings::ROUND_TRIP_BYTES);
    NdpSettings::new(round_trip_ps, environment.bits_per_s)
}

/// IP's and NDP's headers: the content of a frame of 64 bytes (§3.2.4).
const HEADER_BYTES: u32 = 46;
/// Bytes of messages in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_454;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// A header, or a control packet, on the wire.
const HEADER_WIRE_BYTES: u32 = wire_bytes(HEADER_BYTES);
/// Packets that wait at a port. They reach more than 95 % of the network's capacity, 6 reach 90 %
/// (§6.2).
const QUEUE_PACKETS: u32 = 8;

/// Settings of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpSettings {
    /// Number of packets sent before any is pulled.
    pub window_packets: u32,
    /// The time without an answer after which a packet is retransmitted.
    pub timeout_ps: u64,
    /// The time without pulls after which a waiting sender sends a packet anyway, because pulls may
    /// be lost. It doubles each time.
    pub pull_timeout_ps: u64,
}

impl NdpSettings {
    /// Lengths on the wire of a full packet and of its acknowledgment, which define the round trip.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, HEADER_WIRE_BYTES);

    /// The paper's settings, for a fabric of this round trip and rate.
    ///
    /// - Window: twice the bandwidth-delay product (§6.2: 20 packets of 9 KB are needed where 10
    ///   fill the pipe; 23 is a good default).
    /// - Timeout: two and a half times the longest round trip, with all queues full (§3.2.4). On a
    ///   fat tree that is ten times the shortest round trip.
    pub fn new(round_trip_ps: u64, bits_per_s: u64) -> Self {
        let bits = 2 * u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
        let packets = (bits / 8).div_ceil(PACKET_BYTES.into());
        let timeout_ps = 10 * round_trip_ps;
        Self {
            window_packets: packets.clamp(1, u32::MAX.into()) as u32,
            timeout_ps,
            pull_timeout_ps: 10 * timeout_ps,
        }
    }

    /// The limits of a switch's port: eight packets, and headers of the same number of bytes
    /// (§3.2.4). Ten headers go before a data packet (§3.1). `mark_from` is the ECN threshold for
    /// foreign packets.
    pub const fn limits(mark_from: u32) -> TrimmingLimits {
        TrimmingLimits {
            data_packets_max: QUEUE_PACKETS,
            header_bytes_max: QUEUE_PACKETS as u64 * PACKET_BYTES as u64,
            header_bytes: HEADER_WIRE_BYTES,
            headers_per_packet: 10,
            mark_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::US;

    /// NDP §3.2.4: headers are frames of 64 bytes. Eight packets of 1.5 KB take the memory of some
    /// 150 headers.
    #[test]
    fn settings__are_the_paper_s() {
        let limits = NdpSettings::limits(65);
        assert_eq!(limits.header_bytes, 64 + 20);
        assert_eq!(limits.header_bytes_max / u64::from(limits.header_bytes), 146);
        // 40 Gbit/s for 8 us are 26 packets.
        let settings = NdpSettings::new(8 * US, 40_000_000_000);
        assert_eq!((settings.window_packets, settings.timeout_ps), (53, 80 * US));
    }
}
