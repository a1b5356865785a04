//! The route of a flow's packets, and their length on the wire.

use super::{Body, Packet};
use crate::net::{ETHERNET_BYTES, FlowId, HostId, Label, topology::mixed};

/// A flow's number, its two hosts, and its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The flow's number.
    pub flow: FlowId,
    /// The host that sends data.
    pub source: HostId,
    /// The host that receives the data.
    pub destination: HostId,
    /// Whether each packet takes its own path (spraying). Otherwise all packets take one path
    /// (ECMP).
    pub sprayed: bool,
    /// The flow's path number, from which the numbers of sprayed packets derive.
    pub path: u32,
}

impl Route {
    /// The path number of packet `number` of the flow.
    pub fn path(&self, number: u32) -> u32 {
        if self.sprayed { mixed(self.path.wrapping_add(number)) } else { self.path }
    }

    /// A packet from source to destination, with the label of [`Self::label`].
    pub fn packet(self, wire_bytes: u32, path: u32, body: impl Into<Body>) -> Packet {
        Packet { label: self.label(wire_bytes, path), body: body.into() }
    }

    /// The label of a packet from source to destination: DSCP 0, rank 0, not ECN-capable.
    pub const fn label(self, wire_bytes: u32, path: u32) -> Label {
        Label::new(self.flow, self.source, self.destination, wire_bytes, path)
    }

    /// The flow's other direction.
    pub const fn back(self) -> Self {
        Self { source: self.destination, destination: self.source, ..self }
    }
}

/// Shortest Ethernet frame, with preamble and gap. Ethernet pads shorter frames.
const FRAME_BYTES_MIN: u32 = 64 + 20;

/// Length of an IP packet on the wire.
pub const fn wire_bytes(ip_bytes: u32) -> u32 {
    let bytes = ip_bytes + ETHERNET_BYTES;
    if bytes < FRAME_BYTES_MIN { FRAME_BYTES_MIN } else { bytes }
}
