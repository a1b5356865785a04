//! How hosts and switches are connected, and which way packets go.
//!
//! Every topology here is a tree of layers: a packet goes up until it is above its destination, by any
//! of several equal ways, and then down by the only one.

mod fat_tree;
mod leaf_spine;
mod star;
mod ways;

pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use star::Star;
pub use ways::{Choice, paths};

use super::HostId;

/// A line in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node at its end.
    pub to: u32,
    /// Its rate.
    pub bits_per_s: u64,
    /// From the last bit in to the last bit out, with what the node at its end takes to look at a
    /// packet.
    pub latency_ps: u64,
}

/// What lines have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Of hosts' lines.
    pub host_bits_per_s: u64,
    /// Of lines between switches.
    pub switch_bits_per_s: u64,
    /// Of each line.
    pub propagation_ps: u64,
    /// Of each switch.
    pub switching_ps: u64,
}

/// A network: hosts are nodes 0 to `hosts - 1`, switches follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// How many hosts.
    pub hosts: u32,
    /// By host: its line to its switch.
    pub host_links: Vec<Link>,
    /// By switch.
    pub switches: Vec<Wiring>,
}

/// One switch: its lines, and where they lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// By port.
    pub links: Vec<Link>,
    /// Which port leads to which host.
    pub routes: Routes,
}

/// Which port leads to which host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// By host: the port down to it; [`Routes::UP`] if the way is up.
    down: Vec<u16>,
    /// Ports that lead up, all equal.
    up_first: u16,
    up_number: u16,
    /// Which part of a packet's path number decides here: layers must not decide by the same.
    layer: u32,
}

impl Routes {
    const UP: u16 = u16::MAX;

    /// By host, the port that leads down to it; and the ports that lead up.
    pub fn new(down: Vec<Option<u16>>, up: std::ops::Range<u16>, layer: u32) -> Self {
        let down = down.into_iter().map(|port| port.unwrap_or(Self::UP)).collect();
        Self { down, up_first: up.start, up_number: up.end - up.start, layer }
    }

    /// The port for a packet to `host` that takes way `path`.
    pub fn port(&self, host: HostId, path: u32) -> usize {
        match self.down[host as usize] {
            Self::UP => {
                let choice = Choice { layer: self.layer, lines: self.up_number.into() };
                usize::from(self.up_first) + choice.of(path) as usize
            }
            port => usize::from(port),
        }
    }
}

/// A number in which every bit depends on every bit of `number` (the finaliser of MurmurHash3).
pub const fn mixed(number: u32) -> u32 {
    let mut mixed = number;
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x85eb_ca6b);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Follows every path between two hosts; returns how many switches it passes.
    pub fn walk(topology: &Topology, from: HostId, to: HostId, path: u32) -> usize {
        let mut at = topology.host_links[from as usize].to;
        for passed in 1..10 {
            let switch = &topology.switches[(at - topology.hosts) as usize];
            at = switch.links[switch.routes.port(to, path)].to;
            if at == to {
                return passed;
            }
            assert!(at >= topology.hosts, "a packet to {to} came to {at}");
        }
        panic!("a packet from {from} to {to} goes round");
    }

    pub const LINES: Lines = Lines {
        host_bits_per_s: 40_000_000_000,
        switch_bits_per_s: 40_000_000_000,
        propagation_ps: 100_000,
        switching_ps: 250_000,
    };
}
