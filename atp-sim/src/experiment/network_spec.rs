//! Parses the specification of a network, such as `leaf-spine:9,16,4`.

use crate::{
    engine::NS,
    net::{
        HostId, Topology, duration_ps,
        topology::{self, FatTree, LeafSpine, Lines, Star},
    },
    workload::HOSTS_MAX,
};
use std::{fmt, str::FromStr};

/// The kind and dimensions of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkSpec {
    /// Three layers of switches, in pods.
    FatTree(FatTree),
    /// Two layers of switches.
    LeafSpine(LeafSpine),
    /// One switch.
    Star(Star),
}

impl Default for NetworkSpec {
    fn default() -> Self {
        Self::FatTree(FatTree::default())
    }
}

/// A rate of a line.
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
    /// A rate of 1 to 400 Gbit/s; `None` for any other.
    pub fn gbit_per_s(gbit_per_s: u32) -> Option<Self> {
        (1..=400).contains(&gbit_per_s).then_some(Self { gbit_per_s })
    }

    /// The rate in bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.gbit_per_s as u64 * 1_000_000_000
    }
}

const NODES_MAX: u64 = 100_000;
const LINKS_MAX: u64 = 1_000_000;
/// The limit of routes in one network. A route takes two bytes, for every scheme in a concurrent
/// run.
const ROUTES_MAX: u64 = 100_000_000;

/// The delay of 20 m of fiber.
const PROPAGATION_PS: u64 = 100 * NS;
/// The latency of a cut-through switch without the packet's serialization time. The simulated
/// switch is store-and-forward, so that time comes on top.
const SWITCHING_PS: u64 = 450 * NS;

impl NetworkSpec {
    /// Builds the topology.
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

    /// The path numbers between two hosts, one for each path.
    pub fn paths(self, from: HostId, to: HostId) -> Vec<u32> {
        let choices = match self {
            Self::FatTree(tree) => tree.choices(from, to),
            Self::LeafSpine(leaf_spine) => leaf_spine.choices(from, to),
            Self::Star(_) => Vec::new(),
        };
        topology::paths(&choices)
    }

    /// The round-trip time between the two most distant hosts in an idle network. The packet has
    /// `there_bytes` on the wire, and the response `back_bytes`.
    pub fn round_trip_ps(self, rate: Rate, there_bytes: u32, back_bytes: u32) -> u64 {
        let switches = self.switches_max();
        let bits_per_s = rate.bits_per_s();
        let sending_ps = duration_ps(there_bytes, bits_per_s) + duration_ps(back_bytes, bits_per_s);
        let latency_ps = switches * (PROPAGATION_PS + SWITCHING_PS) + PROPAGATION_PS;
        (switches + 1) * sending_ps + 2 * latency_ps
    }

    /// The number of switches between the two most distant hosts.
    pub fn switches_max(self) -> u64 {
        match self {
            Self::FatTree(FatTree { pods: 2.., .. }) => 5,
            Self::FatTree(FatTree { edges_per_pod: 2.., .. })
            | Self::LeafSpine(LeafSpine { leaves: 2.., .. }) => 3,
            _ => 1,
        }
    }
}

impl FromStr for NetworkSpec {
    type Err = String;

