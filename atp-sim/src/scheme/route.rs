//! The route of a flow's packets, the choice of paths, and the packets' length on the wire.

use super::{Body, Packet};
use crate::net::{ETHERNET_BYTES, FlowId, HostId, Label, topology::mixed};
use std::{fmt, str::FromStr};

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

/// The choice of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadBalancing {
    /// The scheme's own choice: NDP's packets take all paths, and other flows one each.
    #[default]
    Own,
    /// All packets of a flow take one path, chosen by hash.
    Ecmp,
    /// Every packet takes its own path.
    Spray,
}

impl LoadBalancing {
    const ALL: [(Self, &str); 3] =
        [(Self::Own, "own"), (Self::Ecmp, "ecmp"), (Self::Spray, "spray")];

    /// Whether every packet takes its own path. `own` is the scheme's own choice.
    pub const fn sprays(self, own: bool) -> bool {
        match self {
            Self::Own => own,
            Self::Ecmp => false,
            Self::Spray => true,
        }
    }
}

impl FromStr for LoadBalancing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|known| known.1 == text).map(|known| known.0);
        found.ok_or_else(|| format!("{text:?} is not a load balancing: choose own, ecmp or spray"))
    }
}

impl fmt::Display for LoadBalancing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|known| known.0 == *self);
        f.write_str(name.map_or("?", |known| known.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_balancing__reads_what_it_writes() {
        for (load_balancing, name) in LoadBalancing::ALL {
            assert_eq!(
                (name.parse(), load_balancing.to_string()),
                (Ok(load_balancing), name.into())
            );
        }
        assert!("hash".parse::<LoadBalancing>().unwrap_err().contains("own, ecmp or spray"));
    }

    #[test]
    fn sprays__leaves_the_choice_to_the_scheme_by_default() {
        for own in [false, true] {
            assert_eq!(LoadBalancing::default().sprays(own), own);
            assert!(LoadBalancing::Spray.sprays(own) && !LoadBalancing::Ecmp.sprays(own));
        }
    }
}
