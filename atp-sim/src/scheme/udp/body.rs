//! The body of UDP's packets.

use crate::{
    net::Label,
    scheme::{PacketBody, Piece},
};

/// One datagram of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpBody {
    /// Message number within the flow.
    pub message: u32,
    /// Datagram number within the message.
    pub number: u32,
    /// Number of datagrams in the message.
    pub count: u32,
}

impl PacketBody for UdpBody {
    fn piece(&self, _label: &Label) -> Option<Piece<'_>> {
        Some(Piece::Message { message: self.message, part: self.number, parts: self.count })
    }
}
