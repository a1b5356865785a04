//! The body of NDP's packets.

use crate::{
    net::{Content, Label},
    scheme::{PacketBody, PacketContents, Piece},
};

/// A message between the ends of an NDP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpBody {
    /// Parts of the flow's messages, or only their header after trimming.
    Data(NdpData),
    /// The acknowledgment of a packet.
    Ack {
        /// Packet number.
        number: u32,
        /// Number of packets that the receiver has requested so far.
        pulled: u32,
    },
    /// The negative acknowledgment of a packet of which only the header arrived.
    Nack {
        /// Packet number.
        number: u32,
        /// Number of packets that the receiver has requested so far.
        pulled: u32,
    },
    /// A request for more packets.
    Pull {
        /// Number of packets that the receiver has requested so far.
        pulled: u32,
    },
    /// The answer to pulls from a sender that has stopped.
    End,
}

/// A data packet of NDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpData {
    /// The messages in the packet.
    pub contents: PacketContents,
    /// Whether the sender had nothing to send after this packet.
    pub last: bool,
}

impl PacketBody for NdpBody {
    fn piece(&self, label: &Label) -> Option<Piece<'_>> {
        match self {
            Self::Data(data) if label.content != Content::Header => {
                Some(Piece::Contents(data.contents))
            }
            _ => None,
        }
    }

    fn content(&self, _label: &Label) -> Content {
        match self {
            Self::Data(_) => Content::TrimmableData,
            _ => Content::UrgentControl,
        }
    }
}
