//! The paper's law (NetApprox §4.2, Eq. 2 and 3).

use super::{Law, LawSettings};
use crate::{
    laws::sample::EpochSample,
    units::{Rate, Share},
};
use bytemuck::{Pod, Zeroable};
use core::cmp::Ordering;

/// m of Eq. 2, Q16: 0.1. From 0.1 to 0.3 works; below 0.03 the lane is up to 1.9 times slower.
pub const DEFAULT_STEP: Share = Share::from_q16(6554);

/// The law has no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Paper {}

impl Law for Paper {
    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        by_target(lane, rate, sample, || increased(rate, lane.step, lane.rate_max))
    }
}

/// NetApprox §4.2: up while the loss is within its target, down by Eq. 3 above it.
pub(super) fn by_target(
    lane: &LawSettings,
    rate: Rate,
    sample: &EpochSample,
    increased: impl FnOnce() -> Rate,
) -> Rate {
    let loss = sample.count.loss();
    match loss.cmp(&sample.tlr) {
        Ordering::Greater => decreased(rate, loss),
        Ordering::Equal if !lane.raise_at_target => rate,
        _ if sample.idle => rate,
        _ => increased(),
    }
}

/// NetApprox §4.2, Eq. 2: `R <- (1 - m) R + m Rmax`, for an epoch whose loss was within its target.
///
/// Overflow: (Rmax - R) * m is at most 5 * 10^10 * 2^16 = 3.3 * 10^15 at 400 Gbit/s, far below
/// 2^63.
pub(super) fn increased(rate: Rate, step: Share, rate_max: Rate) -> Rate {
    let gap = rate_max.bytes_per_s().saturating_sub(rate.bytes_per_s());
    let grown = rate.bytes_per_s() + ((gap * u64::from(step.q16())) >> 16);
    Rate::from_bytes_per_s(grown.min(rate_max.bytes_per_s()))
}

/// NetApprox §4.2, Eq. 3: `R <- R (1 - loss / 2)`, for an epoch that lost more than its target.
///
/// Overflow: as above.
fn decreased(rate: Rate, loss: Share) -> Rate {
    let cut = (rate.bytes_per_s() * u64::from(loss.q16())) >> 17;
    Rate::from_bytes_per_s(rate.bytes_per_s() - cut)
}

#[cfg(test)]
mod tests {
    use super::super::{
        LawState, RateLaw,
        testing::{at, sample, settings},
    };
    use super::*;
    use proptest::prelude::*;

    fn rates() -> impl Strategy<Value = u64> {
        prop_oneof![1_000u64..1_000_000, 1_000_000..=Rate::MAX.bytes_per_s()]
    }

    proptest! {
        // NetApprox §4.2, Eq. 2, against floating point: within one byte/s per operation.
        #[test]
        fn increased__matches_the_equation(rate in rates(), max in rates(), step in 0..=65536u32) {
            let (rate, rate_max) = (rate.min(max), max);
            let m = f64::from(step) / 65536.0;
            let expected = (1.0 - m) * rate as f64 + m * rate_max as f64;
            let next = increased(
                Rate::from_bytes_per_s(rate), Share::from_q16(step), Rate::from_bytes_per_s(rate_max));
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= 1.0 + expected * 1e-12);
            prop_assert!(next.bytes_per_s() >= rate && next.bytes_per_s() <= rate_max);
        }

        // NetApprox §4.2, Eq. 3, against floating point: within one byte/s.
        #[test]
        fn decreased__matches_the_equation(rate in rates(), loss in 0..=65536u32) {
            let expected = rate as f64 * (1.0 - f64::from(loss) / 65536.0 / 2.0);
            let next = decreased(Rate::from_bytes_per_s(rate), Share::from_q16(loss));
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= 1.0 + expected * 1e-12);
            prop_assert!(next.bytes_per_s() >= rate / 2);
        }
    }

    #[test]
    fn increased__never_leaves_a_lane_above_a_lowered_maximum() {
        let next = increased(Rate::MAX, DEFAULT_STEP, Rate::from_bytes_per_s(1000));
        assert_eq!(next, Rate::from_bytes_per_s(1000));
    }

    #[test]
    fn on_epoch__at_its_target_rises_by_rule_only() {
        let with = settings(RateLaw::Paper);
        let without = LawSettings { raise_at_target: false, ..with };
        let rate = at(5_000_000);
        let mut law = LawState::default();
        assert!(law.on_epoch(&with, rate, &sample(0, rate, 0, 0)) > rate);
        assert_eq!(law.on_epoch(&without, rate, &sample(0, rate, 0, 0)), rate);
        assert!(law.on_epoch(&without, rate, &sample(0, rate, 1, 0)) < rate);
        let slack = EpochSample { tlr: Share::from_q16(1), ..sample(0, rate, 0, 0) };
        assert!(law.on_epoch(&without, rate, &slack) > rate);
    }
}
