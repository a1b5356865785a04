//! Path numbers, for senders that choose the path of each packet.

use super::mixed;

/// A choice between equal paths at the switches of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// See [`super::Routes::new`].
    pub layer: u32,
    /// Number of lines that lead up.
    pub lines: u32,
}

/// Maximum number of distinct paths. More would not spread packets any better.
const PATHS_MAX: u64 = 256;

impl Choice {
    /// The line that path number `path` selects: 0 to `lines - 1`.
    pub const fn of(self, path: u32) -> u32 {
        let mixed = mixed(path ^ self.layer.wrapping_mul(0x9e37_79b9));
        ((mixed as u64 * self.lines as u64) >> 32) as u32
    }
}

/// One path number for each path through `choices`, 256 at most.
pub fn paths(choices: &[Choice]) -> Vec<u32> {
    let count: u64 = choices.iter().map(|choice| u64::from(choice.lines)).product();
    let mut seen = std::collections::BTreeSet::new();
    let fresh =
        |path: &u32| seen.insert(choices.iter().map(|choice| choice.of(*path)).collect::<Vec<_>>());
    // A number exists for every path: each choice depends on all bits of the number.
    (0..=u32::MAX).filter(fresh).take(count.min(PATHS_MAX) as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{FatTree, LeafSpine, Star, Topology, tests::LINES};
    use super::*;

    /// The switches between two hosts on path number `path`.
    fn passed(topology: &Topology, from: u32, to: u32, path: u32) -> Vec<u32> {
        let mut at = topology.host_links[from as usize].to;
        let mut passed = Vec::new();
        while at != to {
            passed.push(at);
            let switch = &topology.switches[(at - topology.hosts) as usize];
            at = switch.links[switch.routes.port(to, path)].to;
        }
        passed
    }

    #[test]
    fn paths__each_selects_a_path_of_its_own() {
        let (tree, leaf_spine, star) =
            (FatTree::default(), LeafSpine::default(), Star { hosts: 3 });
        let cases = [
            (tree.topology(&LINES), 0, 191, tree.choices(0, 191), 24),
            (tree.topology(&LINES), 6, 23, tree.choices(6, 23), 6),
            (tree.topology(&LINES), 7, 8, tree.choices(7, 8), 1),
            (leaf_spine.topology(&LINES), 15, 16, leaf_spine.choices(15, 16), 4),
            (leaf_spine.topology(&LINES), 0, 15, leaf_spine.choices(0, 15), 1),
            (star.topology(&LINES), 0, 2, Vec::new(), 1),
        ];
        for (topology, from, to, choices, expected) in cases {
            let paths = paths(&choices);
            let routes: std::collections::BTreeSet<_> =
                paths.iter().map(|path| passed(&topology, from, to, *path)).collect();
            assert_eq!((paths.len(), routes.len()), (expected, expected), "{from} to {to}");
        }
    }

    #[test]
    fn paths__are_not_too_many() {
        let choice = |layer| Choice { layer, lines: 1_000 };
        assert_eq!(paths(&[choice(1), choice(2)]).len(), 256);
    }
}
