//! One switch with hosts around it: a single bottleneck.

use super::{Lines, Link, Routes, Topology, Wiring};

/// A star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Star {
    /// Number of hosts.
    pub hosts: u32,
}

impl Star {
    /// Builds the network: hosts, then the switch.
    pub fn topology(self, lines: &Lines) -> Topology {
        let Self { hosts } = self;
        let up = Link {
            to: hosts,
            bits_per_s: lines.host_bits_per_s,
            latency_ps: lines.propagation_ps + lines.switching_ps,
        };
        let down =
            |to| Link { to, bits_per_s: lines.host_bits_per_s, latency_ps: lines.propagation_ps };
        let routes = Routes::new((0..hosts).map(|host| Some(host as u16)).collect(), 0..0, 0);
        let switch = Wiring { links: (0..hosts).map(down).collect(), routes };
        Topology { hosts, host_links: vec![up; hosts as usize], switches: vec![switch] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINES, walk};
    use super::*;

    #[test]
    fn star__one_switch_between_any_two() {
        let topology = Star { hosts: 5 }.topology(&LINES);
        for (from, to) in [(0, 4), (4, 0), (2, 3)] {
            assert_eq!(walk(&topology, from, to, 77), 1);
        }
    }
}
