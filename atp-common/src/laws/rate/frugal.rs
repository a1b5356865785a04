//! The paper's law, with growth bounded by the delivery rate.
//!
//! Eq. 2 steps towards Rmax regardless of the path's capacity. The more senders share a port, the
//! more of their packets are lost on the way up (measured in `docs/src/results/laws.md`). Here a
//! step up ends at `delivery rate / (1 - TLR)`, the rate that would lose the target, plus a quarter
//! to probe for more. As a rate by itself, that quotient collapses in tiny queues. As a bound of
//! the step it can't collapse, because it never lowers a rate.

use super::{Law, LawSettings, arithmetic, paper};
use crate::{
    laws::sample::EpochSample,
    units::{Rate, Share},
};
use bytemuck::{Pod, Zeroable};

/// The law has no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Frugal {}

impl Law for Frugal {
    fn on_epoch(&mut self, lane: &LawSettings, rate: Rate, sample: &EpochSample) -> Rate {
        let &LawSettings { step, rate_max, packet_bytes, .. } = lane;
        paper::by_target(lane, rate, sample, || {
            let packet = arithmetic::floor(packet_bytes, 0, sample.duration_ns);
            increased(rate, step, rate_max, sample.delivery_rate(), sample.tlr, packet)
        })
    }
}

/// Eq. 2's step, ended at `1.25 * delivery_rate / (1 - TLR)` plus one packet per epoch; never down.
///
/// `packet`: one packet per epoch, as a rate.
///
/// Overflow: 1.25 * 5 * 10^10 * 2^16 = 4.1 * 10^15 at 400 Gbit/s, far below 2^63.
fn increased(
    rate: Rate,
    step: Share,
    rate_max: Rate,
    delivery_rate: Rate,
    tlr: Share,
    packet: Rate,
) -> Rate {
    let delivered = delivery_rate.bytes_per_s();
    // A TLR of one allows any rate.
    let kept_q16 = u64::from(tlr.complement().q16()).max(1);
    let wanted = ((delivered + delivered / 4) << 16) / kept_q16;
    let end = Rate::from_bytes_per_s(wanted.saturating_add(packet.bytes_per_s()));
    paper::increased(rate, step, rate_max).min(end).max(rate.min(rate_max))
}

#[cfg(test)]
mod tests {
    use super::super::DEFAULT_STEP;
    use super::*;
    use proptest::prelude::*;

    fn at(bytes_per_s: u64) -> Rate {
        Rate::from_bytes_per_s(bytes_per_s)
    }

    proptest! {
        // Against floating point: within three bytes/s.
        #[test]
        fn increased__matches_the_formula(
            rate in 1_000u64..=Rate::MAX.bytes_per_s(),
            max in 1_000u64..=Rate::MAX.bytes_per_s(),
            share in 0.0f64..=1.0,
            tlr in 0..65536u32,
            packet in 0u64..10_000_000,
        ) {
            let (rate, max) = (rate.min(max), max);
            let delivered = (rate as f64 * share) as u64;
            let next = increased(
                at(rate), DEFAULT_STEP, at(max), at(delivered), Share::from_q16(tlr), at(packet));
            let m = f64::from(DEFAULT_STEP.q16()) / 65536.0;
            let kept = 1.0 - f64::from(tlr) / 65536.0;
            let paper = (1.0 - m) * rate as f64 + m * max as f64;
            let end = 1.25 * delivered as f64 / kept + packet as f64;
            let expected = paper.min(end).max(rate as f64);
            // The quarter is rounded down to whole bytes before the division.
            let bound = 3.0 + 1.0 / kept + expected * 1e-12;
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= bound, "{next:?} {expected}");
            prop_assert!(next >= at(rate) && next <= at(max));
        }
    }

    #[test]
    fn increased__is_the_papers_where_everything_arrives() {
        let (rate, max) = (at(20_000_000), at(25_000_000));
        let step = DEFAULT_STEP;
        let next = increased(rate, step, max, rate, Share::ZERO, Rate::default());
        assert_eq!(next, paper::increased(rate, step, max));
    }

    #[test]
    fn increased__ends_a_quarter_above_the_delivery_rate() {
        // A hundredth of the port: Eq. 2's step alone would be ten times the rate.
        let (rate, max) = (at(250_000), at(25_000_000));
        let next = increased(rate, DEFAULT_STEP, max, rate, Share::ZERO, at(1_500));
        assert_eq!(next, at(314_000));
    }
}
