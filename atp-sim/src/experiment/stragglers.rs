//! Makes some hosts and links slower than the others.

use super::NetworkSpec;
use crate::net::{Link, Topology, topology::mixed};

/// The share of slow hosts and links, and their slowdown in both directions.
///
/// A slow host has a slower line. A host with a slower processor would look the same to other
/// hosts. A slow link lies between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stragglers {
    /// The share of slow hosts, 0 to 1.
    pub hosts_share: f64,
    /// The factor by which their lines are slower, 1 or more.
    pub hosts_slowdown: f64,
    /// The share of slow links between switches, 0 to 1.
    pub links_share: f64,
    /// The factor by which these links are slower, 1 or more.
    pub links_slowdown: f64,
}

impl Default for Stragglers {
    /// No slow host and no slow link.
    fn default() -> Self {
        Self { hosts_share: 0.0, hosts_slowdown: 1.0, links_share: 0.0, links_slowdown: 1.0 }
    }
}

/// The minimal rate of a slow line, which carries a packet in milliseconds.
const BITS_PER_S_MIN: u64 = 1_000_000;

impl Stragglers {
    /// The numbers of slow hosts and slow links in a network.
    pub fn numbers(&self, network_spec: NetworkSpec) -> (usize, usize) {
        let of = |number: u64, share| count_of_share(number as usize, share);
        (of(network_spec.hosts(), self.hosts_share), of(network_spec.links(), self.links_share))
    }

    /// Slows down the hosts and links that the seed selects. A larger share includes the selection
    /// of a smaller one.
    pub(super) fn slow(&self, topology: &mut Topology, seed: u64) {
        let hosts = topology.hosts;
        for host in drawn(hosts as usize, self.hosts_share, seed) {
            slow_line(&mut topology.host_links[host], self.hosts_slowdown);
            let links = topology.switches.iter_mut().flat_map(|switch| &mut switch.links);
            for link in links.filter(|link| link.to == host as u32) {
                slow_line(link, self.hosts_slowdown);
            }
        }
        let between = between_switches(topology);
        for number in drawn(between.len(), self.links_share, !seed) {
            let (one, other) = between[number];
            for (from, to) in [(one, other), (other, one)] {
                let links = &mut topology.switches[from].links;
                for link in links.iter_mut().filter(|link| link.to == hosts + to as u32) {
                    slow_line(link, self.links_slowdown);
                }
            }
        }
    }
}

/// The links between switches, each once, as (lower, higher) switch index.
fn between_switches(topology: &Topology) -> Vec<(usize, usize)> {
    (0..topology.switches.len())
        .flat_map(|switch| topology.switches[switch].links.iter().map(move |to| (switch, to)))
        .filter_map(|(switch, link)| Some((switch, link.to.checked_sub(topology.hosts)? as usize)))
        .filter(|(switch, to)| switch < to)
        .collect()
}

fn slow_line(link: &mut Link, times: f64) {
    let bits_per_s = (link.bits_per_s as f64 / times) as u64;
    link.bits_per_s = bits_per_s.max(BITS_PER_S_MIN);
}

/// The number of elements in a share.
fn count_of_share(of: usize, share: f64) -> usize {
    (share * of as f64).round() as usize
}

/// Selects a share of the indices below `of`.
fn drawn(of: usize, share: f64, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..of).collect();
    // Use another hash than `exact_hosts` does, or the same hosts would be slow and exact.
    let of_seed = mixed(seed as u32 ^ 0x57a6_61e5);
    order.sort_by_key(|number| (mixed(*number as u32 ^ of_seed), *number));
    order.truncate(count_of_share(of, share));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Rate;

    fn slowed(stragglers: Stragglers, seed: u64) -> Topology {
        let network_spec: NetworkSpec = "leaf-spine:4,8,4".parse().unwrap();
        let mut topology = network_spec.topology(Rate::default());
        stragglers.slow(&mut topology, seed);
        topology
    }

    fn slow_hosts(topology: &Topology) -> Vec<u32> {
        let links = (0..).zip(&topology.host_links);
        links.filter(|(_, link)| link.bits_per_s < 40_000_000_000).map(|(host, _)| host).collect()
    }

    #[test]
    fn slow__slows_a_share_of_the_hosts_in_both_directions() {
        let stragglers =
            Stragglers { hosts_share: 0.25, hosts_slowdown: 4.0, ..Stragglers::default() };
        let topology = slowed(stragglers, 1);
        let slow = slow_hosts(&topology);
        assert_eq!(slow.len(), 8);
        assert_eq!(stragglers.numbers("leaf-spine:4,8,4".parse().unwrap()), (8, 0));
        for link in topology.switches.iter().flat_map(|switch| &switch.links) {
            let expected = if slow.contains(&link.to) { 10 } else { 40 };
            assert_eq!(link.bits_per_s, expected * 1_000_000_000);
        }
        let more = slow_hosts(&slowed(Stragglers { hosts_share: 0.5, ..stragglers }, 1));
        assert!(more.len() == 16 && slow.iter().all(|host| more.contains(host)));
        assert_ne!(slow, slow_hosts(&slowed(stragglers, 2)));
    }

    #[test]
    fn slow__slows_links_between_switches_in_both_directions() {
        let stragglers =
            Stragglers { links_share: 0.25, links_slowdown: 10.0, ..Stragglers::default() };
        let topology = slowed(stragglers, 1);
        assert!(slow_hosts(&topology).is_empty());
        let mut slow = std::collections::BTreeSet::new();
        for (node, switch) in (topology.hosts..).zip(&topology.switches) {
            for link in switch.links.iter().filter(|link| link.bits_per_s == 4_000_000_000) {
                assert!(link.to >= topology.hosts);
                slow.insert((node, link.to));
            }
        }
        assert_eq!(stragglers.numbers("leaf-spine:4,8,4".parse().unwrap()), (0, 4));
        // Four of sixteen links, in two directions.
        assert_eq!(slow.len(), 8);
        assert!(slow.iter().all(|(from, to)| slow.contains(&(*to, *from))));
    }

    #[test]
    fn slow__changes_nothing_by_default() {
        let network_spec: NetworkSpec = "fat-tree".parse().unwrap();
        let mut topology = network_spec.topology(Rate::default());
        Stragglers::default().slow(&mut topology, 1);
        assert_eq!(topology, network_spec.topology(Rate::default()));
    }
}
