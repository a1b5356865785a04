//! Plans an all-reduce: every host has a vector, and in the end every host has the sum of all
//! vectors.
//!
//! The plan is a list of transfers with their dependencies.

use crate::net::HostId;

/// The order of the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each host sends to the next one, a chunk at a time: `2 (n - 1)` steps, in each of which
    /// every line carries one chunk (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms
    /// for clusters of workstations", 2009; cited from memory).
    Ring,
    /// Complete vectors go up a binary tree, and the sum goes down again: `2 floor(log2 n)` steps.
    Tree,
}

/// The receiver's use of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Add it to the receiver's chunk.
    Reduce,
    /// Replace the receiver's chunk.
    Gather,
}

/// A chunk that one host sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub source: HostId,
    /// The receiver.
    pub destination: HostId,
    /// The index of the chunk in the vector.
    pub chunk: u32,
    /// The length.
    pub bytes: u64,
    /// The receiver's use.
    pub purpose: Purpose,
    /// The indices of the transfers that must be complete before this one: those that bring the
    /// chunk to the sender, and in a ring also the sender's previous transfer.
    pub after: Vec<usize>,
}

impl Shape {
    /// All transfers for vectors of `bytes` on hosts 0 to `hosts - 1`, each after its dependencies.
    ///
    /// # Panics
    /// With fewer than two hosts.
    pub fn transfers(self, hosts: u32, bytes: u64) -> Vec<Transfer> {
        assert!(hosts >= 2, "an all-reduce needs two hosts or more");
        match self {
            Self::Ring => ring(hosts, bytes),
            Self::Tree => tree(hosts, bytes),
        }
    }
}

/// In step s, host i sends chunk i - s, which it received from host i - 1 in the previous step.
/// After `n - 1` steps, host i has the complete sum of chunk i + 1. The sums then go around the
/// ring once.
///
/// A host's step ends when it has sent and received (`MPI_Sendrecv`). Without this rule, a host
/// could have two transfers at once. They would share its line, end together, and stay together in
/// all later steps.
fn ring(hosts: u32, bytes: u64) -> Vec<Transfer> {
    let steps = 2 * (hosts - 1);
    let each = |step: u32, source: u32| {
        let chunk = (source + 2 * hosts - step) % hosts;
        let longer = u64::from(chunk) < bytes % u64::from(hosts);
        let before = (source + hosts - 1) % hosts;
        let of_step = |step: u32| [before, source].map(|source| (step * hosts + source) as usize);
        Transfer {
            source,
            destination: (source + 1) % hosts,
            chunk,
            bytes: bytes / u64::from(hosts) + u64::from(longer),
            purpose: if step < hosts - 1 { Purpose::Reduce } else { Purpose::Gather },
            after: step.checked_sub(1).map(of_step).into_iter().flatten().collect(),
        }
    };
    (0..steps).flat_map(|step| (0..hosts).map(move |source| each(step, source))).collect()
}

