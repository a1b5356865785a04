//! Networks by name.

use crate::{
    engine::NS,
    net::{
        HostId, Topology, duration_ps,
        topology::{self, FatTree, LeafSpine, Lines, Star},
    },
    workload::HOSTS_MAX,
};
use std::{fmt, str::FromStr};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Three layers in pods.
    FatTree(FatTree),
    /// Two layers.
    LeafSpine(LeafSpine),
    /// One switch.
    Star(Star),
}

impl Default for Place {
    fn default() -> Self {
        Self::FatTree(FatTree::default())
    }
}

/// The rate of every line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    gbit_per_s: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self { gbit_per_s: 40 }
    }
}

impl Rate {
    /// 1 to 400 Gbit/s.
    pub fn gbit_per_s(gbit_per_s: u32) -> Option<Self> {
        (1..=400).contains(&gbit_per_s).then_some(Self { gbit_per_s })
    }

    /// In bits.
    pub const fn bits_per_s(self) -> u64 {
        self.gbit_per_s as u64 * 1_000_000_000
    }
}

const NODES_MAX: u64 = 100_000;
const LINES_MAX: u64 = 1_000_000;
/// Two bytes each, for every scheme that is run at the same time.
const ROUTES_MAX: u64 = 100_000_000;

/// Twenty metres of fibre.
const PROPAGATION_PS: u64 = 100 * NS;
/// A cut-through switch's, though here it takes packets in whole: what is left of its time.
const SWITCHING_PS: u64 = 450 * NS;

impl Place {
    /// The network itself.
    pub fn topology(self, rate: Rate) -> Topology {
        let lines = Lines {
            host_bits_per_s: rate.bits_per_s(),
            switch_bits_per_s: rate.bits_per_s(),
            propagation_ps: PROPAGATION_PS,
            switching_ps: SWITCHING_PS,
        };
        match self {
            Self::FatTree(tree) => tree.topology(&lines),
            Self::LeafSpine(leaf_spine) => leaf_spine.topology(&lines),
            Self::Star(star) => star.topology(&lines),
        }
    }

    /// One path number for each way from one host to another.
    pub fn paths(self, from: HostId, to: HostId) -> Vec<u32> {
        let choices = match self {
            Self::FatTree(tree) => tree.choices(from, to),
            Self::LeafSpine(leaf_spine) => leaf_spine.choices(from, to),
            Self::Star(_) => Vec::new(),
        };
        topology::paths(&choices)
    }

    /// How long a packet of `there_bytes` on the wire and an answer of `back_bytes` take where nothing
    /// waits, between the hosts that are farthest from each other.
    pub fn round_trip_ps(self, rate: Rate, there_bytes: u32, back_bytes: u32) -> u64 {
        let switches = self.switches_max();
        let bits_per_s = rate.bits_per_s();
        let sending_ps = duration_ps(there_bytes, bits_per_s) + duration_ps(back_bytes, bits_per_s);
        let latency_ps = switches * (PROPAGATION_PS + SWITCHING_PS) + PROPAGATION_PS;
        (switches + 1) * sending_ps + 2 * latency_ps
    }

    /// How many switches lie between the hosts that are farthest from each other.
    pub fn switches_max(self) -> u64 {
        match self {
            Self::FatTree(FatTree { pods: 2.., .. }) => 5,
            Self::FatTree(FatTree { edges_per_pod: 2.., .. })
            | Self::LeafSpine(LeafSpine { leaves: 2.., .. }) => 3,
            _ => 1,
        }
    }
}

impl FromStr for Place {
    type Err = String;

    /// `fat-tree`, `leaf-spine`, or either with its numbers: `fat-tree:8,4,6,6,4` (pods, edge switches
    /// of each, hosts of each, aggregation switches of each pod, cores of each of these),
    /// `leaf-spine:9,16,4` (leaves, hosts of each, spines), `star:5` (hosts).
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Vec<u32> = numbers
            .split(',')
            .filter(|number| !number.is_empty())
            .map(|number| match number.trim().parse() {
                Ok(number @ 1..=HOSTS_MAX) => Ok(number),
                _ => Err(format!("{number:?} in {text:?} is not a number from 1 to {HOSTS_MAX}")),
            })
            .collect::<Result<_, _>>()?;
        let place = match (name, &numbers[..]) {
            ("fat-tree", []) => Self::FatTree(FatTree::default()),
            (
                "fat-tree",
                &[pods, edges_per_pod, hosts_per_edge, aggregations_per_pod, cores_per_aggregation],
            ) => Self::FatTree(FatTree {
                pods,
                edges_per_pod,
                hosts_per_edge,
                aggregations_per_pod,
                cores_per_aggregation,
            }),
            ("leaf-spine", []) => Self::LeafSpine(LeafSpine::default()),
            ("leaf-spine", &[leaves, hosts_per_leaf, spines]) => {
                Self::LeafSpine(LeafSpine { leaves, hosts_per_leaf, spines })
            }
            ("star", &[hosts]) => Self::Star(Star { hosts }),
            _ => {
                return Err(format!(
                    "{text:?} is no network: fat-tree, fat-tree:8,4,6,6,4, leaf-spine, \
                     leaf-spine:9,16,4 or star:5"
                ));
            }
        };
        let (hosts, switches) = (place.hosts(), place.switches());
        if hosts < 2 {
            return Err(format!("{text:?} has {hosts} host: choose 2 or more"));
        }
        // What each takes of memory, up to a few GiB.
        let counts = [
            (hosts, "hosts", HOSTS_MAX.into()),
            (hosts + switches, "hosts and switches", NODES_MAX),
            (hosts + place.lines(), "lines", LINES_MAX),
            (hosts.saturating_mul(switches), "routes, one to each host at each switch", ROUTES_MAX),
        ];
        for (number, what, most) in counts {
            if number > most {
                return Err(format!("{text:?} has {number} {what}: up to {most} can be simulated"));
            }
        }
        Ok(place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FatTree(tree) => write!(
                f,
                "fat-tree:{},{},{},{},{}",
                tree.pods,
                tree.edges_per_pod,
                tree.hosts_per_edge,
                tree.aggregations_per_pod,
                tree.cores_per_aggregation
            ),
            Self::LeafSpine(LeafSpine { leaves, hosts_per_leaf, spines }) => {
                write!(f, "leaf-spine:{leaves},{hosts_per_leaf},{spines}")
            }
            Self::Star(Star { hosts }) => write!(f, "star:{hosts}"),
        }
    }
}

