//! The body of MLT's packets.

use crate::{
    net::Label,
    scheme::{PacketBody, PacketContents, Piece},
};

/// A message between the ends of a bounded-loss transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MltBody {
    /// Parts of the flow's messages.
    Data {
        /// The messages in the packet.
        contents: PacketContents,
        /// Number of this transmission within the flow.
        transmission: u64,
    },
    /// The acknowledgment of a data packet.
    Ack {
        /// The acknowledged transmission.
        transmission: u64,
        /// Bytes of that packet on the wire.
        wire_bytes: u32,
        /// Whether that packet was ECN-marked.
        echo: bool,
    },
    /// The sender has sent everything, and asks for the missing packets.
    Probe {
        /// Number of the probe.
        probe: u32,
        /// Number of packets in the flow.
        packets: u32,
    },
    /// The answer to a probe.
    Missing {
        /// The answered probe.
        probe: u32,
        /// Numbers of the missing packets.
        numbers: Box<[u32]>,
    },
    /// The receiver has enough messages.
    Stop,
}

impl PacketBody for MltBody {
    fn piece(&self, _label: &Label) -> Option<Piece<'_>> {
        match self {
            Self::Data { contents, .. } => Some(Piece::Contents(*contents)),
            Self::Ack { .. } | Self::Probe { .. } | Self::Missing { .. } | Self::Stop => None,
        }
    }
}
