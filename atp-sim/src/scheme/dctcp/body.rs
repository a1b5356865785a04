//! The body of DCTCP's packets.

use crate::{
    net::Label,
    scheme::{PacketBody, Piece},
};

/// A segment or an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub enum DctcpBody {
    /// Bytes of the stream.
    Segment {
        /// First byte of the segment.
        sequence: u64,
        /// Number of bytes.
        bytes: u32,
        /// Messages that end in this segment or earlier.
        messages: u32,
        /// Number of this transmission within the flow.
        transmission: u64,
        /// The sending time, picoseconds.
        sent_ps: u64,
    },
    /// An acknowledgment of one segment.
    Ack {
        /// The receiver has all bytes below this.
        cumulative: u64,
        /// First byte of the acknowledged segment.
        sequence: u64,
        /// Whether the segment was ECN-marked.
        echo: bool,
        /// The acknowledged transmission.
        transmission: u64,
        /// The sending time of that transmission.
        sent_ps: u64,
    },
}

impl PacketBody for DctcpBody {
    fn piece(&self, _label: &Label) -> Option<Piece<'_>> {
        match *self {
            Self::Segment { sequence, bytes, messages, .. } => {
                Some(Piece::Stream { begin: sequence, end: sequence + u64::from(bytes), messages })
            }
            Self::Ack { .. } => None,
        }
    }
}
