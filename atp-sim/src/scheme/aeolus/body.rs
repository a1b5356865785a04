//! The body of Aeolus's packets.

use crate::{
    net::Label,
    scheme::{PacketBody, Piece},
};

/// A message between the ends under Aeolus over ExpressPass.
///
/// `transmission` numbers all packets that the sender sends, with data or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AeolusBody {
    /// Bytes of the stream.
    Segment {
        /// First byte of the segment.
        sequence: u64,
        /// Number of bytes.
        bytes: u32,
        /// Messages that end in this segment or earlier.
        messages: u32,
        /// Number of this transmission.
        transmission: u64,
        /// The answered credit and its sending time, picoseconds. `None` if unscheduled.
        credit: Option<(u32, u64)>,
    },
    /// The sender has data and requests credits.
    Request {
        /// Number of this transmission.
        transmission: u64,
    },
    /// The end of an unscheduled burst.
    Probe {
        /// Number of this transmission.
        transmission: u64,
    },
    /// The sender has no data and needs no more credits.
    Stop {
        /// Number of this transmission.
        transmission: u64,
    },
    /// The sender may send one packet.
    Credit {
        /// Number of the credit within the flow.
        number: u32,
        /// The sending time, picoseconds.
        sent_ps: u64,
        /// The receiver's state.
        report: AeolusReport,
    },
    /// The acknowledgment of an unscheduled segment, or of a packet without data.
    Ack {
        /// First byte of the segment; `None` for a packet without data.
        sequence: Option<u64>,
        /// The acknowledged transmission.
        transmission: u64,
        /// The receiver's state.
        report: AeolusReport,
    },
}

/// The part of the data that an Aeolus receiver has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AeolusReport {
    /// The receiver has all bytes below this.
    pub cumulative: u64,
    /// End of the first gap: the receiver has no byte from `cumulative` to here.
    pub hole_end: u64,
    /// The largest transmission received.
    pub transmission: u64,
}

impl PacketBody for AeolusBody {
    fn piece(&self, _label: &Label) -> Option<Piece<'_>> {
        match *self {
            Self::Segment { sequence, bytes, messages, .. } => {
                Some(Piece::Stream { begin: sequence, end: sequence + u64::from(bytes), messages })
            }
            _ => None,
        }
    }
}
