//! The path of a flow: equal-cost multipath (ECMP) by a hash of its connection.

use super::NewFlow;
use crate::net::{HostId, topology::mixed_all};
use std::collections::BTreeMap;

/// The number of flows so far between each pair of hosts, as (source, destination).
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<(HostId, HostId), u32>);

impl Connections {
    /// The path number of a new flow: a hash of its seed, its hosts, and the number of earlier
    /// flows between them, which stands for the ports. The number of all earlier flows would differ
    /// between schemes where a flow begins when another one ends, and schemes are compared on the
    /// same paths.
    pub fn path(&mut self, new: &NewFlow) -> u32 {
        let NewFlow { source, destination, path_seed, .. } = *new;
        let earlier = self.0.entry((source, destination)).or_default();
        let (high, low) = ((path_seed >> 32) as u32, path_seed as u32);
        let path = mixed_all(&[high, low, source, destination, *earlier]);
        *earlier += 1;
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::topology::Choice;
    use proptest::prelude::*;

    fn new(source: HostId, destination: HostId, path_seed: u64) -> NewFlow {
        NewFlow { path_seed, ..NewFlow::new(source, destination, Box::new(std::iter::empty()), 0) }
    }

    /// The path numbers of one flow from each of 192 hosts to a host of another pod.
    fn paths(seed: u64) -> Vec<u32> {
        let mut connections = Connections::default();
        (0..192).map(|host| connections.path(&new(host, (host + 24) % 192, seed))).collect()
    }

    /// The pairs of flows that share a line of `lines` at one layer.
    fn collisions(paths: &[u32], lines: u32) -> Vec<(usize, usize)> {
        let line = |flow: usize| Choice { layer: 1, lines }.of(paths[flow]);
        let pairs = (0..paths.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.filter(|(one, other)| line(*one) == line(*other)).collect()
    }

    proptest! {
        #[test]
        fn path__the_seed_decides_the_collisions(seed: u64, other: u64) {
            prop_assume!(seed != other);
            prop_assert_eq!(paths(seed), paths(seed));
            prop_assert_ne!(collisions(&paths(seed), 6), collisions(&paths(other), 6));
        }

        /// A sixth of 18,336 pairs of flows shares one of six lines. The number is 16 chi² +
        /// 2,976, and chi² has five degrees of freedom: above 3,760 (chi² of 49) with probability
        /// 2.2e-9, so that one of the 256 cases fails in 6 of ten million runs.
        #[test]
        fn path__flows_spread_evenly(seed: u64) {
            let number = collisions(&paths(seed), 6).len();
            prop_assert!((2_976..3_760).contains(&number), "{}", number);
        }
    }

    /// Each flow of a pair has its own path, whatever flows other pairs have.
    #[test]
    fn path__depends_on_the_connection_only() {
        let mut connections = Connections::default();
        let alone: Vec<u32> = (0..50).map(|_| connections.path(&new(1, 2, 7))).collect();
        let mut connections = Connections::default();
        for path in &alone {
            connections.path(&new(2, 1, 7));
            connections.path(&new(1, 3, 7));
            assert_eq!(connections.path(&new(1, 2, 7)), *path);
        }
        let distinct: std::collections::BTreeSet<_> = alone.iter().collect();
        assert_eq!(distinct.len(), alone.len());
    }

    /// One line of a layer carries its share of the flows of many seeds.
    #[test]
    fn path__every_line_is_chosen_equally_often() {
        let mut flows = [0u32; 6];
        for path in (0..100).flat_map(paths) {
            flows[Choice { layer: 1, lines: 6 }.of(path) as usize] += 1;
        }
        // 19,200 flows: 3,200 for each line, with a standard deviation of 52.
        assert!(flows.iter().all(|number| (2_940..3_460).contains(number)), "{flows:?}");
    }
}
