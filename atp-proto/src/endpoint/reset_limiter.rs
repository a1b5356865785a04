//! Limits the RESETs that an endpoint sends: a flood of packets must not become a flood of answers.
//! A sender repeats a packet that got none.

use super::places::Network;
use std::hash::{DefaultHasher, Hash, Hasher};

/// RESETs to all addresses. Addresses share buckets by a secret hash, so that strangers can't
/// choose the bucket of another address.
pub struct ResetLimiter {
    secret: u64,
    /// The time at which each bucket is empty. Allocated with the first RESET.
    empty_ns: Vec<u64>,
}

impl ResetLimiter {
    const BUCKETS: usize = 64;
    /// The interval of one bucket's RESETs.
    const INTERVAL_NS: u64 = 10_000_000;
    /// RESETs that a bucket allows at once.
    const BURST: u64 = 32;

    pub const fn new(secret: u64) -> Self {
        Self { secret, empty_ns: Vec::new() }
    }

    /// Whether a RESET may be sent to an address now. Counts it if so.
    pub fn allows(&mut self, now_ns: u64, network: Network) -> bool {
        let mut hasher = DefaultHasher::new();
        (self.secret, network).hash(&mut hasher);
        let bucket = hasher.finish() as usize % Self::BUCKETS;
        self.empty_ns.resize(Self::BUCKETS, 0);
        let empty_ns = self.empty_ns[bucket].max(now_ns);
        let is_allowed = empty_ns - now_ns < Self::BURST * Self::INTERVAL_NS;
        if is_allowed {
            self.empty_ns[bucket] = empty_ns + Self::INTERVAL_NS;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows__a_hundred_per_second_in_a_flood() {
        let mut limiter = ResetLimiter::new(1);
        let network = Network::of("10.0.0.1:1".parse().unwrap());
        let allowed = (0..10_000).filter(|ms| limiter.allows(ms * 1_000_000, network)).count();
        assert!((1_000..=1_032).contains(&allowed), "{allowed}");
        let at_once = (0..1_000).filter(|_| limiter.allows(20_000_000_000, network)).count();
        assert_eq!(at_once, 32);
    }
}
