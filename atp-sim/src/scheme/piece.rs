//! The data that a packet carries, in terms common to all schemes.

use super::segments::PacketContents;
use crate::net::{Content, Label};

/// The part of the sender's data that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A part of one message.
    Message {
        /// Message number within the flow.
        message: u32,
        /// Part number within the message.
        part: u32,
        /// Number of parts.
        parts: u32,
    },
    /// Several whole messages: their numbers within the flow, and their lengths.
    Messages(&'a [(u32, u16)]),
    /// Bytes of a stream. A byte is in the same piece in every transmission.
    Stream {
        /// First byte.
        begin: u64,
        /// Byte after the last one.
        end: u64,
        /// Messages that end at or before `end`.
        messages: u32,
    },
    /// Parts of consecutive messages, which the receiver reassembles in any order.
    Contents(PacketContents),
}

/// The body of a scheme's packets.
pub trait PacketBody {
    /// The data that the packet carries. `None` if it carries none.
    fn piece(&self, label: &Label) -> Option<Piece<'_>>;

    /// The label's summary of the content of a packet that leaves its host.
    fn content(&self, label: &Label) -> Content {
        if self.piece(label).is_some() { Content::Data } else { Content::Control }
    }

    /// Whether the packet is an approximate lane's data, which a receiving host may give advice
    /// about.
    fn is_approximate(&self) -> bool {
        false
    }
}