    /// Parses a kind, alone or with its dimensions:
    ///
    /// - `fat-tree:8,4,6,6,4`: pods, edge switches per pod, hosts per edge switch, aggregation
    ///   switches per pod, core switches per aggregation switch
    /// - `leaf-spine:9,16,4`: leaves, hosts per leaf, spines
    /// - `star:5`: hosts, always required
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
        let network_spec = match (name, &numbers[..]) {
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
                    "{text:?} is not a network: choose fat-tree, leaf-spine or star:HOSTS, or give \
                     dimensions, as in fat-tree:8,4,6,6,4, leaf-spine:9,16,4 or star:5"
                ));
            }
        };
        let (hosts, switches) = (network_spec.hosts(), network_spec.switches());
        if hosts < 2 {
            return Err(format!("{text:?} has {hosts} host: choose 2 or more"));
        }
        // Each of these limits keeps the memory below a few GiB.
        let counts = [
            (hosts, "hosts", HOSTS_MAX.into()),
            (hosts + switches, "hosts and switches", NODES_MAX),
            (hosts + network_spec.links(), "links", LINKS_MAX),
            (hosts.saturating_mul(switches), "routes, one to each host at each switch", ROUTES_MAX),
        ];
        for (number, what, max) in counts {
            if number > max {
                return Err(format!(
                    "{text:?} has {number} {what}: choose a network with up to {max}"
                ));
            }
        }
        Ok(network_spec)
    }
}

impl fmt::Display for NetworkSpec {
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

impl NetworkSpec {
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

    /// The number of links between switches.
    pub(super) fn links(self) -> u64 {
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

    /// The number of hosts.
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

    /// Compares the result with the sum over the links from the first host to the last one and
    /// back.
    #[test]
    fn round_trip_ps__matches_the_topology() {
        let (rate, bytes) = (Rate::default(), [1_538, 91]);
        for text in ["fat-tree", "fat-tree:1,4,6,6,4", "fat-tree:1,1,6,1,1", "leaf-spine", "star:5"]
        {
            let network_spec: NetworkSpec = text.parse().unwrap();
            let topology = network_spec.topology(rate);
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
            assert_eq!(network_spec.round_trip_ps(rate, bytes[0], bytes[1]), took_ps, "{text}");
        }
    }

    #[test]
    fn network_spec__round_trips_through_text() {
        for text in ["fat-tree:8,4,6,6,4", "leaf-spine:9,16,4", "star:5"] {
            assert_eq!(text.parse::<NetworkSpec>().unwrap().to_string(), text);
        }
        assert_eq!("fat-tree".parse(), Ok(NetworkSpec::default()));
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
            let error = wrong.parse::<NetworkSpec>().unwrap_err();
            assert!(error.contains(wrong) || error.contains("number"), "{error}");
        }
    }

    /// The limit of hosts is the same for all kinds of networks.
    #[test]
    fn network_spec__has_limits() {
        for text in ["star:10000", "leaf-spine:1,10000,1", "fat-tree:1,10,1000,1,1"] {
            assert_eq!(
                text.parse::<NetworkSpec>().unwrap().hosts(),
                u64::from(HOSTS_MAX),
                "{text}"
            );
        }
        for (wrong, about) in [
            ("star:1", "has 1 host: choose 2 or more"),
            ("star:10001", "not a number from 1 to 10000"),
            ("leaf-spine:2,5001,1", "has 10002 hosts: choose a network with up to 10000"),
            ("fat-tree:101,100,1,1,1", "has 10100 hosts: choose a network with up to 10000"),
            (
                "fat-tree:2,1,1,1000,1000",
                "has 1002004 hosts and switches: choose a network with up to 100000",
            ),
            ("leaf-spine:1000,2,1000", "has 1002000 links: choose a network with up to 1000000"),
            (
                "fat-tree:2,1,5000,8,10000",
                "has 800180000 routes, one to each host at each switch: choose",
            ),
        ] {
            let error = wrong.parse::<NetworkSpec>().unwrap_err();
            assert!(error.contains(about), "{error}");
        }
    }

    #[test]
    fn links__matches_the_topology() {
        for text in ["fat-tree:3,4,6,5,2", "fat-tree:1,4,6,6,4", "leaf-spine:9,16,4", "star:5"] {
            let network_spec: NetworkSpec = text.parse().unwrap();
            let topology = network_spec.topology(Rate::default());
            let ends = topology.switches.iter().flat_map(|switch| &switch.links);
            let between = ends.filter(|link| link.to >= topology.hosts).count();
            assert_eq!(network_spec.links() * 2, between as u64, "{text}");
        }
    }
}
