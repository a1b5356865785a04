//! NDP (Handley et al., SIGCOMM 2017): switches cut what they can't queue down to its header
//! ([`Queueing::Trimming`](crate::net::Queueing::Trimming)), so receivers know what everybody wants to
//! send them, and ask for it at the rate of their line.
//!
//! - The first window leaves at line rate, without a handshake; whatever is sent after that is asked for
//!   (§3.2). What a sender has left of its window when it runs out of data it sends at once later on.
//! - Every packet is acknowledged, every header negatively, at once; each is one more packet to ask for.
//!   A pull says how many packets were asked for so far, so a lost one costs nothing once the next one
//!   comes (§3.2.1). Where nothing holds a pull up, it goes along with the acknowledgement (footnote 4).
//! - A host has one pull queue for all that it receives: [`Endpoint::pull`](super::Endpoint::pull).
//! - A sender takes the ways to its peer in a random order, then in another one, and so on (§3.1.1).
//! - Lost for good is only what a switch has no room for the header of: a timeout brings it back.
//!
//! A flow is one connection: a stream of messages, cut into full packets where there is enough to fill
//! them, as DCTCP's is here. A message counts as soon as all of its packets are here, in whatever
//! order.
//!
//! What differs: switches don't return headers to their sender (§3.2.4); no path is avoided
//! (§3.2.3: there are no failures here); and pulls that the receiver takes back, since it has all that was
//! sent, go with the last acknowledgement instead of being forgotten, so that both ends agree about what
//! is left of the window.

mod paths;
mod receiver;
mod sender;

pub use receiver::NdpReceiver;
pub use sender::NdpSender;

use super::wire_bytes;
use crate::{engine::S, net::TrimmingLimits};

/// IP's header and NDP's: what is in a frame of 64 bytes (§3.2.4).
const HEADER_BYTES: u32 = 46;
/// Bytes of messages in a full packet.
const SEGMENT_BYTES_MAX: u32 = 1_454;
/// A full packet on the wire.
const PACKET_BYTES: u32 = wire_bytes(SEGMENT_BYTES_MAX + HEADER_BYTES);
/// A header, or a control packet.
const HEADER_WIRE_BYTES: u32 = wire_bytes(HEADER_BYTES);
/// Packets that wait at a port (§6.2: more than 95 % of the network's capacity; with 6, 90 %).
const QUEUE_PACKETS: u32 = 8;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpSettings {
    /// Packets that leave before any is asked for.
    pub window_packets: u32,
    /// What nobody has heard of for so long is sent again.
    pub timeout_ps: u64,
    /// Who has to wait for pulls for so long without a word sends a packet all the same, and waits twice
    /// as long for the next one: pulls may be lost, too.
    pub patience_ps: u64,
}

impl NdpSettings {
    /// What a full packet takes on the wire, and what its acknowledgement does: a round trip is of these
    /// two.
    pub const ROUND_TRIP_BYTES: (u32, u32) = (PACKET_BYTES, HEADER_WIRE_BYTES);

    /// The paper's, for a fabric of such a round trip and rate.
    ///
    /// Window: twice what fills the pipe where nothing waits (§6.2: 20 packets of 9 KB are needed where
    /// 10 would do that; 23 is a good default). Timeout: §3.2.4's is two and a half times the longest round
    /// trip, all queues full; that is ten of the shortest ones on a fat tree.
    pub fn new(round_trip_ps: u64, bits_per_s: u64) -> Self {
        let bits = 2 * u128::from(round_trip_ps) * u128::from(bits_per_s) / u128::from(S);
        let packets = (bits / 8).div_ceil(PACKET_BYTES.into());
        let timeout_ps = 10 * round_trip_ps;
        Self {
            window_packets: packets.clamp(1, u32::MAX.into()) as u32,
            timeout_ps,
            patience_ps: 10 * timeout_ps,
        }
    }

    /// The queues of a switch's port: eight packets, and as many bytes of headers (§3.2.4), ten of which go
    /// before a packet (§3.1). `mark_from`: from how many packets on others' are marked.
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

    /// NDP §3.2.4: headers are frames of 64 bytes, as many as eight packets take: of 1.5 KB, some 150.
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
