//! The ports of programs' sockets, as senders claim them: one sender has each.
//!
//! ATP sends from a port of its own, so a message names the port of its program's socket. That
//! isn't proven: every user of the sender's host can name it. So the first process to claim a port
//! has it until its job ends, and no ports are claimed that take privileges. A process that was
//! killed ends no job, and its successor has another secret. So a claim takes messages to keep.

use crate::{datagram::RESERVED_PORTS, hosts, secret::Secret};
use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Claims at once, four times the jobs for which the receiver has places. One host has three
/// quarters at most.
const CLAIMS_MAX: usize = 1_024;
/// After so long without a message, another process may claim the port.
const IDLE: Duration = Duration::from_secs(60);
/// How long a claim is kept without a message if others need its place.
const KEPT: Duration = Duration::from_secs(10);

/// The claims of the senders to one socket, by the address that is claimed.
#[derive(Default)]
pub struct Claims {
    held: HashMap<SocketAddr, Claim>,
}

struct Claim {
    holder: Secret,
    /// The run of the holder's last message.
    run: u64,
    used: Instant,
}

impl Claims {
    /// Whether the process `holder`, in this run of its job, has the address that it claims.
    pub fn admits(&mut self, claimed: SocketAddr, holder: Secret, run: u64, now: Instant) -> bool {
        let is_live = |claim: &Claim| now.duration_since(claim.used) < IDLE;
        let known = self.held.get(&claimed).filter(|claim| is_live(claim));
        if RESERVED_PORTS.contains(&claimed.port())
            || known.is_some_and(|claim| claim.holder != holder)
            || known.is_none() && !self.has_room(claimed, now)
        {
            return false;
        }
        self.held.insert(claimed, Claim { holder, run, used: now });
        true
    }

    /// Makes room, if all is taken or the host's share is: the longest idle claim goes, of the
    /// host that has most.
    fn has_room(&mut self, claimed: SocketAddr, now: Instant) -> bool {
        let held = self.held.keys().map(SocketAddr::ip);
        let Some(crowded) = hosts::crowded(held, claimed.ip(), CLAIMS_MAX) else {
            return true;
        };
        let of_most = self.held.iter().filter(|(held, _)| hosts::of(held.ip()) == crowded);
        let oldest = of_most.min_by_key(|(_, claim)| claim.used);
        let idle = oldest.filter(|(_, claim)| now.duration_since(claim.used) >= KEPT);
        let victim = idle.map(|(held, _)| *held);
        victim.is_some_and(|victim| self.held.remove(&victim).is_some())
    }

    /// A run has ended. A forged one of the same address and job has another number.
    pub fn end(&mut self, run: u64) {
        self.held.retain(|_, claim| claim.run != run);
    }

    /// Ends the claim of an address that the kernel of the sender's host gave to the sender itself.
    pub fn give_back(&mut self, source: SocketAddr) {
        self.held.remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Secret = Secret::of([1; 8]);
    const OTHER: Secret = Secret::of([2; 8]);

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn admits__one_process_until_its_job_ends() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        let claimed = address("10.0.0.1:8125");
        let [first, second, third] = [1, 2, 3];
        assert!(claims.admits(claimed, ONE, first, now));
        assert!(!claims.admits(claimed, OTHER, second, now));
        // A later job of the process, or one of its child.
        assert!(claims.admits(claimed, ONE, third, now));
        claims.end(first);
        assert!(!claims.admits(claimed, OTHER, second, now));
        claims.end(third);
        assert!(claims.admits(claimed, OTHER, second, now));
    }

    #[test]
    fn admits__no_reserved_port_and_no_idle_holder() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        for (port, is_free) in [(1, false), (1_023, false), (1_024, true)] {
            let claimed = SocketAddr::new(address("[fd00::1]:0").ip(), port);
            assert_eq!(claims.admits(claimed, ONE, 1, now), is_free, "{port}");
        }
        let claimed = address("[fd00::1]:1024");
        assert!(!claims.admits(claimed, OTHER, 1, now + IDLE - Duration::from_secs(1)));
        assert!(claims.admits(claimed, OTHER, 1, now + IDLE));
        claims.give_back(claimed);
        assert!(claims.admits(claimed, ONE, 1, now + IDLE));
    }

    /// A killed client with a fixed port is there again, with another secret.
    #[test]
    fn admits__a_successor_after_a_minute() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        let claimed = address("10.0.0.1:8125");
        assert!(claims.admits(claimed, ONE, 1, now));
        let minute = Duration::from_secs(60);
        assert!(!claims.admits(claimed, OTHER, 1, now + minute / 2));
        assert!(claims.admits(claimed, OTHER, 1, now + minute));
        // One that sends keeps it.
        for half in 3..10 {
            assert!(claims.admits(claimed, OTHER, 1, now + half * minute / 2));
            assert!(!claims.admits(claimed, ONE, 1, now + half * minute / 2));
        }
    }

    #[test]
    fn admits__as_many_as_there_is_room_for() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        let mut claim = |ip: &str, ports: std::ops::Range<u16>, now| {
            let claimed = ports.map(|port| SocketAddr::new(ip.parse().unwrap(), port));
            claimed.filter(|claimed| claims.admits(*claimed, ONE, 1, now)).count()
        };
        assert_eq!(claim("10.0.0.1", 2_000..2_800, now), 768);
        assert_eq!(claim("10.0.0.2", 2_000..2_300, now), 256);
        assert_eq!(claim("10.0.0.3", 2_000..2_010, now), 0);
        // Claims that nobody keeps make room: of the address with most.
        assert_eq!(claim("10.0.0.2", 2_000..2_256, now + KEPT), 256);
        assert_eq!(claim("10.0.0.3", 2_000..2_300, now + KEPT), 300);
        assert_eq!(claim("10.0.0.2", 2_000..2_256, now + KEPT), 256);
    }
}
