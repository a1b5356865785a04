//! Two layers of switches: every leaf is connected to every spine.

use super::{Choice, Lines, Link, Routes, Topology, Wiring};

/// A leaf-spine network. The default has 144 hosts (Alizadeh et al., SIGCOMM 2013;
/// NetApprox §7.1's Clos).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    /// Number of leaves.
    pub leaves: u32,
    /// Hosts of each leaf.
    pub hosts_per_leaf: u32,
    /// Number of spines.
    pub spines: u32,
}

impl Default for LeafSpine {
    fn default() -> Self {
        Self { leaves: 9, hosts_per_leaf: 16, spines: 4 }
    }
}

/// The layer number of the leaves, see [`Routes::new`].
const LEAF_LAYER: u32 = 1;

impl LeafSpine {
    /// The choices of lines on the way from one host to another.
    pub fn choices(self, from: u32, to: u32) -> Vec<Choice> {
        if from / self.hosts_per_leaf == to / self.hosts_per_leaf {
            return Vec::new();
        }
        vec![Choice { layer: LEAF_LAYER, lines: self.spines }]
    }

    /// Builds the network: hosts, leaves, spines.
    pub fn topology(self, lines: &Lines) -> Topology {
        let Self { leaves, hosts_per_leaf, spines } = self;
        let hosts = leaves * hosts_per_leaf;
        let hop_ps = lines.propagation_ps + lines.switching_ps;
        let to_host =
            |to| Link { to, bits_per_s: lines.host_bits_per_s, latency_ps: lines.propagation_ps };
        let between = |to| Link { to, bits_per_s: lines.switch_bits_per_s, latency_ps: hop_ps };
        let host_links = (0..hosts)
            .map(|host| Link {
                to: hosts + host / hosts_per_leaf,
                bits_per_s: lines.host_bits_per_s,
                latency_ps: hop_ps,
            })
            .collect();
        let leaf = |number: u32| {
            let own = number * hosts_per_leaf..(number + 1) * hosts_per_leaf;
            let down =
                (0..hosts).map(|host| own.contains(&host).then(|| (host - own.start) as u16));
            let up = hosts_per_leaf as u16..(hosts_per_leaf + spines) as u16;
            let spines = (0..spines).map(|spine| between(hosts + leaves + spine));
            Wiring {
                links: own.clone().map(to_host).chain(spines).collect(),
                routes: Routes::new(down.collect(), up, LEAF_LAYER),
            }
        };
        let spine = Wiring {
            links: (0..leaves).map(|leaf| between(hosts + leaf)).collect(),
            routes: Routes::new(
                (0..hosts).map(|host| Some((host / hosts_per_leaf) as u16)).collect(),
                0..0,
                2,
            ),
        };
        let switches = (0..leaves).map(leaf).chain((0..spines).map(|_| spine.clone())).collect();
        Topology { hosts, host_links, switches }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINES, walk};
    use super::*;

    #[test]
    fn leaf_spine__one_switch_within_a_leaf_and_three_between() {
        let topology = LeafSpine::default().topology(&LINES);
        assert_eq!((topology.hosts, topology.switches.len()), (144, 13));
        for path in 0..50 {
            assert_eq!(walk(&topology, 0, 15, path), 1);
            assert_eq!(walk(&topology, 0, 16, path), 3);
            assert_eq!(walk(&topology, 143, 1, path), 3);
        }
    }
}