impl Place {
    fn switches(self) -> u64 {
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        match self {
            Self::FatTree(tree) => {
                product(tree.pods, tree.edges_per_pod + tree.aggregations_per_pod)
                    + product(tree.aggregations_per_pod, tree.cores_per_aggregation)
            }
            Self::LeafSpine(LeafSpine { leaves, spines, .. }) => u64::from(leaves + spines),
            Self::Star(_) => 1,
        }
    }

    /// How many lines lie between its switches.
    pub(super) fn lines(self) -> u64 {
        let product = |numbers: &[u32]| numbers.iter().map(|number| u64::from(*number)).product();
        match self {
            Self::FatTree(tree) => {
                let each = tree.edges_per_pod + tree.cores_per_aggregation;
                product(&[tree.pods, tree.aggregations_per_pod, each])
            }
            Self::LeafSpine(LeafSpine { leaves, spines, .. }) => product(&[leaves, spines]),
            Self::Star(_) => 0,
        }
    }

    /// How many hosts it has.
    pub fn hosts(self) -> u64 {
        let product = |numbers: &[u32]| numbers.iter().map(|number| u64::from(*number)).product();
        match self {
            Self::FatTree(tree) => product(&[tree.pods, tree.edges_per_pod, tree.hosts_per_edge]),
            Self::LeafSpine(LeafSpine { leaves, hosts_per_leaf, .. }) => {
                product(&[leaves, hosts_per_leaf])
            }
            Self::Star(Star { hosts }) => hosts.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line after line from the first host to the last one and back.
    #[test]
    fn round_trip_ps__is_the_topology_s() {
        let (rate, bytes) = (Rate::default(), [1_538, 91]);
        for text in ["fat-tree", "fat-tree:1,4,6,6,4", "fat-tree:1,1,6,1,1", "leaf-spine", "star:5"]
        {
            let place: Place = text.parse().unwrap();
            let topology = place.topology(rate);
            let last = topology.hosts - 1;
            let mut took_ps = 0;
            for ((from, to), bytes) in [(0, last), (last, 0)].into_iter().zip(bytes) {
                let mut link = topology.host_links[from as usize];
                loop {
                    took_ps += duration_ps(bytes, link.bits_per_s) + link.latency_ps;
                    let Some(switch) = link.to.checked_sub(topology.hosts) else { break };
                    let switch = &topology.switches[switch as usize];
                    link = switch.links[switch.routes.port(to, 7)];
                }
            }
            assert_eq!(place.round_trip_ps(rate, bytes[0], bytes[1]), took_ps, "{text}");
        }
    }

    #[test]
    fn place__reads_what_it_writes() {
        for text in ["fat-tree:8,4,6,6,4", "leaf-spine:9,16,4", "star:5"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("fat-tree".parse(), Ok(Place::default()));
        for wrong in [
            "ring",
            "star",
            "star:1",
            "star:x",
            "star:0",
            "fat-tree:1,2",
            "star:1,2",
            "fat-tree:2,1,1,1000,1000",
        ] {
            let error = wrong.parse::<Place>().unwrap_err();
            assert!(error.contains(wrong) || error.contains("number"), "{error}");
        }
    }

    /// As many hosts whatever the network, and no more lines than fit into memory.
    #[test]
    fn place__bounds_are_the_same_for_all() {
        for text in ["star:10000", "leaf-spine:1,10000,1", "fat-tree:1,10,1000,1,1"] {
            assert_eq!(text.parse::<Place>().unwrap().hosts(), u64::from(HOSTS_MAX), "{text}");
        }
        for (wrong, about) in [
            ("star:1", "has 1 host: choose 2 or more"),
            ("star:10001", "not a number from 1 to 10000"),
            ("leaf-spine:2,5001,1", "has 10002 hosts: up to 10000 can"),
            ("fat-tree:101,100,1,1,1", "has 10100 hosts: up to 10000 can"),
            ("fat-tree:2,1,1,1000,1000", "has 1002004 hosts and switches: up to 100000 can"),
            ("leaf-spine:1000,2,1000", "has 1002000 lines: up to 1000000 can"),
            (
                "fat-tree:2,1,5000,8,10000",
                "has 800180000 routes, one to each host at each switch: up",
            ),
        ] {
            let error = wrong.parse::<Place>().unwrap_err();
            assert!(error.contains(about), "{error}");
        }
    }

    #[test]
    fn lines__are_the_topology_s() {
        for text in ["fat-tree:3,4,6,5,2", "fat-tree:1,4,6,6,4", "leaf-spine:9,16,4", "star:5"] {
            let place: Place = text.parse().unwrap();
            let topology = place.topology(Rate::default());
            let ends = topology.switches.iter().flat_map(|switch| &switch.links);
            let between = ends.filter(|link| link.to >= topology.hosts).count();
            assert_eq!(place.lines() * 2, between as u64, "{text}");
        }
    }
}
