//! Three layers of switches in pods (Al-Fares et al., SIGCOMM 2008).

use super::{Choice, Lines, Link, Routes, Topology, Wiring};

/// Layer numbers, see [`Routes::new`].
const EDGE_LAYER: u32 = 1;
const AGGREGATION_LAYER: u32 = 2;

/// A fat tree. The default has the 192 hosts of NetApprox §7.1, and its edge and aggregation
/// switches have as many lines up as down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Number of pods.
    pub pods: u32,
    /// Edge switches of each pod.
    pub edges_per_pod: u32,
    /// Hosts of each edge switch.
    pub hosts_per_edge: u32,
    /// Aggregation switches of each pod, connected to all edge switches of the pod.
    pub aggregations_per_pod: u32,
    /// Core switches connected to each aggregation switch. The aggregation switches of a pod have
    /// separate groups of core switches.
    pub cores_per_aggregation: u32,
}

impl Default for FatTree {
    fn default() -> Self {
        Self {
            pods: 8,
            edges_per_pod: 4,
            hosts_per_edge: 6,
            aggregations_per_pod: 6,
            cores_per_aggregation: 4,
        }
    }
}

impl FatTree {
    /// Builds the network: hosts, edge switches, aggregation switches, core switches.
    pub fn topology(self, lines: &Lines) -> Topology {
        let hosts = self.hosts();
        let link = |to| Link {
            to,
            bits_per_s: lines.host_bits_per_s,
            latency_ps: lines.propagation_ps + lines.switching_ps,
        };
        let host_links = (0..hosts).map(|host| link(self.edge(host / self.hosts_per_edge)));
        let edges = (0..self.pods * self.edges_per_pod).map(|edge| self.edge_wiring(edge, lines));
        let aggregations = (0..self.pods * self.aggregations_per_pod)
            .map(|aggregation| self.aggregation_wiring(aggregation, lines));
        let cores = (0..self.aggregations_per_pod * self.cores_per_aggregation)
            .map(|core| self.core_wiring(core, lines));
        Topology {
            hosts,
            host_links: host_links.collect(),
            switches: edges.chain(aggregations).chain(cores).collect(),
        }
    }

    /// The choices of lines on the way from one host to another.
    pub fn choices(self, from: u32, to: u32) -> Vec<Choice> {
        let mut choices = Vec::new();
        if from / self.hosts_per_edge != to / self.hosts_per_edge {
            choices.push(Choice { layer: EDGE_LAYER, lines: self.aggregations_per_pod });
        }
        if from / self.hosts_per_pod() != to / self.hosts_per_pod() {
            choices.push(Choice { layer: AGGREGATION_LAYER, lines: self.cores_per_aggregation });
        }
        choices
    }

    fn hosts(self) -> u32 {
        self.pods * self.edges_per_pod * self.hosts_per_edge
    }

    fn hosts_per_pod(self) -> u32 {
        self.edges_per_pod * self.hosts_per_edge
    }

    fn edge(self, number: u32) -> u32 {
        self.hosts() + number
    }

    fn aggregation(self, number: u32) -> u32 {
        self.edge(self.pods * self.edges_per_pod) + number
    }

    fn core(self, number: u32) -> u32 {
        self.aggregation(self.pods * self.aggregations_per_pod) + number
    }

    fn edge_wiring(self, number: u32, lines: &Lines) -> Wiring {
        let (own, number_up) = (self.hosts_per_edge, self.aggregations_per_pod);
        let first = number * own;
        let pod = number / self.edges_per_pod;
        let down = (0..self.hosts())
            .map(|host| (first..first + own).contains(&host).then(|| (host - first) as u16));
        let to_hosts = (first..first + own).map(|to| Link {
            to,
            bits_per_s: lines.host_bits_per_s,
            latency_ps: lines.propagation_ps,
        });
        let up = (0..number_up).map(|at| between(self.aggregation(pod * number_up + at), lines));
        Wiring {
            links: to_hosts.chain(up).collect(),
            routes: Routes::new(down.collect(), own as u16..(own + number_up) as u16, EDGE_LAYER),
        }
    }

    fn aggregation_wiring(self, number: u32, lines: &Lines) -> Wiring {
        let (edges, cores) = (self.edges_per_pod, self.cores_per_aggregation);
        let (pod, position) =
            (number / self.aggregations_per_pod, number % self.aggregations_per_pod);
        let down = (0..self.hosts()).map(|host| {
            let is_here = host / self.hosts_per_pod() == pod;
            is_here.then(|| (host % self.hosts_per_pod() / self.hosts_per_edge) as u16)
        });
        let to_edges = (0..edges).map(|edge| between(self.edge(pod * edges + edge), lines));
        let up = (0..cores).map(|core| between(self.core(position * cores + core), lines));
        Wiring {
            links: to_edges.chain(up).collect(),
            routes: Routes::new(
                down.collect(),
                edges as u16..(edges + cores) as u16,
                AGGREGATION_LAYER,
            ),
        }
    }

    fn core_wiring(self, number: u32, lines: &Lines) -> Wiring {
        let position = number / self.cores_per_aggregation;
        let down = (0..self.hosts()).map(|host| Some((host / self.hosts_per_pod()) as u16));
        let to_pods = (0..self.pods).map(|pod| {
            between(self.aggregation(pod * self.aggregations_per_pod + position), lines)
        });
        Wiring { links: to_pods.collect(), routes: Routes::new(down.collect(), 0..0, 3) }
    }
}

fn between(to: u32, lines: &Lines) -> Link {
    Link {
        to,
        bits_per_s: lines.switch_bits_per_s,
        latency_ps: lines.propagation_ps + lines.switching_ps,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINES, walk};
    use super::*;

    #[test]
    fn fat_tree__every_path_leads_there() {
        let tree = FatTree::default();
        let topology = tree.topology(&LINES);
        assert_eq!((topology.hosts, topology.switches.len()), (192, 32 + 48 + 24));
        for path in 0..100 {
            assert_eq!(walk(&topology, 0, 5, path), 1);
            assert_eq!(walk(&topology, 0, 6, path), 3);
            assert_eq!(walk(&topology, 0, 23, path), 3);
            assert_eq!(walk(&topology, 0, 24, path), 5);
            assert_eq!(walk(&topology, 191, 7, path), 5);
        }
    }

    #[test]
    fn fat_tree__paths_spread_over_all_cores() {
        let topology = FatTree::default().topology(&LINES);
        let mut seen = std::collections::BTreeSet::new();
        for path in 0..500 {
            let edge = &topology.switches[0];
            let aggregation = edge.links[edge.routes.port(191, path)].to;
            let wiring = &topology.switches[(aggregation - topology.hosts) as usize];
            seen.insert(wiring.links[wiring.routes.port(191, path)].to);
        }
        assert_eq!(seen.len(), 24);
    }
}
