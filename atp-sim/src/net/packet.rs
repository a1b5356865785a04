//! Packets: a label that the network reads, and a body that only hosts read.

use atp_common::dscp;

/// A host's number.
pub type HostId = u32;
/// A flow's number: one sender and one receiver.
pub type FlowId = u32;
/// A packet's index among the packets in flight.
pub type PacketId = u32;

/// Ethernet's bytes around an IP packet on the wire: header, check sequence, preamble and gap.
pub const ETHERNET_BYTES: u32 = 14 + 4 + 20;

/// A packet. The layer above chooses the type of its body.
#[derive(Clone, Debug)]
pub struct Packet<B> {
    /// Everything that the network reads.
    pub label: Label,
    /// The content for the two hosts.
    pub body: B,
}

/// The fields of a packet that the network reads at every switch. Two labels fill a cache line of
/// the processor, and no label spans two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Label {
    /// The packet's flow. Both directions have the same flow number.
    pub flow: FlowId,
    /// The host that sent the packet.
    pub source: HostId,
    /// The host that receives the packet.
    pub destination: HostId,
    /// Bytes on the wire, [`ETHERNET_BYTES`] included.
    pub wire_bytes: u32,
    /// Path number: selects one of several equal paths.
    pub path: u32,
    /// Rank for rank queues, which serve the lowest first. Other disciplines ignore it.
    pub rank: u32,
    /// The packet's message within its flow. Rank queues keep a message's packets in order.
    pub message: u32,
    /// DSCP.
    pub dscp: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Number of switches reached so far. [`Labels`](super::Labels) counts them.
    pub switches: u8,
    /// Whether the packet carries data, and whether switches may trim it.
    pub content: Content,
}

const _: () = assert!(size_of::<Label>() == 32);

/// The kind of a packet's content, as far as the network and its accounts distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No data: an acknowledgment, a request, a credit.
    Control,
    /// Data that no switch may trim.
    Data,
    /// Data that a trimming switch may reduce to its header.
    TrimmableData,
    /// The header of trimmed data. A trimming switch serves it before data.
    Header,
    /// A control packet that a trimming switch serves before data.
    UrgentControl,
}

impl Content {
    /// Whether the packet carries data.
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::TrimmableData)
    }

    /// Whether a trimming switch serves the packet before data.
    pub const fn is_urgent(self) -> bool {
        matches!(self, Self::Header | Self::UrgentControl)
    }
}

/// The ECN field of an IP header (RFC 3168, §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Switches may not mark the packet.
    NotCapable,
    /// Switches may mark it.
    Capable,
    /// A switch marked it.
    Experienced,
}

impl Ecn {
    /// The field of an unmarked packet.
    pub const fn capable(is_capable: bool) -> Self {
        if is_capable { Self::Capable } else { Self::NotCapable }
    }

    /// The field's bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable => 0b10,
            Self::Experienced => 0b11,
        }
    }

    /// Whether switches may mark the packet.
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }

    /// Whether a switch marked the packet.
    pub fn is_marked(self) -> bool {
        self == Self::Experienced
    }
}

impl Label {
    /// Makes a control packet with DSCP 0, rank 0, and not ECN-capable.
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
            content: Content::Control,
        }
    }

    /// The IP header's traffic class: DSCP and ECN field.
    pub const fn traffic_class(&self) -> u8 {
        dscp::replace(self.ecn.bits(), self.dscp)
    }
}
