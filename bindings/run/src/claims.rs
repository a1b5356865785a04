//! The ports of programs' sockets, as senders claim them: one sender has each.
//!
//! ATP sends from a port of its own, so a message names the port of its program's socket. That
//! isn't proven: every user of the sender's host can name it. So the first process to claim a port
//! has it until its job ends, and no ports are claimed that take privileges.

use crate::{datagram::RESERVED_PORTS, secret::Secret};
use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// Claims at once, four times the jobs for which the receiver has places. One address has three
/// quarters at most.
const CLAIMS_MAX: usize = 1_024;
/// A job that was killed doesn't end. After so long without a message, its claims make room.
const IDLE: Duration = Duration::from_secs(3_600);

/// The claims of the senders to one socket, by the address that is claimed.
#[derive(Default)]
pub struct Claims {
    held: HashMap<SocketAddr, Claim>,
}

struct Claim {
    holder: Secret,
    /// The socket of the holder's last message.
    source: SocketAddr,
    used: Instant,
}

impl Claims {
    /// Whether the process `holder`, which sends from `source`, has the address that it claims.
    pub fn admits(
        &mut self,
        claimed: SocketAddr,
        holder: Secret,
        source: SocketAddr,
        now: Instant,
    ) -> bool {
        let is_live = |claim: &Claim| now.duration_since(claim.used) < IDLE;
        let known = self.held.get(&claimed).filter(|claim| is_live(claim));
        if RESERVED_PORTS.contains(&claimed.port())
            || known.is_some_and(|claim| claim.holder != holder)
            || known.is_none() && !self.has_room(claimed, now)
        {
            return false;
        }
        self.held.insert(claimed, Claim { holder, source, used: now });
        true
    }

    fn has_room(&mut self, claimed: SocketAddr, now: Instant) -> bool {
        if self.held.len() >= CLAIMS_MAX {
            self.held.retain(|_, claim| now.duration_since(claim.used) < IDLE);
        }
        let own = self.held.keys().filter(|held| held.ip() == claimed.ip()).count();
        self.held.len() < CLAIMS_MAX && own < CLAIMS_MAX * 3 / 4
    }

    /// A job from `source` has ended.
    pub fn end(&mut self, source: SocketAddr) {
        self.held.retain(|_, claim| claim.source != source);
    }

    /// The kernel of the sender's host gave it this address, whoever claims it.
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
        let [first, second, third] =
            ["10.0.0.1:40001", "10.0.0.1:40002", "10.0.0.1:40003"].map(address);
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
        let source = address("[fd00::1]:40001");
        for (port, is_free) in [(1, false), (1_023, false), (1_024, true)] {
            let claimed = SocketAddr::new(source.ip(), port);
            assert_eq!(claims.admits(claimed, ONE, source, now), is_free, "{port}");
        }
        let claimed = address("[fd00::1]:1024");
        assert!(!claims.admits(claimed, OTHER, source, now + IDLE - Duration::from_secs(1)));
        assert!(claims.admits(claimed, OTHER, source, now + IDLE));
        claims.give_back(claimed);
        assert!(claims.admits(claimed, ONE, source, now + IDLE));
    }

    #[test]
    fn admits__as_many_as_there_is_room_for() {
        let (mut claims, now) = (Claims::default(), Instant::now());
        let mut claim = |ip: &str, ports: std::ops::Range<u16>, now| {
            let claimed = ports.map(|port| SocketAddr::new(ip.parse().unwrap(), port));
            let source = SocketAddr::new(ip.parse().unwrap(), 9);
            claimed.filter(|claimed| claims.admits(*claimed, ONE, source, now)).count()
        };
        assert_eq!(claim("10.0.0.1", 2_000..4_000, now), 768);
        assert_eq!(claim("10.0.0.2", 2_000..4_000, now), 256);
        assert_eq!(claim("10.0.0.3", 2_000..4_000, now), 0);
        assert_eq!(claim("10.0.0.3", 2_000..4_000, now + IDLE), 768);
    }
}
