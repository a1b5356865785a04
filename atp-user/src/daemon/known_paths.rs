//! Keeps the RTTs that closed flows measured, for the first timeout and the first window of the
//! next flow to the same host.
//!
//! Users have entries of their own: a user can delay the ACKs of a receiver at any address that it
//! has, and would so delay the timeouts of others.

use atp_common::laws::{first_window::EarlierRtt, rtt::Rtt};
use std::collections::HashMap;

/// The most paths that are kept. The one that was measured longest ago makes room.
const PATHS_MAX: usize = 1_024;
/// An estimate is forgotten after ten minutes.
const AGE_NS_MAX: u64 = 600_000_000_000;

/// The paths of all users.
#[derive(Default)]
pub struct KnownPaths(HashMap<(u32, [u8; 16]), Path>);

#[derive(Clone, Copy, Default)]
struct Path {
    rtt: EarlierRtt,
    noted_ns: u64,
}

impl KnownPaths {
    /// Keeps the RTT of a flow to `remote` that closes. Ignores an unknown RTT.
    pub fn note(&mut self, now_ns: u64, uid: u32, remote: [u8; 16], rtt: Rtt) {
        if rtt.smoothed_ns == 0 {
            return;
        }
        let key = (uid, remote);
        if self.0.len() >= PATHS_MAX && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, path)| path.noted_ns).map(|(key, _)| *key);
            oldest.and_then(|key| self.0.remove(&key));
        }
        let path = self.0.entry(key).or_default();
        path.rtt.note(now_ns, rtt, rtt.min_ns);
        path.noted_ns = now_ns;
    }

    /// The last estimate of the RTT to `remote`, and the least RTT of the last 10 to 20 seconds;
    /// both 0 if unknown.
    pub fn get(&mut self, now_ns: u64, uid: u32, remote: [u8; 16]) -> (Rtt, u64) {
        match self.0.get_mut(&(uid, remote)) {
            Some(path) if now_ns.saturating_sub(path.noted_ns) <= AGE_NS_MAX => {
                (path.rtt.last(), path.rtt.min_ns(now_ns))
            }
            _ => (Rtt::default(), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rtt(ns: u64) -> Rtt {
        Rtt::default().observe(ns)
    }

    fn host(number: usize) -> [u8; 16] {
        (number as u128).to_be_bytes()
    }

    #[test]
    fn get__is_what_the_users_last_flow_to_the_host_measured() {
        let mut paths = KnownPaths::default();
        paths.note(MS, 1, host(1), rtt(300_000));
        paths.note(2 * MS, 1, host(1), rtt(500_000));
        paths.note(3 * MS, 1, host(1), Rtt::default());
        assert_eq!(paths.get(4 * MS, 1, host(1)), (rtt(500_000), 300_000));
        assert_eq!(paths.get(4 * MS, 1, host(2)), (Rtt::default(), 0));
        assert_eq!(paths.get(4 * MS, 2, host(1)), (Rtt::default(), 0), "another user");
    }

    #[test]
    fn get__forgets_the_minimum_first_and_then_the_estimate() {
        let mut paths = KnownPaths::default();
        paths.note(MS, 1, host(1), rtt(300_000));
        assert_eq!(paths.get(30_000 * MS, 1, host(1)), (rtt(300_000), 0));
        assert_eq!(paths.get(2 * MS + AGE_NS_MAX, 1, host(1)), (Rtt::default(), 0));
    }

    #[test]
    fn note__oldest_path_makes_room() {
        let mut paths = KnownPaths::default();
        for number in 0..PATHS_MAX {
            paths.note(number as u64 * MS, 1, host(number), rtt(MS));
        }
        let now_ns = PATHS_MAX as u64 * MS;
        paths.note(now_ns, 1, host(0), rtt(MS));
        paths.note(now_ns, 2, host(0), rtt(MS));
        assert_eq!(paths.0.len(), PATHS_MAX);
        assert_eq!(paths.get(now_ns, 1, host(1)).1, 0);
        for known in [(1, 0), (2, 0), (1, 2)] {
            assert!(paths.get(now_ns, known.0, host(known.1)).1 > 0, "{known:?}");
        }
    }
}
