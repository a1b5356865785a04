//! All-reduce: every host has a vector, and in the end every host has the sum of all.
//!
//! What is here is who sends which part to whom, and what it must have before; how a network does it
//! is [`crate::experiment`]'s.

use crate::net::HostId;

/// In which way the sum is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each host to the next one, a chunk at a time: `2 (n - 1)` steps, in each of which every line
    /// carries one chunk (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
    /// workstations", 2009; cited from memory).
    Ring,
    /// Whole vectors up a binary tree, and the sum down again: `2 floor(log2 n)` steps.
    Tree,
}

/// What a transfer's receiver does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It adds it to its own.
    Reduce,
    /// It takes it instead of its own.
    Gather,
}

/// A part that one host sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who has it.
    pub source: HostId,
    /// Who gets it.
    pub destination: HostId,
    /// Which chunk of the vector it is.
    pub chunk: u32,
    /// How long.
    pub bytes: u64,
    /// What for.
    pub purpose: Purpose,
    /// The transfers that must be done before, by their places in the plan: those that its sender has it
    /// from, and in a ring the one that its sender sent before.
    pub after: Vec<usize>,
}

impl Shape {
    /// All transfers over vectors of `bytes` on hosts 0 to `hosts - 1`, each after those that it waits
    /// for. Nobody sends what has no bytes.
    ///
    /// # Panics
    /// With less than two hosts.
    pub fn transfers(self, hosts: u32, bytes: u64) -> Vec<Transfer> {
        assert!(hosts >= 2, "one host has the sum already");
        match self {
            Self::Ring => ring(hosts, bytes),
            Self::Tree => tree(hosts, bytes),
        }
    }
}

/// In step s host i sends chunk i - s, which it got in the step before from host i - 1. After `n - 1`
/// steps host i has all of chunk i + 1, and those go round once more.
///
/// A step ends for a host when it has sent and received (`MPI_Sendrecv`). If it began to send whatever it has,
/// transfers that catch up with each other would share its line packet by packet and end together, and never
/// come apart again.
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

/// Host i's parent is (i - 1) / 2. Upwards first: from the last host to the first, so that children
/// stand before their parents.
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

    /// Does transfers in any order that their dependencies allow; what each host then has of each
    /// chunk: whose parts.
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
            assert!(!ready.is_empty(), "transfers wait for each other");
            let transfer = &transfers[left.remove(ready[rng.random_range(0..ready.len())])];
            let chunk = transfer.chunk as usize;
            let sent = has[transfer.source as usize][chunk].clone();
            let place = &mut has[transfer.destination as usize][chunk];
            match transfer.purpose {
                Purpose::Reduce => {
                    assert!(place.is_disjoint(&sent), "a part is added twice");
                    place.extend(sent);
                }
                Purpose::Gather => *place = sent,
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
        /// Whatever comes first, every host ends with everybody's part of every chunk, once.
        #[test]
        fn transfers__everybody_has_the_sum(hosts in 2u32..12, seed: u64, ring: bool) {
            let shape = if ring { Shape::Ring } else { Shape::Tree };
            let everybody: BTreeSet<u32> = (0..hosts).collect();
            for chunks in done(hosts, &shape.transfers(hosts, 1_000), seed) {
                prop_assert!(chunks.iter().all(|chunk| *chunk == everybody));
            }
        }

        #[test]
        fn transfers__take_the_steps_that_they_should(hosts in 2u32..200) {
            let ring = Shape::Ring.transfers(hosts, 1_000);
            prop_assert_eq!(steps(&ring), 2 * (hosts - 1));
            prop_assert_eq!(ring.len() as u32, hosts * 2 * (hosts - 1));
            let tree = Shape::Tree.transfers(hosts, 1_000);
            prop_assert_eq!(steps(&tree), 2 * hosts.ilog2());
            prop_assert_eq!(tree.len() as u32, 2 * (hosts - 1));
        }

        /// Whatever comes first, a host of the ring sends one transfer at a time.
        #[test]
        fn transfers__of_a_ring_s_host_follow_each_other(hosts in 2u32..50) {
            let transfers = Shape::Ring.transfers(hosts, 1_000);
            let mut last = vec![None; hosts as usize];
            for (at, transfer) in transfers.iter().enumerate() {
                let before = last[transfer.source as usize].replace(at);
                prop_assert!(before.is_none_or(|before| transfer.after.contains(&before)));
            }
        }

        /// Each step of the ring moves every chunk once.
        #[test]
        fn transfers__ring_steps_move_the_whole_vector(hosts in 2u32..50, bytes in 0u64..100_000) {
            for step in Shape::Ring.transfers(hosts, bytes).chunks(hosts as usize) {
                prop_assert_eq!(step.iter().map(|transfer| transfer.bytes).sum::<u64>(), bytes);
                let chunks: BTreeSet<u32> = step.iter().map(|transfer| transfer.chunk).collect();
                prop_assert_eq!(chunks.len() as u32, hosts);
            }
        }
    }
}
