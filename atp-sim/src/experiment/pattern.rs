//! Draws the pairs of senders and receivers.

use crate::net::HostId;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The pattern of senders and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every host sends to a random other host. Some hosts receive from several, others from none
    /// (NetApprox §7.1.1's all-to-all).
    Random,
    /// Every host sends to another host and receives from exactly one.
    Permutation,
    /// All other hosts send to host 0, or hosts 1 to the given number.
    Incast(Option<u32>),
    /// Random groups of one receiver and the given number of senders.
    FanIn(u32),
}

impl Pattern {
    /// The pairs of (source, destination) among `hosts` hosts.
    pub(super) fn pairs(self, hosts: u32, seed: u64) -> Vec<(HostId, HostId)> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        match self {
            Self::Random => {
                (0..hosts).map(|host| (host, (host + rng.random_range(1..hosts)) % hosts)).collect()
            }
            Self::Permutation => cycle(&mut rng, hosts),
            Self::Incast(number) => (1..hosts.min(number.map_or(hosts, |number| number + 1)))
                .map(|host| (host, 0))
                .collect(),
            Self::FanIn(senders) => groups(&mut rng, hosts, senders),
        }
    }
}

/// A random cyclic permutation (Sattolo's algorithm), so that no host sends to itself.
fn cycle(rng: &mut ChaCha8Rng, hosts: u32) -> Vec<(u32, u32)> {
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..to.len()).rev() {
        to.swap(last, rng.random_range(0..last));
    }
    (0..).zip(to).collect()
}

/// A random order of hosts (Fisher and Yates), split into groups of a receiver and `senders`
/// senders. The last group may have fewer senders.
fn groups(rng: &mut ChaCha8Rng, hosts: u32, senders: u32) -> Vec<(u32, u32)> {
    let mut order: Vec<u32> = (0..hosts).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.random_range(0..=last));
    }
    let size = senders as usize + 1;
    let of_group = |group: &[u32]| -> Vec<(u32, u32)> {
        let Some((&receiver, senders)) = group.split_first() else { return Vec::new() };
        senders.iter().map(|sender| (*sender, receiver)).collect()
    };
    order.chunks(size).flat_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs__no_host_sends_to_itself() {
        for (pattern, number) in
            [(Pattern::Random, 192), (Pattern::Permutation, 192), (Pattern::Incast(Some(7)), 7)]
        {
            let pairs = pattern.pairs(192, 1);
            assert_eq!(pairs.len(), number);
            assert!(pairs.iter().all(|(from, to)| from != to && *from < 192 && *to < 192));
        }
        let pairs = Pattern::Permutation.pairs(192, 1);
        let receivers: std::collections::BTreeSet<u32> = pairs.iter().map(|pair| pair.1).collect();
        assert_eq!(receivers.len(), 192);
    }

    #[test]
    fn pairs__fan_in_gives_every_receiver_its_senders() {
        for (senders, pairs) in [(1, 16), (3, 24), (7, 28), (31, 31), (12, 29)] {
            let drawn = Pattern::FanIn(senders).pairs(32, 1);
            assert_eq!(drawn.len(), pairs, "{senders}");
            let mut of_receiver = std::collections::BTreeMap::new();
            for (source, destination) in &drawn {
                assert!(drawn.iter().all(|pair| pair.1 != *source), "{source} receives as well");
                *of_receiver.entry(destination).or_insert(0) += 1;
            }
            assert_eq!(
                of_receiver.values().filter(|number| **number == senders).count(),
                32 / (senders as usize + 1)
            );
            assert_ne!(drawn, Pattern::FanIn(senders).pairs(32, 2));
        }
    }
}
