//! Keeps the RTTs that closed flows measured, for the first timeout and the first window of the
//! next flow to the same host.
//!
//! Users have entries of their own: a user can delay the ACKs of a receiver at any address that it
//! has, and would so delay the timeouts of others. The receiving host's users can do so too, within
//! the limit of the first timeout.

use approxlib::control::JobUser;
use atp_common::laws::{first_window::EarlierRtt, rtt::Rtt};
use std::collections::HashMap;

/// The most paths that are kept. The one that was measured longest ago makes room.
const PATHS_MAX: usize = 1_024;
/// An estimate is forgotten after a minute.
const AGE_NS_MAX: u64 = 60_000_000_000;
/// The minimum of a flow that was open for longer may be that of an earlier route.
const MINIMUM_AGE_NS_MAX: u64 = 20_000_000_000;

/// The paths of all users.
#[derive(Default)]
pub struct KnownPaths(HashMap<Ends, Path>);

/// A user, and the addresses of its host and of the other host: equal addresses of other hosts may
/// be behind different interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The user.
    pub user: JobUser,
    /// The flow's source address.
    pub local: [u8; 16],
    /// The flow's destination address.
    pub remote: [u8; 16],
    /// The interface of a link-local address; 0 if neither is one.
    pub scope: u32,
}

#[derive(Clone, Copy, Default)]
struct Path {
    rtt: EarlierRtt,
    noted_ns: u64,
}

impl KnownPaths {
    /// Keeps the RTT of a flow that closes: the shortest of its lanes' `rtts`, because the others
    /// may have waited in full queues. Ignores unknown RTTs. `opened_ns`: when the flow was opened.
    pub fn note(
        &mut self,
        now_ns: u64,
        ends: Ends,
        opened_ns: u64,
        rtts: impl IntoIterator<Item = Rtt>,
    ) {
        let known = rtts.into_iter().filter(|rtt| rtt.smoothed_ns > 0);
        let Some(rtt) = known.min_by_key(|rtt| rtt.smoothed_ns) else { return };
        if self.0.len() >= PATHS_MAX && !self.0.contains_key(&ends) {
            let oldest = self.0.iter().min_by_key(|(_, path)| path.noted_ns).map(|(ends, _)| *ends);
            oldest.and_then(|ends| self.0.remove(&ends));
        }
        let is_recent = now_ns.saturating_sub(opened_ns) <= MINIMUM_AGE_NS_MAX;
        let path = self.0.entry(ends).or_default();
        path.rtt.note(now_ns, rtt, if is_recent { rtt.min_ns } else { rtt.smoothed_ns });
        path.noted_ns = now_ns;
    }

    /// The last estimate of the RTT, and the least of the flows that closed in the last 10 to 20
    /// seconds; both 0 if unknown.
    pub fn get(&mut self, now_ns: u64, ends: Ends) -> (Rtt, u64) {
        match self.0.get_mut(&ends) {
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

    fn ends(uid: u32, remote: usize) -> Ends {
        Ends { user: uid.into(), local: [1; 16], remote: (remote as u128).to_be_bytes(), scope: 0 }
    }

    #[test]
    fn get__is_what_the_users_last_flow_to_the_host_measured() {
        let mut paths = KnownPaths::default();
        paths.note(MS, ends(1, 1), 0, [rtt(300_000)]);
        paths.note(2 * MS, ends(1, 1), 0, [rtt(900_000), rtt(500_000), Rtt::default()]);
        paths.note(3 * MS, ends(1, 1), 0, [Rtt::default()]);
        assert_eq!(paths.get(4 * MS, ends(1, 1)), (rtt(500_000), 300_000));
        assert_eq!(paths.get(4 * MS, ends(1, 2)), (Rtt::default(), 0));
        assert_eq!(paths.get(4 * MS, ends(2, 1)), (Rtt::default(), 0), "another user");
        let elsewhere = Ends { local: [2; 16], ..ends(1, 1) };
        assert_eq!(paths.get(4 * MS, elsewhere), (Rtt::default(), 0), "another interface");
    }

    #[test]
    fn get__forgets_the_minimum_first_and_then_the_estimate() {
        let mut paths = KnownPaths::default();
        paths.note(MS, ends(1, 1), 0, [rtt(300_000)]);
        assert_eq!(paths.get(30_000 * MS, ends(1, 1)), (rtt(300_000), 0));
        assert_eq!(paths.get(2 * MS + AGE_NS_MAX, ends(1, 1)), (Rtt::default(), 0));
    }

    #[test]
    fn note__minimum_of_a_long_flow_may_be_of_another_route() {
        let mut paths = KnownPaths::default();
        let longer = (0..50).fold(rtt(300_000), |rtt, _| rtt.observe(2_000_000));
        paths.note(MINIMUM_AGE_NS_MAX + 2 * MS, ends(1, 1), MS, [longer]);
        assert_eq!(paths.get(MINIMUM_AGE_NS_MAX + 3 * MS, ends(1, 1)).1, longer.smoothed_ns);
    }

    #[test]
    fn note__oldest_path_makes_room() {
        let mut paths = KnownPaths::default();
        for number in 0..PATHS_MAX {
            paths.note(number as u64 * MS, ends(1, number), 0, [rtt(MS)]);
        }
        let now_ns = PATHS_MAX as u64 * MS;
        paths.note(now_ns, ends(1, 0), 0, [rtt(MS)]);
        paths.note(now_ns, ends(2, 0), 0, [rtt(MS)]);
        assert_eq!(paths.0.len(), PATHS_MAX);
        assert_eq!(paths.get(now_ns, ends(1, 1)).1, 0);
        for known in [ends(1, 0), ends(2, 0), ends(1, 2)] {
            assert!(paths.get(now_ns, known).1 > 0, "{known:?}");
        }
    }
}
