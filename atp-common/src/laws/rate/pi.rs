//! Proportional steps around the loss of small queues. Experimental: its constants were fitted to
//! one kind of traffic in a simulation of one port.
//!
//! The paper's law aims at TLR even where the queue alone loses more. Under bursty traffic of
//! higher priority, a port with a short queue is fully used only at a certain loss: about 0.2 with
//! 7 packets of queue, 0.25 with 4 and 0.37 with 1. This law never aims below that loss. It wastes
//! less where many senders share a port, and it is slow from a low rate.

use super::{Law, LawSettings};
use crate::{
    laws::sample::{EpochCount, EpochSample},
    units::{PodBool, Rate, Share},
};
use bytemuck::{Pod, Zeroable};

/// The least packets of a loss sample. Epochs are added up until they have as many.
const PACKETS_MIN: u64 = 8;
/// The loss of small queues at TLR 0, Q16: 0.2.
const TARGET_BASE_Q16: u32 = 13_107;
/// The share of TLR that is added to the base, Q16: 0.4.
const TARGET_SLOPE_Q16: u32 = 26_214;
/// The step towards Rmax far below the target, Q16: 0.1.
const STEP_Q16: u64 = 6_554;

/// The sum of the epochs since the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Pi {
    sent_packets: u64,
    acked_packets: u64,
    idle: PodBool,
}

impl Law for Pi {
    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        match self.add(sample.count, sample.idle) {
            Some((loss, idle)) => {
                let next = next(rate, lane.rate_max, loss, sample.tlr);
                if idle { next.min(rate) } else { next }
            }
            None => rate,
        }
    }
}

impl Pi {
    /// Adds an epoch. Once the sum has enough packets, returns its loss and whether the lane was
    /// idle in any of its epochs, and starts the next sum.
    fn add(&mut self, count: EpochCount, idle: bool) -> Option<(Share, bool)> {
        self.sent_packets = self.sent_packets.saturating_add(count.sent_packets);
        self.acked_packets = self.acked_packets.saturating_add(count.acked_packets);
        if idle {
            self.idle = PodBool::TRUE;
        }
        if self.sent_packets < PACKETS_MIN {
            return None;
        }
        let Self { sent_packets, acked_packets, idle } = core::mem::take(self);
        Some((Share::of(acked_packets, sent_packets).complement(), idle.is_true()))
    }
}

/// The target: `0.2 + 0.4 * TLR`.
const fn target(tlr: Share) -> Share {
    Share::from_q16(TARGET_BASE_Q16 + ((TARGET_SLOPE_Q16 * tlr.q16()) >> 16))
}

/// The next rate, with `T` the target:
///
/// - at a loss up to `T / 4`: a tenth of the way to Rmax, but at most twice the rate;
/// - else: `R + R * (T - loss) / 4 + Rmax / 1024`.
///
/// Overflow: R * Q16 is at most 5 * 10^10 * 2^16 = 3.3 * 10^15 at 400 Gbit/s, below 2^52.
fn next(rate: Rate, rate_max: Rate, loss: Share, tlr: Share) -> Rate {
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
    use super::super::{
        LawState, RateLaw,
        testing::{at, sample, settings},
    };
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
        // Against floating point: within 0.01 % of Rmax, the error of the Q16 constants. Losses at
        // the edge between the branches are left out.
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
            let mut pi = Pi::default();
            let mut open = (0, 0);
            for (sent, acked) in epochs {
                let acked = acked.min(sent);
                open = (open.0 + sent, open.1 + acked);
                let count = EpochCount { sent_packets: sent, acked_packets: acked, ..EpochCount::default() };
                let evaluated = pi.add(count, false);
                prop_assert_eq!(evaluated.is_some(), open.0 >= PACKETS_MIN);
                if let Some((loss, _)) = evaluated {
                    prop_assert_eq!(loss, Share::of(open.1, open.0).complement());
                    open = (0, 0);
                }
            }
        }
    }

    #[test]
    fn on_epoch__waits_for_eight_packets() {
        let pi = settings(RateLaw::Pi);
        let mut law = LawState::default();
        // Three packets an epoch, all lost.
        let rate = at(4_500_000);
        assert_eq!(law.on_epoch(&pi, rate, &sample(0, rate, 3, 0)), rate);
        assert_eq!(law.on_epoch(&pi, rate, &sample(1, rate, 3, 0)), rate);
        assert!(law.on_epoch(&pi, rate, &sample(2, rate, 3, 0)) < rate);
    }

    #[test]
    fn add__one_idle_epoch_makes_the_sum_idle() {
        let mut pi = Pi::default();
        let count = EpochCount { sent_packets: 4, acked_packets: 4, ..EpochCount::default() };
        assert_eq!(pi.add(count, true), None);
        assert_eq!(pi.add(count, false), Some((Share::ZERO, true)));
        assert!(!pi.add(EpochCount { sent_packets: 8, ..count }, false).unwrap().1);
    }
}
