//! The body of NDP's packets.

use crate::{
    net::{Content, Label},
    scheme::{PacketBody, PacketContents, Piece},
};

/// A message between the ends of an NDP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpBody {
    /// Parts of the flow's messages, or their header after trimming.
    Data(NdpData),
    /// The packet of this number is received.
    Ack {
        /// Packet number.
        number: u32,
        /// Number of packets that the receiver has requested so far.
        pulled: u32,
    },
    /// Only the header of the packet of this number is received.
    Nack {
        /// Packet number.
        number: u32,
        /// As in an acknowledgment.
        pulled: u32,
    },
    /// The receiver requests more packets.
    Pull {
        /// As in an acknowledgment.
        pulled: u32,
    },
    /// The sender has stopped: it answers pulls with this.
    End,
}

/// A data packet of NDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpData {
    /// What is in the packet.
    pub contents: PacketContents,
    /// The sender had nothing after this packet.
    pub last: bool,
}

impl PacketBody for NdpBody {
    fn piece(&self, label: &Label) -> Option<Piece> {
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
