//! Computes the target loss rate, TLR (NetApprox §4.2, Eq. 1).

use super::rules::{Rule, Rules};
use crate::units::{Msr, Share};

/// A sender's counts of one group of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupCount {
    /// N: messages of the group on this sender.
    pub messages: u32,
    /// Messages with a receipt.
    pub delivered: u32,
    /// Messages sent in full, incomplete at the receiver, with nothing in flight.
    pub lost: u32,
}

/// NetApprox §4.2, Eq. 1: `((1 - MSR) * N - lost) / (N - delivered)`, as a share of messages.
///
/// The result is limited to `[0, 1 - MSR]`, or to `[0, 1]` without [`Rule::CappedTarget`]. A
/// retransmitted message no longer counts as lost. Without the limit, the quotient would rise to
/// one at a job's end, and the lane would move to the last queue. The result is zero once the slack
/// is spent or everything is delivered.
///
/// Before N is known (`messages` 0) TLR is `1 - MSR`. Without [`Rule::DynamicTarget`] it stays
/// there. The counts may come from another process: impossible ones (`delivered > messages`) give
/// zero.
///
/// Overflow: slack is at most 2^48 (Q16), as is `lost`; both are below 2^64.
pub fn target_loss_rate(msr: Msr, count: GroupCount, rules: Rules) -> Share {
    let slack = msr.slack_share();
    if count.messages == 0 || !rules.has(Rule::DynamicTarget) {
        return slack;
    }
    let slack_left_q16 = msr.slack_q16(count.messages).saturating_sub(u64::from(count.lost) << 16);
    let undelivered = u64::from(count.messages.saturating_sub(count.delivered));
    if undelivered == 0 {
        return Share::ZERO;
    }
    let quotient_q16 = slack_left_q16 / undelivered;
    let most = if rules.has(Rule::CappedTarget) { slack } else { Share::ONE };
    // Up to 2^48: limited before the cast to 32 bits.
    let capped_q16 = quotient_q16.min(u64::from(most.q16()));
    Share::from_q16(capped_q16 as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(msr: f64, n: f64, delivered: f64, lost: f64, most: f64) -> f64 {
        if n <= delivered {
            return 0.0;
        }
        (((1.0 - msr) * n - lost) / (n - delivered)).clamp(0.0, most)
    }

    #[test]
    fn target_loss_rate__starts_at_the_slack() {
        let msr = Msr::from_parts_per_billion(750_000_000).unwrap();
        let count = GroupCount { messages: 1000, delivered: 0, lost: 0 };
        assert_eq!(target_loss_rate(msr, count, Rules::default()), Share::from_q16(65536 / 4));
    }

    #[test]
    fn target_loss_rate__is_zero_once_the_slack_is_spent() {
        let msr = Msr::from_parts_per_billion(800_000_000).unwrap();
        let count = GroupCount { messages: 10, delivered: 3, lost: 2 };
        assert_eq!(target_loss_rate(msr, count, Rules::default()), Share::ZERO);
    }

    proptest! {
        // NetApprox §4.2, Eq. 1, against floating point: within two units of Q16.
        #[test]
        fn target_loss_rate__matches_the_equation(
            messages in 1u32..,
            delivered_share in 0.0f64..=1.2,
            lost_share in 0.0f64..=1.2,
            parts in 0..=1_000_000_000u32,
            capped: bool,
        ) {
            let msr = Msr::from_parts_per_billion(parts).unwrap();
            let rules = Rules::default();
            let rules = if capped { rules } else { rules.without(Rule::CappedTarget) };
            let delivered = (f64::from(messages) * delivered_share) as u32;
            let lost = (f64::from(messages) * lost_share) as u32;
            let tlr = target_loss_rate(msr, GroupCount { messages, delivered, lost }, rules);
            let most = if capped { 1.0 - f64::from(parts) / 1e9 } else { 1.0 };
            let expected = reference(
                f64::from(parts) / 1e9, messages.into(), delivered.into(), lost.into(), most);
            prop_assert!((f64::from(tlr.q16()) / 65536.0 - expected).abs() <= 2.0 / 65536.0);
            prop_assert!(!capped || tlr <= msr.slack_share());
        }

        #[test]
        fn target_loss_rate__fixed_is_the_slack(messages: u32, delivered: u32, lost: u32, parts in 0..=1_000_000_000u32) {
            let msr = Msr::from_parts_per_billion(parts).unwrap();
            let rules = Rules::default().without(Rule::DynamicTarget);
            let count = GroupCount { messages, delivered, lost };
            prop_assert_eq!(target_loss_rate(msr, count, rules), msr.slack_share());
            let unknown = GroupCount { messages: 0, delivered, lost };
            prop_assert_eq!(target_loss_rate(msr, unknown, Rules::default()), msr.slack_share());
        }
    }
}
