//! The receiving host's knowledge of one approximate lane.

use super::{Arrivals, FULL_PACKET_BYTES, PACKETS_MIN};
use crate::wire::Advice;

/// A lane that takes less than this share of its advice, Q16, isn't held back by it: 0.7.
const TAKES_Q16: u64 = 45_875;
/// An increase of the advice by more than this, in percent, gives the sender time to follow.
const RAISE_PERCENT: u64 = 20;

/// The arrivals of one lane, and its advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneArrivals {
    arrivals: Arrivals,
    began_ns: u64,
    last_ns: u64,
    raised_ns: u64,
    /// Bytes per second on the wire; 0 before the first.
    advice_bytes_per_s: u64,
    backlogged: bool,
    /// The present demand, bytes per second. Only [`super::fill()`] uses it.
    pub(super) demand_bytes_per_s: u64,
}

impl LaneArrivals {
    /// A lane whose first packet arrives now.
    pub fn new(now_ns: u64) -> Self {
        Self {
            arrivals: Arrivals::default(),
            began_ns: now_ns,
            last_ns: now_ns,
            raised_ns: now_ns,
            advice_bytes_per_s: 0,
            backlogged: true,
            demand_bytes_per_s: 0,
        }
    }

    /// Counts `wire_bytes` that arrived by `now_ns`. `backlogged`: the flag of the last packet.
    pub fn arrive(&mut self, now_ns: u64, window_ns: u64, wire_bytes: u64, backlogged: bool) {
        self.arrivals.add(now_ns, window_ns, wire_bytes);
        (self.last_ns, self.backlogged) = (now_ns, backlogged);
    }

    /// Whether the lane still counts: it was silent for no longer than the window, or than four
    /// packets at its advice.
    pub fn is_active(&self, now_ns: u64, window_ns: u64) -> bool {
        let packets_ns = match self.advice_bytes_per_s {
            0 => 0,
            advice => PACKETS_MIN * FULL_PACKET_BYTES * 1_000_000_000 / advice,
        };
        now_ns < self.last_ns + window_ns.max(packets_ns)
    }

    /// The advice that the last filling gave.
    pub fn advice(&self) -> Advice {
        match self.advice_bytes_per_s {
            0 => Advice::NONE,
            bytes_per_s => Advice::of(bytes_per_s),
        }
    }

    /// Computes the demand. A lane with a backlog that takes what it is advised wants more. A
    /// backlog alone means nothing: the lane may wait for a narrower link elsewhere. A lane without
    /// one wants a quarter more than what arrives, so that it can grow.
    pub(super) fn update_demand(&mut self, now_ns: u64, window_ns: u64, least_bytes_per_s: u64) {
        let arrived = self.arrivals.bytes_per_s(now_ns, window_ns);
        let is_young = now_ns < self.began_ns + 2 * window_ns;
        let was_raised = now_ns < self.raised_ns + window_ns;
        let unproven = is_young || was_raised || self.advice_bytes_per_s == 0;
        let takes = arrived >= (self.advice_bytes_per_s.min(1 << 40) * TAKES_Q16) >> 16;
        // Before two windows have passed, a sender may not know that it should state its backlog.
        let unlimited = is_young || self.backlogged && (unproven || takes);
        self.demand_bytes_per_s =
            if unlimited { u64::MAX } else { arrived + arrived / 4 + least_bytes_per_s };
    }

    pub(super) fn set_advice(&mut self, now_ns: u64, bytes_per_s: u64) {
        let raise_bytes_per_s = self.advice_bytes_per_s / 100 * RAISE_PERCENT;
        if bytes_per_s > self.advice_bytes_per_s + raise_bytes_per_s {
            self.raised_ns = now_ns;
        }
        self.advice_bytes_per_s = bytes_per_s;
    }
}
