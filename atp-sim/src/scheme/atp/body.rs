//! The body of ATP's packets.

use crate::{
    net::Label,
    scheme::{PacketBody, Piece},
};
use atp_common::wire::{Flags, Header, Kind};

/// ATP's header, and the body of a control packet. Messages have lengths and no bytes.
#[derive(Clone, Debug)]
pub struct AtpBody {
    /// The header as on the wire.
    pub header: Header,
    /// In an ACK: when its packet arrived, in the header's units of time.
    pub arrived: Option<u32>,
    /// Bytes behind the header: messages, and in a packed packet their headers.
    pub payload_bytes: u32,
    /// Numbers and lengths of the messages of a packed packet.
    pub members: Option<Box<[(u32, u16)]>>,
    /// The body of a receipt, of a FIN, or of the answer to a FIN.
    pub control: Option<Box<[u8]>>,
}

impl PacketBody for AtpBody {
    fn piece(&self, _label: &Label) -> Option<Piece<'_>> {
        let header = &self.header;
        if let Some(members) = &self.members {
            return Some(Piece::Messages(members));
        }
        let (message, part, parts) = (header.message(), header.index(), header.count());
        (header.kind() == Ok(Kind::Data)).then_some(Piece::Message { message, part, parts })
    }

    fn is_approximate(&self) -> bool {
        let ordered = self.header.flags().contains(Flags::ORDERED);
        self.header.kind() == Ok(Kind::Data) && !ordered
    }
}
