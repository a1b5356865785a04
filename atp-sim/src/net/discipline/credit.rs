//! Two queues: one for credits, whose rate is limited, and one for data (Cho et al., SIGCOMM 2017,
//! §3; Hu et al., SIGCOMM 2020, §3).
//!
//! - **Credits** wait in a short queue that drops the excess. They leave at the rate at which the
//!   data that answers them fills the line in the other direction.
//! - **Data** waits in the switch's buffer. Unscheduled data, which has no credit, is refused as
//!   soon as a few packets wait. So it never takes room or time from data with a credit.
//! - **Foreign data** (exact jobs, background traffic) shares the data queue, with the usual ECN
//!   threshold.
//!
//! Credits allocate the whole line, regardless of foreign traffic. Long flows that back off from a
//! queue therefore keep only the rest, some 5 %. The two papers don't rule this out. An operator
//! would limit credits to less than the line.

use super::{Entry, Queued};
use crate::net::{ETHERNET_BYTES, Label, Labels, PacketId, duration_ps};
use std::collections::VecDeque;

/// DSCP of credits.
pub const CREDIT_DSCP: u8 = 40;
/// DSCP of data without a credit.
pub const UNSCHEDULED_DSCP: u8 = 8;

/// Mean length of a credit on the wire. Lengths are drawn from 84 to 92 bytes (SIGCOMM 2017, §3.1),
/// so that full queues drop credits of all flows by chance and not in a fixed pattern.
pub const CREDIT_BYTES: u32 = 88;
/// Longest packet that answers a credit.
const ANSWER_BYTES: u32 = 1_500 + ETHERNET_BYTES;
/// Burst size, in credits: a port that was idle may send this number at once (SIGCOMM 2017, §3.1,
/// a bucket of two).
const BURST: u64 = 2;

/// The limits of a port's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditLimits {
    /// Maximum number of credits that wait.
    pub credits_max: u32,
    /// Unscheduled packets are refused while at least this number of data bytes waits.
    pub unscheduled_bytes: u64,
    /// ECN threshold of the data queue, in packets. Only foreign data is ECN-capable.
    pub mark_from: u32,
}

/// Time between credits whose answers fill the line in the other direction. It is the transmission
/// time of a credit of `wire_bytes`, scaled by the lengths of a mean credit and its answer.
///
/// 92 bytes at 1 Mbit/s take 7 * 10^8 ps, and the product stays below 2^41.
pub const fn credit_ps(wire_bytes: u32, bits_per_s: u64) -> u64 {
    let both = (CREDIT_BYTES + ANSWER_BYTES) as u64;
    duration_ps(wire_bytes, bits_per_s) * both / CREDIT_BYTES as u64
}

/// The two queues of a port.
#[derive(Debug)]
pub struct CreditQueues {
    limits: CreditLimits,
    bits_per_s: u64,
    data: VecDeque<Queued>,
    data_bytes: u64,
    credits: VecDeque<Queued>,
    /// Departure time of the next credit if all credits left at the permitted rate. A credit may
    /// leave early by the burst. This is ATM's GCRA (virtual scheduling): a token bucket in
    /// integers.
    due_ps: u64,
}

impl CreditQueues {
    /// Makes empty queues.
    pub fn new(limits: CreditLimits, bits_per_s: u64) -> Self {
        let (data, credits) = (VecDeque::new(), VecDeque::new());
        Self { limits, bits_per_s, data, data_bytes: 0, credits, due_ps: 0 }
    }

    /// See [`super::Discipline::pass`].
    pub fn pass(&mut self, now_ps: u64, label: &Label) -> bool {
        if !self.data.is_empty()
            || self.credits.front().is_some() && now_ps >= self.credit_from_ps()
        {
            return false;
        }
        if label.dscp != CREDIT_DSCP {
            return true;
        }
        let passes = self.credits.is_empty() && now_ps >= self.credit_from_ps();
        if passes {
            self.note_credit(now_ps, label.wire_bytes);
        }
        passes
    }

