//! The body of pFabric's packets. The label names the message.

use crate::{
    net::Label,
    scheme::{PacketBody, Piece},
};

/// A message between pFabric's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PFabricBody {
    /// A part of the message.
    Segment {
        /// Part number.
        number: u32,
        /// Number of parts.
        count: u32,
    },
    /// A probe without data, after several timeouts.
    Probe,
    /// The acknowledgment of a part, or of a probe.
    Ack {
        /// Part number; `None` for a probe.
        number: Option<u32>,
    },
}

impl PacketBody for PFabricBody {
    fn piece(&self, label: &Label) -> Option<Piece<'_>> {
        match *self {
            Self::Segment { number, count } => {
                Some(Piece::Message { message: label.message, part: number, parts: count })
            }
            Self::Probe | Self::Ack { .. } => None,
        }
    }
}