/// Host i's parent is (i - 1) / 2. The transfers up come first, from the last host to the first, so
/// that children send before their parents.
fn tree(hosts: u32, bytes: u64) -> Vec<Transfer> {
    let parent = |host: u32| (host - 1) / 2;
    let up_at = |host: u32| (hosts - 1 - host) as usize;
    let down_at = |host: u32| (hosts - 1 + host - 1) as usize;
    let from_children = |host: u32| -> Vec<usize> {
        [2 * host + 1, 2 * host + 2].into_iter().filter(|child| *child < hosts).map(up_at).collect()
    };
    let up = |host: u32| Transfer {
        source: host,
        destination: parent(host),
        chunk: 0,
        bytes,
        purpose: Purpose::Reduce,
        after: from_children(host),
    };
    let down = |host: u32| Transfer {
        source: parent(host),
        destination: host,
        purpose: Purpose::Gather,
        after: match parent(host) {
            0 => from_children(0),
            parent => vec![down_at(parent)],
        },
        ..up(host)
    };
    (1..hosts).rev().map(up).chain((1..hosts).map(down)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeSet;

    /// Runs transfers in a random order that their dependencies allow. Returns the hosts whose
    /// vectors are included, by host and chunk.
    fn done(hosts: u32, transfers: &[Transfer], seed: u64) -> Vec<Vec<BTreeSet<u32>>> {
        let chunks = transfers.iter().map(|transfer| transfer.chunk).max().unwrap() + 1;
        let mut has: Vec<Vec<BTreeSet<u32>>> =
            (0..hosts).map(|host| vec![BTreeSet::from([host]); chunks as usize]).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut left: Vec<usize> = (0..transfers.len()).collect();
        while !left.is_empty() {
            let ready: Vec<usize> = (0..left.len())
                .filter(|at| transfers[left[*at]].after.iter().all(|before| !left.contains(before)))
                .collect();
            assert!(!ready.is_empty(), "the dependencies have a cycle");
            let transfer = &transfers[left.remove(ready[rng.random_range(0..ready.len())])];
            let chunk = transfer.chunk as usize;
            let sent = has[transfer.source as usize][chunk].clone();
            let held = &mut has[transfer.destination as usize][chunk];
            match transfer.purpose {
                Purpose::Reduce => {
                    assert!(held.is_disjoint(&sent), "a vector is added twice");
                    held.extend(sent);
                }
                Purpose::Gather => *held = sent,
            }
        }
        has
    }

    /// The longest chain of transfers that wait for each other.
    fn steps(transfers: &[Transfer]) -> u32 {
        let mut depths: Vec<u32> = Vec::new();
        for transfer in transfers {
            let before = transfer.after.iter().map(|before| depths[*before]).max();
            depths.push(before.unwrap_or(0) + 1);
        }
        depths.into_iter().max().unwrap()
    }

    proptest! {
        /// In any order, every host ends with every chunk of all hosts, exactly once.
        #[test]
        fn transfers__give_every_host_the_sum(hosts in 2u32..12, seed: u64, ring: bool) {
            let shape = if ring { Shape::Ring } else { Shape::Tree };
            let all_hosts: BTreeSet<u32> = (0..hosts).collect();
            for chunks in done(hosts, &shape.transfers(hosts, 1_000), seed) {
                prop_assert!(chunks.iter().all(|chunk| *chunk == all_hosts));
            }
        }

        #[test]
        fn transfers__take_the_expected_number_of_steps(hosts in 2u32..200) {
            let ring = Shape::Ring.transfers(hosts, 1_000);
            prop_assert_eq!(steps(&ring), 2 * (hosts - 1));
            prop_assert_eq!(ring.len() as u32, hosts * 2 * (hosts - 1));
            let tree = Shape::Tree.transfers(hosts, 1_000);
            prop_assert_eq!(steps(&tree), 2 * hosts.ilog2());
            prop_assert_eq!(tree.len() as u32, 2 * (hosts - 1));
        }

        /// In any order, a host of the ring sends one transfer at a time.
        #[test]
        fn transfers__of_a_host_in_a_ring_are_sequential(hosts in 2u32..50) {
            let transfers = Shape::Ring.transfers(hosts, 1_000);
            let mut last = vec![None; hosts as usize];
            for (at, transfer) in transfers.iter().enumerate() {
                let before = last[transfer.source as usize].replace(at);
                prop_assert!(before.is_none_or(|before| transfer.after.contains(&before)));
            }
        }

        /// Each step of the ring moves every chunk once.
        #[test]
        fn transfers__ring_steps_move_the_complete_vector(hosts in 2u32..50, bytes in 0u64..100_000) {
            for step in Shape::Ring.transfers(hosts, bytes).chunks(hosts as usize) {
                prop_assert_eq!(step.iter().map(|transfer| transfer.bytes).sum::<u64>(), bytes);
                let chunks: BTreeSet<u32> = step.iter().map(|transfer| transfer.chunk).collect();
                prop_assert_eq!(chunks.len() as u32, hosts);
            }
        }
    }
}
