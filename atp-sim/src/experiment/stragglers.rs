//! Hosts and links that are slower than the others.

use super::Place;
use crate::net::{Link, Topology, topology::mixed};

/// Which share of them is slower, and by how much. A slow host has a slower line in both directions; a
/// host that takes longer with each packet looks the same to the others. A slow link lies between two
/// switches, and is slower in both directions too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stragglers {
    /// The share of slow hosts, 0 to 1.
    pub hosts_share: f64,
    /// How many times slower their lines are, 1 or more.
    pub hosts_slowdown: f64,
    /// The share of slow links between switches, 0 to 1.
    pub links_share: f64,
    /// How many times slower they are, 1 or more.
    pub links_slowdown: f64,
}

impl Default for Stragglers {
    /// None.
    fn default() -> Self {
        Self { hosts_share: 0.0, hosts_slowdown: 1.0, links_share: 0.0, links_slowdown: 1.0 }
    }
}

/// A line as slow as that still carries a packet in milliseconds.
const BITS_PER_S_MIN: u64 = 1_000_000;

impl Stragglers {
    /// How many hosts of a place and how many links between its switches are slow.
    pub fn numbers(&self, place: Place) -> (usize, usize) {
        let of = |number: u64, share| wanted(number as usize, share);
        (of(place.hosts(), self.hosts_share), of(place.lines(), self.links_share))
    }

    /// Slows them down. The same seed finds the same ones, and those of a small share are among those
    /// of a larger.
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

/// Each link between two switches once, from the one with the lower number.
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

/// How many of them a share is.
fn wanted(of: usize, share: f64) -> usize {
    (share * of as f64).round() as usize
}

/// The numbers below `of` that belong to a share of them, exactly as many as it says.
fn drawn(of: usize, share: f64, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..of).collect();
    // Not the hash that draws the exact hosts: slow ones would be the same.
    let of_seed = mixed(seed as u32 ^ 0x57a6_61e5);
    order.sort_by_key(|number| (mixed(*number as u32 ^ of_seed), *number));
    order.truncate(wanted(of, share));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Rate;

    fn slowed(stragglers: Stragglers, seed: u64) -> Topology {
        let place: Place = "leaf-spine:4,8,4".parse().unwrap();
        let mut topology = place.topology(Rate::default());
        stragglers.slow(&mut topology, seed);
        topology
    }

    fn slow_hosts(topology: &Topology) -> Vec<u32> {
        let links = (0..).zip(&topology.host_links);
        links.filter(|(_, link)| link.bits_per_s < 40_000_000_000).map(|(host, _)| host).collect()
    }

    #[test]
    fn slow__as_many_hosts_as_asked_for_in_both_directions() {
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
    fn slow__links_between_switches_in_both_directions() {
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
        // Four of sixteen.
        assert_eq!(slow.len(), 8);
        assert!(slow.iter().all(|(from, to)| slow.contains(&(*to, *from))));
    }

    #[test]
    fn slow__nothing_by_default() {
        let place: Place = "fat-tree".parse().unwrap();
        let mut topology = place.topology(Rate::default());
        Stragglers::default().slow(&mut topology, 1);
        assert_eq!(topology, place.topology(Rate::default()));
    }
}
