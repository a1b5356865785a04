//! Ports of networks in which receivers give out credits: ExpressPass (Cho et al., SIGCOMM 2017, §3) and
//! Aeolus (Hu et al., SIGCOMM 2020, §3) on top of it.
//!
//! Two queues. **Credits** have a short one that drops what is too much, and leave at the rate at which
//! the packets that answer them fill the line the other way, not faster. **Data** has the switch's
//! buffer; what was sent without a credit is refused as soon as a little waits, so that it never takes
//! room or time from what has one.
//!
//! **Others'** data (exact jobs' over DCTCP, background traffic) shares the queue of data, and is marked as
//! beside other schemes. But credits are given for all of the line whatever others send, so long flows that make
//! way for a queue get what credits leave, some 5 %. Nothing in the two papers
//! is against it; an operator would limit credits to less than the line.

use super::{Entry, Waiting};
use crate::net::{ETHERNET_BYTES, Label, PacketId, Packets, duration_ps};
use std::collections::VecDeque;

/// The code point of credits.
pub const CREDIT_DSCP: u8 = 40;
/// The code point of data that has no credit.
pub const UNSCHEDULED_DSCP: u8 = 8;

/// What a credit takes on the wire, on the average: its length is drawn from 84 to 92 bytes (ExpressPass
/// §3.1), so that full queues drop by chance and not in turns.
pub const CREDIT_BYTES: u32 = 88;
/// The packet that answers it, at most.
const ANSWER_BYTES: u32 = 1_500 + ETHERNET_BYTES;
/// Credits of a burst: a port that was idle may send so many at once (ExpressPass §3.1, a bucket of two).
const BURST: u64 = 2;

/// The queues of a port, and when it drops what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditedLimits {
    /// Credits that may wait.
    pub credits_max: u32,
    /// From how many bytes of data on unscheduled packets are refused.
    pub unscheduled_bytes: u64,
    /// From how many packets of data on one that can be marked is. Only others' (DCTCP's) can.
    pub mark_from: u32,
}

/// How long a line of `bits_per_s` takes for a credit of `wire_bytes` and what its answer takes on the
/// line the other way: credits that far apart fill that line.
///
/// 92 bytes at 1 Mbit/s are 7 * 10^8 ps, and below 2^41 with the factor.
pub const fn credit_ps(wire_bytes: u32, bits_per_s: u64) -> u64 {
    let both = (CREDIT_BYTES + ANSWER_BYTES) as u64;
    duration_ps(wire_bytes, bits_per_s) * both / CREDIT_BYTES as u64
}

/// The two queues of a port.
#[derive(Debug)]
pub struct CreditedQueues {
    limits: CreditedLimits,
    bits_per_s: u64,
    data: VecDeque<Waiting>,
    data_bytes: u64,
    credits: VecDeque<Waiting>,
    /// When the next credit would leave if all came at the permitted rate: a credit may be early by
    /// what a burst is (the virtual scheduling of ATM's GCRA, which is a token bucket in integers).
    due_ps: u64,
}

impl CreditedQueues {
    /// Nothing waits.
    pub fn new(limits: CreditedLimits, bits_per_s: u64) -> Self {
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
        packets: &mut Packets,
        room_bytes: u64,
    ) -> Entry {
        let Label { wire_bytes, dscp, ecn, .. } = *packets.label(id);
        let waiting = Waiting { packet: id, wire_bytes, since_ps: now_ps };
        if dscp == CREDIT_DSCP && self.credits.len() as u32 >= self.limits.credits_max
            || dscp == UNSCHEDULED_DSCP && self.data_bytes >= self.limits.unscheduled_bytes
        {
            return Entry::Refused;
        }
        if u64::from(wire_bytes) > room_bytes {
            return Entry::Dropped;
        }
        if dscp == CREDIT_DSCP {
            self.credits.push_back(waiting);
            return Entry::Waits;
        }
        self.data.push_back(waiting);
        self.data_bytes += u64::from(wire_bytes);
        if ecn.is_capable() && self.data.len() as u32 > self.limits.mark_from {
            packets.mark(id);
            return Entry::Marked;
        }
        Entry::Waits
    }

