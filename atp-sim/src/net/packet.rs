//! Packets, and what the network may know of them.

use super::{Aeolus, Body, Dctcp, Mlt, Ndp, NdpData, PFabric};
use crate::waste::Piece;
use atp_common::wire::Kind;

/// A host's number.
pub type HostId = u32;
/// A flow's number: one sender and one receiver.
pub type FlowId = u32;
/// A packet's place among those under way.
pub type PacketId = u32;

/// Bytes around an IP packet on the wire: header, check sequence, preamble and gap.
pub const ETHERNET_BYTES: u32 = 14 + 4 + 20;

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Whose it is. Both directions have the flow's number.
    pub flow: FlowId,
    /// Where it was sent.
    pub source: HostId,
    /// Where it goes.
    pub destination: HostId,
    /// What it takes on the wire, [`ETHERNET_BYTES`] included.
    pub wire_bytes: u32,
    /// Which of several equal ways it takes.
    pub path: u32,
    /// Its code point.
    pub dscp: u8,
    /// What pFabric's switches look at: the less, the sooner. Others don't.
    pub rank: u32,
    /// Which of its flow's messages it belongs to; pFabric's switches keep the packets of one in order.
    pub message: u32,
    /// Switches may mark it.
    pub ecn_capable: bool,
    /// A switch did.
    pub marked: bool,
    /// What the hosts say to each other.
    pub body: Body,
}

impl Packet {
    /// Which part of its sender's data it carries; `None` if it carries none.
    pub fn piece(&self) -> Option<Piece> {
        match self.body {
            Body::Atp { ref header, .. } => {
                let (message, part, parts) = (header.message(), header.index(), header.count());
                (header.kind() == Ok(Kind::Data)).then_some(Piece::Message { message, part, parts })
            }
            Body::Datagram { message, number, count } => {
                Some(Piece::Message { message, part: number, parts: count })
            }
            Body::Dctcp(Dctcp::Segment { sequence, bytes, messages, .. })
            | Body::Aeolus(Aeolus::Segment { sequence, bytes, messages, .. }) => {
                Some(Piece::Stream { begin: sequence, end: sequence + u64::from(bytes), messages })
            }
            Body::PFabric(PFabric::Segment { number, count }) => {
                Some(Piece::Message { message: self.message, part: number, parts: count })
            }
            Body::Ndp(Ndp::Data(NdpData { cut, trimmed: false, .. }))
            | Body::Mlt(Mlt::Data { cut, .. }) => Some(Piece::Cut(cut)),
            Body::Dctcp(Dctcp::Ack { .. })
            | Body::Aeolus(_)
            | Body::PFabric(PFabric::Probe | PFabric::Ack { .. })
            | Body::Ndp(_)
            | Body::Mlt(_) => None,
        }
    }
}

impl Packet {
    /// NDP's switches may cut off what it carries, and its ends know what to make of the rest.
    pub const fn is_trimmable(&self) -> bool {
        matches!(self.body, Body::Ndp(Ndp::Data(NdpData { trimmed: false, .. })))
    }

    /// NDP's switches let it go before data: a header, or what NDP's ends say to each other.
    pub const fn is_urgent(&self) -> bool {
        matches!(self.body, Body::Ndp(_)) && !self.is_trimmable()
    }
}