    /// See [`super::Discipline::put`].
    pub fn put(
        &mut self,
        now_ps: u64,
        id: PacketId,
        labels: &mut Labels,
        room_bytes: u64,
    ) -> Entry {
        let Label { wire_bytes, dscp, ecn, .. } = *labels.label(id);
        let queued = Queued { packet: id, wire_bytes, since_ps: now_ps };
        if dscp == CREDIT_DSCP && self.credits.len() as u32 >= self.limits.credits_max
            || dscp == UNSCHEDULED_DSCP && self.data_bytes >= self.limits.unscheduled_bytes
        {
            return Entry::Refused;
        }
        if u64::from(wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        if dscp == CREDIT_DSCP {
            self.credits.push_back(queued);
            return Entry::Queued;
        }
        self.data.push_back(queued);
        self.data_bytes += u64::from(wire_bytes);
        if ecn.is_capable() && self.data.len() as u32 > self.limits.mark_from {
            labels.mark(id);
            return Entry::Marked;
        }
        Entry::Queued
    }

    /// See [`super::Discipline::take`]. Credits go first when their rate permits: they are few, and
    /// late credits would leave lines idle.
    pub fn take(&mut self, now_ps: u64) -> Option<Queued> {
        if now_ps >= self.credit_from_ps()
            && let Some(credit) = self.credits.pop_front()
        {
            self.note_credit(now_ps, credit.wire_bytes);
            return Some(credit);
        }
        let next = self.data.pop_front()?;
        self.data_bytes -= u64::from(next.wire_bytes);
        Some(next)
    }

    /// See [`super::Discipline::ready_ps`].
    pub fn ready_ps(&self) -> u64 {
        if self.data.is_empty() { self.credit_from_ps() } else { 0 }
    }

    /// Earliest time at which a credit may leave.
    fn credit_from_ps(&self) -> u64 {
        self.due_ps.saturating_sub((BURST - 1) * credit_ps(CREDIT_BYTES, self.bits_per_s))
    }

    fn note_credit(&mut self, now_ps: u64, wire_bytes: u32) {
        self.due_ps = self.due_ps.max(now_ps) + credit_ps(wire_bytes, self.bits_per_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BITS_PER_S: u64 = 40_000_000_000;
    const LIMITS: CreditLimits =
        CreditLimits { credits_max: 8, unscheduled_bytes: 6_000, mark_from: 65 };

    fn label(dscp: u8, wire_bytes: u32) -> Label {
        Label { dscp, ..Label::new(0, 0, 1, wire_bytes, 0) }
    }

    proptest! {
        /// Credits never exceed their rate and burst, and their queue never exceeds its limit. Data
        /// with a credit is never refused. Unscheduled data is refused exactly when at least
        /// `unscheduled_bytes` wait.
        #[test]
        fn credit_queues__keep_to_their_limits(
            steps in proptest::collection::vec((0u8..5, 0u64..400_000, 84u32..=1_538), 1..400),
        ) {
            let mut labels = Labels::default();
            let mut queues = CreditQueues::new(LIMITS, BITS_PER_S);
            let (mut now_ps, mut left) = (0, Vec::new());
            for (kind, later_ps, wire_bytes) in steps {
                now_ps += later_ps;
                let (dscp, wire_bytes) = match kind {
                    0 | 1 => (CREDIT_DSCP, 84 + wire_bytes % 9),
                    2 => (UNSCHEDULED_DSCP, wire_bytes),
                    3 => (0, wire_bytes),
                    _ => {
                        if let Some(next) = queues.take(now_ps)
                            && labels.remove(next.packet).dscp == CREDIT_DSCP
                        {
                            left.push((now_ps, next.wire_bytes));
                        }
                        continue;
                    }
                };
                let before = (queues.credits.len(), queues.data_bytes);
                let id = labels.insert(label(dscp, wire_bytes));
                let entry = queues.put(now_ps, id, &mut labels, u64::MAX);
                let is_refused = match dscp {
                    CREDIT_DSCP => before.0 == 8,
                    UNSCHEDULED_DSCP => before.1 >= 6_000,
                    _ => false,
                };
                prop_assert_eq!(entry, if is_refused { Entry::Refused } else { Entry::Queued });
                if is_refused {
                    labels.remove(id);
                }
                prop_assert!(queues.credits.len() <= 8);
            }
            for (first, &(since_ps, _)) in left.iter().enumerate() {
                let mut cost_ps = 0;
                for &(at_ps, wire_bytes) in &left[first..] {
                    let burst_ps = credit_ps(CREDIT_BYTES, BITS_PER_S);
                    prop_assert!(cost_ps <= at_ps - since_ps + burst_ps, "{left:?}");
                    cost_ps += credit_ps(wire_bytes, BITS_PER_S);
                }
            }
        }
    }

    /// A credit that isn't due yet doesn't hold up data, and leaves when it is due.
    #[test]
    fn pass__data_passes_credits_that_wait_for_their_time() {
        let mut labels = Labels::default();
        let mut queues = CreditQueues::new(LIMITS, BITS_PER_S);
        let credit = label(CREDIT_DSCP, CREDIT_BYTES);
        assert!([true, true, false].into_iter().all(|may| queues.pass(0, &credit) == may));
        let id = labels.insert(credit);
        assert_eq!(queues.put(0, id, &mut labels, u64::MAX), Entry::Queued);
        assert_eq!(queues.take(0), None);
        let ready_ps = queues.ready_ps();
        assert_eq!(ready_ps, credit_ps(CREDIT_BYTES, BITS_PER_S));
        assert!(queues.pass(ready_ps - 1, &label(0, 1_538)));
        assert!(!queues.pass(ready_ps, &label(0, 1_538)));
        assert_eq!(queues.take(ready_ps).map(|next| next.packet), Some(id));
    }

    /// A line of 40 Gbit/s carries a full packet and a credit in 325 ns.
    #[test]
    fn credit_ps__is_the_time_of_a_packet_and_a_credit() {
        assert_eq!(credit_ps(CREDIT_BYTES, BITS_PER_S), duration_ps(1_538 + 88, BITS_PER_S));
    }
}
