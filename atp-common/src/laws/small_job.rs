//! Small jobs in a deep queue, within a budget of their host.
//!
//! A job whose need fits the initial window has sent everything before anything comes back, so no
//! law can shape it. In a queue of a few packets, the synchronized bursts of such jobs lose whole
//! windows, and wait for timeouts. A deep queue between the exact queue and the approximate ones
//! holds them. The budget bounds what that costs other approximate traffic: a burst, and half of
//! the host's line.

use crate::units::Rate;
use bytemuck::{Pod, Zeroable};

/// Packets that a small job needs at most.
pub const PACKETS_MAX: u32 = 16;
/// The burst of the budget, bytes: two small jobs of full packets at MSR 0.8.
const BURST_BYTES: u64 = 64_000;
/// The budget is this part of the line.
const LINE_DIVISOR: u64 = 2;

/// Whether a job is small: of `queued` messages so far, `queued_bytes` together, it needs `needed`
/// at least. Later messages count as long as the earlier ones.
///
/// Overflow: up to 2^24 messages times 2^38 bytes would be 2^62.
pub const fn is_small(needed: u32, queued: u32, queued_bytes: u64, payload_bytes: u32) -> bool {
    let bytes = if queued_bytes > 1 << 38 { 1 << 38 } else { queued_bytes };
    let most = PACKETS_MAX as u64 * payload_bytes as u64;
    queued > 0 && needed as u64 * bytes <= most * queued as u64
}

/// Bytes on the wire that a host's small jobs may still send in the deep queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Budget {
    bytes: u64,
    refilled_ns: u64,
}

impl Budget {
    /// A full budget.
    pub const fn new(now_ns: u64) -> Self {
        Self { bytes: BURST_BYTES, refilled_ns: now_ns }
    }

    /// Takes `bytes`, if there are as many. `line`: the rate of the host's line.
    pub const fn take(&mut self, now_ns: u64, line: Rate, bytes: u32) -> bool {
        let share = Rate::from_bytes_per_s(line.bytes_per_s() / LINE_DIVISOR);
        let refill = share.bytes_in(now_ns.saturating_sub(self.refilled_ns));
        if refill > 0 {
            let filled = self.bytes.saturating_add(refill);
            self.bytes = if filled > BURST_BYTES { BURST_BYTES } else { filled };
            self.refilled_ns = now_ns;
        }
        let has_enough = self.bytes >= bytes as u64;
        if has_enough {
            self.bytes -= bytes as u64;
        }
        has_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // In any time, no more than the burst and the share of the line.
        #[test]
        fn take__is_bounded(
            gaps_ns in proptest::collection::vec(0u64..100_000, 1..500),
            bytes in 84u32..9_038,
            line in 1_000_000u64..50_000_000_000,
        ) {
            let line = Rate::from_bytes_per_s(line);
            let (mut budget, mut now_ns, mut taken) = (Budget::new(0), 0, 0u64);
            for gap_ns in gaps_ns {
                now_ns += gap_ns;
                taken += u64::from(bytes) * u64::from(budget.take(now_ns, line, bytes));
                let most = line.bytes_per_s() as f64 / 2.0 * now_ns as f64 / 1e9;
                prop_assert!(taken as f64 <= 64_000.0 + most + 1.0, "{taken} {most}");
            }
        }

        #[test]
        fn is_small__by_the_mean_message(
            needed in 1u32..1 << 24,
            queued in 1u32..1 << 24,
            len_bytes in 1u64..1 << 26,
        ) {
            let small = is_small(needed, queued, u64::from(queued) * len_bytes, 1_400);
            if u64::from(queued) * len_bytes <= 1 << 38 {
                prop_assert_eq!(small, u64::from(needed) * len_bytes <= 16 * 1_400);
            }
        }
    }

    #[test]
    fn take__refills_with_half_of_the_line() {
        let line = Rate::from_bytes_per_s(5_000_000_000);
        let mut budget = Budget::new(0);
        let at_once = (0..100).filter(|_| budget.take(0, line, 1_500)).count();
        assert_eq!(at_once, 42);
        // 2,500 bytes each microsecond, after the 1,000 that were left.
        assert!(!budget.take(1_000, line, 3_501) && budget.take(1_000, line, 3_500));
        assert!(!budget.take(2_000, line, 2_501) && budget.take(2_000, line, 2_500));
    }

    #[test]
    fn is_small__needs_a_message() {
        assert!(!is_small(1, 0, 0, 1_400));
    }
}