    /// See [`super::Discipline::take`]. Credits that may leave go first: they are few by their rate, and
    /// late ones would let lines run idle.
    pub fn take(&mut self, now_ps: u64) -> Option<Waiting> {
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

    /// From when on a credit may leave.
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
    use crate::net::{Body, Packet};
    use proptest::prelude::*;

    const BITS_PER_S: u64 = 40_000_000_000;
    const LIMITS: CreditedLimits =
        CreditedLimits { credits_max: 8, unscheduled_bytes: 6_000, mark_from: 65 };

    fn packet(dscp: u8, wire_bytes: u32) -> Packet {
        let label = Label { dscp, ..Label::new(0, 0, 1, wire_bytes, 0) };
        Packet { label, body: Body::Datagram { message: 0, number: 0, count: 1 } }
    }

    proptest! {
        /// Whatever comes and whenever it is asked: credits never leave faster than their rate and a
        /// burst, no more of them wait than may, nothing that has a credit is ever refused, and what
        /// has none is exactly when too much waits.
        #[test]
        fn credited_queues__keep_to_their_limits(
            steps in proptest::collection::vec((0u8..5, 0u64..400_000, 84u32..=1_538), 1..400),
        ) {
            let mut packets = Packets::default();
            let mut queues = CreditedQueues::new(LIMITS, BITS_PER_S);
            let (mut now_ps, mut left) = (0, Vec::new());
            for (kind, later_ps, wire_bytes) in steps {
                now_ps += later_ps;
                let (dscp, wire_bytes) = match kind {
                    0 | 1 => (CREDIT_DSCP, 84 + wire_bytes % 9),
                    2 => (UNSCHEDULED_DSCP, wire_bytes),
                    3 => (0, wire_bytes),
                    _ => {
                        if let Some(next) = queues.take(now_ps)
                            && packets.remove(next.packet).label.dscp == CREDIT_DSCP
                        {
                            left.push((now_ps, next.wire_bytes));
                        }
                        continue;
                    }
                };
                let before = (queues.credits.len(), queues.data_bytes);
                let id = packets.insert(packet(dscp, wire_bytes));
                let entry = queues.put(now_ps, id, &mut packets, u64::MAX);
                let is_refused = match dscp {
                    CREDIT_DSCP => before.0 == 8,
                    UNSCHEDULED_DSCP => before.1 >= 6_000,
                    _ => false,
                };
                prop_assert_eq!(entry, if is_refused { Entry::Refused } else { Entry::Waits });
                if is_refused {
                    packets.remove(id);
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

    /// A credit that must wait for its time doesn't hold up data; and it has its turn when that is come.
    #[test]
    fn pass__data_passes_credits_that_wait_for_their_time() {
        let mut packets = Packets::default();
        let mut queues = CreditedQueues::new(LIMITS, BITS_PER_S);
        let credit = packet(CREDIT_DSCP, CREDIT_BYTES);
        assert!([true, true, false].into_iter().all(|may| queues.pass(0, &credit.label) == may));
        let id = packets.insert(credit);
        assert_eq!(queues.put(0, id, &mut packets, u64::MAX), Entry::Waits);
        assert_eq!(queues.take(0), None);
        let ready_ps = queues.ready_ps();
        assert_eq!(ready_ps, credit_ps(CREDIT_BYTES, BITS_PER_S));
        assert!(queues.pass(ready_ps - 1, &packet(0, 1_538).label));
        assert!(!queues.pass(ready_ps, &packet(0, 1_538).label));
        assert_eq!(queues.take(ready_ps).map(|next| next.packet), Some(id));
    }

    /// A line of 40 Gbit/s carries a full packet and a credit in 325 ns.
    #[test]
    fn credit_ps__is_the_time_of_a_packet_and_a_credit() {
        assert_eq!(credit_ps(CREDIT_BYTES, BITS_PER_S), duration_ps(1_538 + 88, BITS_PER_S));
    }
}
