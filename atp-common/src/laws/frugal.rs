//! The paper's law, growing no further than what is delivered asks for.
//!
//! Eq. 2 steps towards Rmax whatever the path carries, so the more senders share a port, the more
//! of what they send is lost in between (40, 65 and 81 % with 8, 32 and 100 senders of a line-rate
//! port in the simulation that the laws were first tried in). Here a step up ends at a rate that would
//! lose the target of what the path takes, and a quarter more to find out whether it takes more.
//! As a rate by itself `delivered / (1 - TLR)` collapses in tiny queues; as a bound of the step it
//! can't, for nothing is ever lowered by it.

use super::rate;
use crate::units::{Rate, Share};

/// Eq. 2's step, ended at `1.25 * delivered / (1 - TLR)` and one packet per epoch; never down.
///
/// `delivered`: what was acknowledged of the epoch over its length. `packet`: one packet per epoch.
///
/// Overflow: 1.25 * 5 * 10^10 * 2^16 = 4.1 * 10^15 at 400 Gbit/s, far below 2^63.
pub fn increased(
    rate: Rate,
    step: Share,
    rate_max: Rate,
    delivered: Rate,
    tlr: Share,
    packet: Rate,
) -> Rate {
    let delivered = delivered.bytes_per_s();
    // A TLR of one asks for any rate.
    let kept_q16 = u64::from(tlr.complement().q16()).max(1);
    let wanted = ((delivered + delivered / 4) << 16) / kept_q16;
    let end = Rate::from_bytes_per_s(wanted.saturating_add(packet.bytes_per_s()));
    rate::increased(rate, step, rate_max).min(end).max(rate.min(rate_max))
}

#[cfg(test)]
mod tests {
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
                at(rate), rate::DEFAULT_STEP, at(max), at(delivered), Share::from_q16(tlr), at(packet));
            let m = f64::from(rate::DEFAULT_STEP.q16()) / 65536.0;
            let kept = 1.0 - f64::from(tlr) / 65536.0;
            let paper = (1.0 - m) * rate as f64 + m * max as f64;
            let end = 1.25 * delivered as f64 / kept + packet as f64;
            let expected = paper.min(end).max(rate as f64);
            // The quarter is cut to whole bytes before it is divided.
            let bound = 3.0 + 1.0 / kept + expected * 1e-12;
            prop_assert!((next.bytes_per_s() as f64 - expected).abs() <= bound, "{next:?} {expected}");
            prop_assert!(next >= at(rate) && next <= at(max));
        }
    }

    #[test]
    fn increased__is_the_papers_where_all_arrives() {
        let (rate, max) = (at(20_000_000), at(25_000_000));
        let step = rate::DEFAULT_STEP;
        let next = increased(rate, step, max, rate, Share::ZERO, Rate::default());
        assert_eq!(next, rate::increased(rate, step, max));
    }

    #[test]
    fn increased__ends_a_quarter_above_what_arrives_beside_others() {
        // A hundredth of the port: Eq. 2's step alone would be ten times the rate.
        let (rate, max) = (at(250_000), at(25_000_000));
        let next = increased(rate, rate::DEFAULT_STEP, max, rate, Share::ZERO, at(1_500));
        assert_eq!(next, at(314_000));
    }
}
