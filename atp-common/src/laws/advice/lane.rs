//! The receiving host's knowledge of one approximate lane.

use super::{FULL_PACKET_BYTES, PACKETS_MIN};
use crate::wire::Advice;

/// A lane that takes less than this share of its advice, Q16, isn't held back by it: 0.7.
const TAKES_Q16: u64 = 45_875;
/// An increase of the advice by more than this, in percent, gives the sender time to follow.
const RAISE_PERCENT: u64 = 20;

/// The time in which counted bytes arrived, evenly as far as is known: from one look at a counter
/// to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The span's beginning, nanoseconds.
    pub since_ns: u64,
    /// The span's end, nanoseconds, not before `since_ns`: the time of the count.
    pub until_ns: u64,
}

impl Span {
    /// One instant: a packet was counted as it came.
    pub const fn at(now_ns: u64) -> Self {
        Self { since_ns: now_ns, until_ns: now_ns }
    }
}

/// Arrived bytes over a sliding window, from the counts of the current and the previous window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The number of the current window.
    window: u64,
    /// Bytes in it so far.
    bytes: u64,
    /// Bytes in the window before.
    bytes_before: u64,
}

impl Arrivals {
    /// Counts `bytes` that arrived in `span`. `window_ns`: at least 1, always the same.
    ///
    /// Each window gets its part of a span that began before it. Otherwise the current one, of
    /// which only the last part counts, would have half a span too much: at ticks of 2 ms and
    /// windows of 10 ms, all rates would be a tenth too high.
    pub fn add(&mut self, span: Span, window_ns: u64, bytes: u64) {
        let window = span.until_ns / window_ns;
        self.turn(window);
        let (begin_ns, length_ns) = (window * window_ns, span.until_ns - span.since_ns);
        let before_ns = begin_ns.saturating_sub(span.since_ns);
        let part = |part_ns: u64| {
            let part = u128::from(bytes) * u128::from(part_ns) / u128::from(length_ns.max(1));
            part as u64
        };
        let before = part(before_ns);
        self.bytes = self.bytes.saturating_add(bytes - before);
        self.bytes_before = self.bytes_before.saturating_add(part(before_ns.min(window_ns)));
    }

    /// Bytes per second over the last window. The part of the previous window that is in it counts
    /// in proportion.
    ///
    /// Overflow: bytes are limited to 2^33 a window, which 400 Gbit/s take 170 ms for; times 10^9
    /// that is below 2^63.
    pub fn bytes_per_s(&mut self, now_ns: u64, window_ns: u64) -> u64 {
        self.turn(now_ns / window_ns);
        let before_q16 = (1 << 16) - ((now_ns % window_ns) << 16) / window_ns;
        let limit = |bytes: u64| bytes.min(1 << 32);
        let bytes = limit(self.bytes) + ((limit(self.bytes_before) * before_q16) >> 16);
        bytes * 1_000_000_000 / window_ns
    }

    fn turn(&mut self, window: u64) {
        if window == self.window {
            return;
        }
        self.bytes_before = if window == self.window + 1 { self.bytes } else { 0 };
        (self.window, self.bytes) = (window, 0);
    }
}

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
    /// Whether the lane took its advice, before the advice rose.
    took_advice: bool,
    /// The current demand, bytes per second. Only [`super::fill()`] uses it.
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
            took_advice: true,
            demand_bytes_per_s: 0,
        }
    }

    /// Counts `wire_bytes` that arrived in `span`. `backlogged`: the flag of the last packet.
    pub fn arrive(&mut self, span: Span, window_ns: u64, wire_bytes: u64, backlogged: bool) {
        self.arrivals.add(span, window_ns, wire_bytes);
        (self.last_ns, self.backlogged) = (span.until_ns, backlogged);
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
        let takes = arrived >= (self.advice_bytes_per_s.min(1 << 40) * TAKES_Q16) >> 16;
        if !was_raised {
            self.took_advice = takes || is_young;
        }
        // Before two windows have passed, a sender may not know that it should state its backlog.
        let unlimited = is_young || self.backlogged && (takes || was_raised && self.took_advice);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A steady stream is measured to a packet, however late the host looks at its counter.
        #[test]
        fn bytes_per_s__of_a_steady_stream(
            looks_ns in proptest::collection::vec(1_000u64..30_000_000, 1..200),
            bytes_per_s in 1_000_000u64..50_000_000_000,
            window_ns in 30_000u64..10_000_000,
            phase_ns in 0u64..1 << 40,
        ) {
            let mut arrivals = Arrivals::default();
            let total = |ns: u64| (u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000) as u64;
            let mut since_ns = phase_ns;
            for look_ns in looks_ns {
                let until_ns = since_ns + look_ns;
                let bytes = total(until_ns - phase_ns) - total(since_ns - phase_ns);
                arrivals.add(Span { since_ns, until_ns }, window_ns, bytes);
                since_ns = until_ns;
                if until_ns >= phase_ns + 2 * window_ns {
                    let found = arrivals.bytes_per_s(until_ns, window_ns);
                    let packet = 1_538 * 1_000_000_000 / window_ns;
                    prop_assert!(found.abs_diff(bytes_per_s) <= packet + bytes_per_s / 32_768,
                        "{found} {bytes_per_s}");
                }
            }
        }

        // Packets that are counted as they come.
        #[test]
        fn bytes_per_s__of_steady_packets(
            gap_ns in 100u64..10_000,
            bytes in 84u64..9_000,
            window_ns in 30_000u64..10_000_000,
            windows in 1u64..4,
            phase_ns in 0u64..1 << 40,
        ) {
            let mut arrivals = Arrivals::default();
            let mut now_ns = phase_ns;
            while now_ns < phase_ns + (1 + windows) * window_ns {
                arrivals.add(Span::at(now_ns), window_ns, bytes);
                now_ns += gap_ns;
            }
            let found = arrivals.bytes_per_s(now_ns - gap_ns, window_ns) as f64;
            let expected = bytes as f64 * 1e9 / gap_ns as f64;
            let packet = bytes as f64 * 1e9 / window_ns as f64;
            prop_assert!((found - expected).abs() <= 3.0 * packet + expected / 32_768.0,
                "{found} {expected}");
        }
    }

    #[test]
    fn bytes_per_s__forgets_silence() {
        let mut arrivals = Arrivals::default();
        arrivals.add(Span::at(1_000), 1_000, 500);
        assert_eq!(arrivals.bytes_per_s(1_999, 1_000), 500_000_000);
        assert_eq!(arrivals.bytes_per_s(2_500, 1_000), 250_000_000);
        assert_eq!(arrivals.bytes_per_s(3_000, 1_000), 0);
    }
}
