//! Chooses the queue of a lane (NetApprox §5.2), and lets it recover from starvation.

use crate::units::Share;
use bytemuck::{Pod, Zeroable};

/// The queue for exact traffic.
pub const EXACT: u8 = 0;
/// The approximate queue that is served last.
pub const LAST: u8 = 7;

/// NetApprox §5.2, "Slack-based priority assignment": the thresholds are k/8 and the exact queue is
/// excluded, so the queue is `clamp(ceil(8 * TLR), 1, 7)`. TLR 0.5 is in queue 4, as in Figure 10.
pub const fn of_target_loss_rate(tlr: Share) -> u8 {
    let eighths = (tlr.q16() * 8).div_ceil(1 << 16) as u8;
    match eighths {
        0 => 1,
        1..=LAST => eighths,
        _ => LAST,
    }
}

/// The starvation of a lane, counted in epochs.
///
/// In the paper a starved lane recovers because its TLR falls. That fails for jobs with several
/// packets a message: MRDF keeps their "lost" near zero, so their TLR never falls. This count looks
/// at packets. An epoch that lost more than `(1 + TLR) / 2` adds one, and any other epoch removes a
/// quarter of the count. Four starved epochs climb one queue. With a faster decay, lanes would flap
/// between queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Starvation {
    /// The number of epochs, in Q8.
    count_q8: u32,
}

impl Starvation {
    /// The greatest count: enough to climb from the last queue to the first. A greater count would
    /// only delay the return.
    const MAX_Q8: u32 = (4 * LAST as u32) << 8;

    /// Counts one evaluated epoch.
    pub const fn observe(&mut self, loss: Share, tlr: Share) {
        if loss.q16() * 2 > Share::ONE.q16() + tlr.q16() {
            let count = self.count_q8 + (1 << 8);
            self.count_q8 = if count > Self::MAX_Q8 { Self::MAX_Q8 } else { count };
        } else {
            // At least one unit, so that the count reaches zero.
            self.count_q8 -= self.count_q8.div_ceil(4);
        }
    }

    /// The queue to use instead of `queue`: one higher for every four starved epochs, but never the
    /// exact queue. An exact lane stays in queue 0.
    pub const fn recovered(self, queue: u8) -> u8 {
        if queue == EXACT {
            return EXACT;
        }
        let climb = (self.count_q8 >> 10) as u8;
        let climbed = queue.saturating_sub(climb);
        if climbed < 1 { 1 } else { climbed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_target_loss_rate__half_is_queue_four() {
        // NetApprox §7.1.2, Figure 10.
        assert_eq!(of_target_loss_rate(Share::from_q16(1 << 15)), 4);
    }

    proptest! {
        // NetApprox §5.2 against floating point: exact.
        #[test]
        fn of_target_loss_rate__matches_the_thresholds(q16 in 0..=65536u32) {
            let expected = (8.0 * f64::from(q16) / 65536.0).ceil().clamp(1.0, 7.0);
            prop_assert_eq!(f64::from(of_target_loss_rate(Share::from_q16(q16))), expected);
        }

        #[test]
        fn starvation__stays_in_bounds_and_recovers(losses in proptest::collection::vec(0..=65536u32, 0..200)) {
            let mut starvation = Starvation::default();
            let mut reference = 0.0f64;
            for loss in losses {
                starvation.observe(Share::from_q16(loss), Share::ZERO);
                reference = if loss > 32768 { (reference + 1.0).min(28.0) } else { reference * 0.75 };
                // One Q8 unit lost to rounding per step, shrinking by the same quarter.
                prop_assert!((f64::from(starvation.count_q8) / 256.0 - reference).abs() <= 4.0 / 256.0);
                let queue = starvation.recovered(LAST);
                prop_assert!((1..=LAST).contains(&queue));
                prop_assert_eq!(starvation.recovered(EXACT), EXACT);
            }
            for _ in 0..64 {
                starvation.observe(Share::ZERO, Share::ZERO);
            }
            prop_assert_eq!(starvation, Starvation::default());
        }
    }

    #[test]
    fn starvation__four_epochs_climb_one_queue() {
        let mut starvation = Starvation::default();
        for expected in [5, 5, 5, 4, 4, 4, 4, 3] {
            starvation.observe(Share::ONE, Share::from_q16(40_000));
            assert_eq!(starvation.recovered(5), expected);
        }
    }
}
