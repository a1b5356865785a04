//! Topologies: lines between hosts and switches, and routes.
//!
//! Every topology here is a tree of layers. A packet goes up on one of several equal paths until it
//! is above its destination, and then down on the only path.

mod fat_tree;
mod leaf_spine;
mod paths;
mod star;

pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use paths::{Choice, paths};
pub use star::Star;

use super::HostId;

/// A line in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node at the line's end.
    pub to: u32,
    /// The line's rate.
    pub bits_per_s: u64,
    /// Time from the last bit in to the last bit out, plus the processing time of the node at the
    /// end.
    pub latency_ps: u64,
}

/// Rates and delays of all lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Rate of hosts' lines.
    pub host_bits_per_s: u64,
    /// Rate of lines between switches.
    pub switch_bits_per_s: u64,
    /// Propagation delay of each line.
    pub propagation_ps: u64,
    /// Processing delay of each switch.
    pub switching_ps: u64,
}

/// A network: hosts are nodes 0 to `hosts - 1`, switches follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of hosts.
    pub hosts: u32,
    /// By host: the line to its switch.
    pub host_links: Vec<Link>,
    /// The switches' lines and routes.
    pub switches: Vec<Wiring>,
}

/// One switch: its lines and its routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// The lines by port.
    pub links: Vec<Link>,
    /// The port to each host.
    pub routes: Routes,
}

/// The port to each host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// By host: the port that leads down to it, or [`Routes::UP`] for hosts not below this switch.
    down: Vec<u16>,
    /// The first of the ports that lead up, which are equivalent.
    up_first: u16,
    up_number: u16,
    /// The layer, which selects the part of a packet's path number that decides here. Layers must
    /// decide independently.
    layer: u32,
}

impl Routes {
    const UP: u16 = u16::MAX;

    /// `down` has, by host, the port that leads down to it. `up` are the ports that lead up.
    pub fn new(down: Vec<Option<u16>>, up: std::ops::Range<u16>, layer: u32) -> Self {
        let down = down.into_iter().map(|port| port.unwrap_or(Self::UP)).collect();
        Self { down, up_first: up.start, up_number: up.end - up.start, layer }
    }

    /// The port for a packet to `host` with path number `path`.
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

/// A number in which every bit depends on every bit of `number` (the finalizer of MurmurHash3).
pub const fn mixed(number: u32) -> u32 {
    let mut mixed = number;
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x85eb_ca6b);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

/// A number in which every bit depends on every bit of all `words`, and on their order.
pub const fn mixed_all(words: &[u32]) -> u32 {
    // 0 is a fixed point of `mixed`, so leading zeros would leave no trace without the constant.
    let mut mixture = 0x517c_c1b7;
    let mut at = 0;
    while at < words.len() {
        mixture = mixed(mixture ^ words[at]);
        at += 1;
    }
    mixture
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Follows a path between two hosts. Returns the number of switches on it.
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

    /// The nodes of a path, hosts included.
    fn nodes(topology: &Topology, from: HostId, to: HostId, path: u32) -> Vec<u32> {
        let mut nodes = vec![from, topology.host_links[from as usize].to];
        while nodes.last() != Some(&to) {
            let switch = &topology.switches[(nodes[nodes.len() - 1] - topology.hosts) as usize];
            nodes.push(switch.links[switch.routes.port(to, path)].to);
        }
        nodes
    }

    /// A path number selects the same switches in both directions, as credits require. This holds
    /// because both sides number their switches' ports up alike.
    #[test]
    fn routes__are_symmetric() {
        let topologies = [
            FatTree::default().topology(&LINES),
            FatTree { pods: 3, edges_per_pod: 2, aggregations_per_pod: 5, ..FatTree::default() }
                .topology(&LINES),
            LeafSpine::default().topology(&LINES),
            Star { hosts: 7 }.topology(&LINES),
        ];
        for topology in topologies {
            for path in 0..200 {
                let (from, to) = (mixed(path) % topology.hosts, mixed(!path) % topology.hosts);
                let there = nodes(&topology, from, to, mixed(path ^ 77));
                let mut back = nodes(&topology, to, from, mixed(path ^ 77));
                back.reverse();
                assert!(from == to || there == back, "{there:?}, {back:?}");
            }
        }
    }

    pub const LINES: Lines = Lines {
        host_bits_per_s: 40_000_000_000,
        switch_bits_per_s: 40_000_000_000,
        propagation_ps: 100_000,
        switching_ps: 250_000,
    };
}
