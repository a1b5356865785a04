//! Packets: what the network looks at, and what the hosts say to each other.

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
    /// What the network looks at.
    pub label: Label,
    /// What the hosts say to each other.
    pub body: Body,
}

/// What the network looks at in a packet, at every switch. Two of them fill a line of a processor's cache,
/// and none lies across two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Label {
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
    /// What pFabric's switches look at: the less, the sooner. Others don't.
    pub rank: u32,
    /// Which of its flow's messages it belongs to; pFabric's switches keep the packets of one in order.
    pub message: u32,
    /// Its code point.
    pub dscp: u8,
    /// What its header says of congestion.
    pub ecn: Ecn,
    /// Switches that it has come to: [`Packets`](super::Packets) counts.
    pub switches: u8,
    /// It carries part of its sender's data: [`Packets`](super::Packets) looks once.
    pub carries_data: bool,
}

const _: () = assert!(size_of::<Label>() == 32);

/// The ECN field of an IP header (RFC 3168, §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Switches may not mark it.
    NotCapable,
    /// They may.
    Capable,
    /// One did.
    Experienced,
}

impl Ecn {
    /// Of a packet that may be marked, or may not.
    pub const fn capable(is_capable: bool) -> Self {
        if is_capable { Self::Capable } else { Self::NotCapable }
    }

    /// Switches may mark it.
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }

    /// A switch marked it.
    pub fn is_marked(self) -> bool {
        self == Self::Experienced
    }
}

impl Label {
    /// Of the first code point, for any switch, without a word of congestion.
    pub const fn new(
        flow: FlowId,
        source: HostId,
        destination: HostId,
        wire_bytes: u32,
        path: u32,
    ) -> Self {
        Self {
            flow,
            source,
            destination,
            wire_bytes,
            path,
            rank: 0,
            message: 0,
            dscp: 0,
            ecn: Ecn::NotCapable,
            switches: 0,
            carries_data: false,
        }
    }
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
                let message = self.label.message;
                Some(Piece::Message { message, part: number, parts: count })
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
