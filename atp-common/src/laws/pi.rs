//! A proportional step around a loss that tiny queues have anyway. Experimental: its constants were
//! fitted to one kind of traffic in a simulation of one port.
//!
//! The paper's law aims at TLR even where the queue alone loses more than that: with a few places and
//! bursty traffic above it, a port is only full at a loss of about 0.2 with 7 places, 0.25 with 4 and
//! 0.37 with 1. This one never aims below that. It wastes less where many senders share a port, and is
//! slow from a low rate.

use super::lane::EpochCount;
use crate::units::{PodBool, Rate, Share};
use bytemuck::{Pod, Zeroable};

/// Fewer packets say too little about a loss: epochs are taken together until there are so many.
const PACKETS_MIN: u64 = 8;
/// What tiny queues lose at TLR 0, Q16: 0.2.
const TARGET_BASE_Q16: u32 = 13_107;
/// How much of TLR is added to it, Q16: 0.4.
const TARGET_SLOPE_Q16: u32 = 26_214;
/// Step towards Rmax far below the target, Q16: 0.1.
const STEP_Q16: u64 = 6_554;

/// Epochs that are taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Gathered {
    sent_packets: u64,
    acked_packets: u64,
    idle: PodBool,
}

impl Gathered {
    /// Adds an epoch. Returns the loss of all gathered, and whether the lane was idle in one of them,
    /// once they have enough packets; then begins anew.
    pub fn add(&mut self, count: EpochCount, idle: bool) -> Option<(Share, bool)> {
        self.sent_packets = self.sent_packets.saturating_add(count.sent_packets);
        self.acked_packets = self.acked_packets.saturating_add(count.acked_packets);
        if idle {
            self.idle = PodBool::YES;
        }
        if self.sent_packets < PACKETS_MIN {
            return None;
        }
        let Self { sent_packets, acked_packets, idle } = core::mem::take(self);
        Some((Share::of(acked_packets, sent_packets).complement(), idle.is_yes()))
    }
}

/// The loss aimed at: `0.2 + 0.4 * TLR`.
pub const fn target(tlr: Share) -> Share {
    Share::from_q16(TARGET_BASE_Q16 + ((TARGET_SLOPE_Q16 * tlr.q16()) >> 16))
}

/// With `T` the target: below `T / 4` a tenth of the way to Rmax, but not more than twice the rate;
/// else up by `R * (T - loss) / 4` or down by `R * (loss - T) / 4`, and up by `Rmax / 1024`.
///
/// Overflow: R * Q16 is at most 5 * 10^10 * 2^16 = 3.3 * 10^15 at 400 Gbit/s, below 2^52.
pub fn next(rate: Rate, rate_max: Rate, loss: Share, tlr: Share) -> Rate {
    let (now, max) = (rate.bytes_per_s(), rate_max.bytes_per_s());
    let (loss, target) = (u64::from(loss.q16()), u64::from(target(tlr).q16()));
    let next = if loss <= target / 4 {
        let step = (max.saturating_sub(now) * STEP_Q16) >> 16;
        now + step.min(now)
    } else if loss <= target {
        now + ((now * (target - loss)) >> 18) + (max >> 10)
    } else {
        now - ((now * (loss - target)) >> 18) + (max >> 10)
    };
    Rate::from_bytes_per_s(next.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(rate: f64, max: f64, loss: f64, tlr: f64) -> f64 {
        let target = 0.2 + 0.4 * tlr;
        let next = if loss <= target / 4.0 {
            (rate + 0.1 * (max - rate)).min(2.0 * rate)
        } else {
            rate + rate * (target - loss) / 4.0 + max / 1024.0
        };
        next.min(max)
    }

    proptest! {
        // Against floating point: within 0.01 % of Rmax, what the Q16 constants are off by; at the
        // edge between the branches, where the step changes, by that step.
        #[test]
        fn next__matches_the_formula(
            rate in 1_000u64..=Rate::MAX.bytes_per_s(),
            max in 100_000u64..=Rate::MAX.bytes_per_s(),
            loss in 0..=65536u32,
            tlr in 0..=65536u32,
        ) {
            let rate = rate.min(max);
            let edge = f64::from(target(Share::from_q16(tlr)).q16()) / 4.0;
            prop_assume!((f64::from(loss) - edge).abs() > 4.0);
            let next = next(
                Rate::from_bytes_per_s(rate),
                Rate::from_bytes_per_s(max),
                Share::from_q16(loss),
                Share::from_q16(tlr),
            );
            let share = |q16: u32| f64::from(q16) / 65536.0;
            let expected = reference(rate as f64, max as f64, share(loss), share(tlr));
            let off = (next.bytes_per_s() as f64 - expected).abs();
            prop_assert!(off <= 3.0 + max as f64 * 1e-4, "{next:?} {expected}");
            prop_assert!(next <= Rate::from_bytes_per_s(max));
        }

        #[test]
        fn add__evaluates_every_packet_once(epochs in proptest::collection::vec((0u64..12, 0u64..12), 0..50)) {
            let mut gathered = Gathered::default();
            let mut open = (0, 0);
            for (sent, acked) in epochs {
                let acked = acked.min(sent);
                open = (open.0 + sent, open.1 + acked);
                let count = EpochCount { sent_packets: sent, acked_packets: acked, ..EpochCount::default() };
                let evaluated = gathered.add(count, false);
                prop_assert_eq!(evaluated.is_some(), open.0 >= PACKETS_MIN);
                if let Some((loss, _)) = evaluated {
                    prop_assert_eq!(loss, Share::of(open.1, open.0).complement());
                    open = (0, 0);
                }
            }
        }
    }

    #[test]
    fn add__one_idle_epoch_makes_all_idle() {
        let mut gathered = Gathered::default();
        let count = EpochCount { sent_packets: 4, acked_packets: 4, ..EpochCount::default() };
        assert_eq!(gathered.add(count, true), None);
        assert_eq!(gathered.add(count, false), Some((Share::ZERO, true)));
        assert!(!gathered.add(EpochCount { sent_packets: 8, ..count }, false).unwrap().1);
    }
}
