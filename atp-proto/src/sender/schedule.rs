//! Chooses the message that is sent next (NetApprox §4.3).
//!
//! *Minimal remaining data first* (MRDF): the message with the least data still to be delivered.
//! Data is counted in packets, because the network delivers or loses packets. New, lost and
//! in-flight packets count alike. Among equals:
//!
//! 1. A message that has begun comes before one that has not: half a message is worth nothing.
//! 2. New one-packet messages come before lost ones. Retransmitting first would keep the number of
//!    lost messages at 0. The target loss rate would stay at its start value, and the job in the
//!    lowest queue.
//! 3. Otherwise first come, first served.
//!
//! *By bytes*, an option: new one-packet messages count their length, and all others the length of
//! full packets, both in classes of 64 bytes. Lost one-packet messages come after all new ones.
//!
//! *In order*, for messages that depend on each other: the oldest message with anything to send.

use super::buckets::{Buckets, Ranks, file};
use std::collections::BTreeSet;

/// The properties of a message that decide when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    pub(crate) id: u32,
    /// Packets still to be delivered, at least 1.
    pub(crate) remaining: u32,
    /// Some packet was never sent. Otherwise only lost packets are left to send.
    pub(crate) fresh: bool,
    /// Some packet was sent.
    pub(crate) started: bool,
    /// It has one packet.
    pub(crate) single: bool,
    /// The message's length.
    pub(crate) len_bytes: u32,
    /// The length of its full packets.
    pub(crate) payload_bytes: u32,
}

/// Bytes of a class of lengths.
const CLASS_BYTES: u32 = 64;
/// The greatest number of classes that are told apart: it bounds the memory of the lists.
const CLASSES_MAX: u32 = 1 << 18;

impl Priority {
    /// The remaining data: in packets, or in classes of bytes.
    fn weight(&self, by_bytes: bool) -> u32 {
        if !by_bytes {
            return self.remaining;
        }
        if self.single && self.fresh {
            return self.len_bytes / CLASS_BYTES + 1;
        }
        self.remaining.saturating_mul(self.payload_bytes / CLASS_BYTES + 1).min(CLASSES_MAX)
    }
}

/// The messages of one group that have something to send.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// Minimal remaining data first.
    Mrdf { fresh: Buckets, repair: Box<Buckets>, by_bytes: bool },
    /// Pairs of id and key.
    InOrder { fresh: BTreeSet<(u32, u32)>, repair: BTreeSet<(u32, u32)> },
}

impl Schedule {
    pub(crate) fn new(mrdf: bool, by_bytes: bool) -> Self {
        if !mrdf {
            return Self::InOrder { fresh: BTreeSet::new(), repair: BTreeSet::new() };
        }
        Self::Mrdf { fresh: Buckets::default(), repair: Box::default(), by_bytes }
    }

    /// Moves a message from the priority `before` to `after`; `None` if it has nothing to send.
    /// `ranks` are those of all groups' messages.
    pub(crate) fn set(
        &mut self,
        ranks: &mut Ranks,
        key: u32,
        before: Option<Priority>,
        after: Option<Priority>,
    ) {
        match self {
            Self::Mrdf { fresh, repair, by_bytes } => {
                let rank = after.map(|p| {
                    let behind = if p.fresh { !p.started } else { p.single };
                    (2 * p.weight(*by_bytes) + u32::from(behind), !p.fresh)
                });
                file(ranks, [fresh, repair], key, rank);
            }
            Self::InOrder { fresh, repair } => {
                if let Some(before) = before {
                    (if before.fresh { &mut *fresh } else { &mut *repair })
                        .remove(&(before.id, key));
                }
                if let Some(after) = after {
                    (if after.fresh { fresh } else { repair }).insert((after.id, key));
                }
            }
        }
    }

    /// The weight by which a new message of this size is ordered; `None` without MRDF.
    pub(crate) fn weight(&self, packets: u32, len_bytes: u32) -> Option<u32> {
        match self {
            Self::Mrdf { by_bytes: true, .. } => Some(len_bytes / CLASS_BYTES),
            Self::Mrdf { by_bytes: false, .. } => Some(packets),
            Self::InOrder { .. } => None,
        }
    }

    /// The number of messages that have something to send.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mrdf { fresh, repair, .. } => fresh.len() + repair.len(),
            Self::InOrder { fresh, repair } => fresh.len() + repair.len(),
        }
    }

    /// The rank and the key of the message that is sent next. Ranks are comparable between groups.
    /// `fresh_only` leaves out messages that were tried in full.
    pub(crate) fn first(&self, fresh_only: bool) -> Option<(u32, u32)> {
        let (fresh, repair) = match self {
            // Ranks of `fresh` are 2r (started) and 2r + 1 (not started). Those of `repair` are 2r
            // (several packets) and 2r + 1 (one). Interleaved, the order is: started, several, not
            // started, one.
            Self::Mrdf { fresh, repair, .. } => (
                fresh.first().map(|(rank, key)| (2 * rank, key)),
                repair.first().map(|(rank, key)| (2 * rank + 1, key)),
            ),
            Self::InOrder { fresh, repair } => (fresh.first().copied(), repair.first().copied()),
        };
        match (fresh, repair.filter(|_| !fresh_only)) {
            (Some(fresh), Some(repair)) => Some(fresh.min(repair)),
            (fresh, repair) => fresh.or(repair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn priorities() -> impl Strategy<Value = Option<Priority>> {
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        let priority = (1u32..20, flags, 0u32..1_500).prop_map(
            |(remaining, (fresh, started, single), len_bytes)| {
                let single = single && remaining == 1;
                let started = !fresh || started && !single;
                Priority {
                    id: 0,
                    remaining,
                    fresh,
                    started,
                    single,
                    len_bytes,
                    payload_bytes: 1_500,
                }
            },
        );
        proptest::option::weighted(0.8, priority)
    }

    /// The rule, spelled out for one message.
    fn naive_rank(by_bytes: bool, priority: &Priority) -> (u32, u32) {
        let class = match (priority.fresh, priority.started, priority.single) {
            (true, true, _) => 0,
            (false, _, false) => 1,
            (true, false, _) => 2,
            (false, _, true) => 3,
        };
        let size = match (by_bytes, priority.fresh && priority.single) {
            (false, _) => priority.remaining,
            (true, true) => priority.len_bytes / 64 + 1,
            (true, false) => priority.remaining * 24,
        };
        (size, class)
    }

    proptest! {
        // NetApprox §4.3, against a sort of all messages.
        #[test]
        fn mrdf__picks_what_a_sort_picks(
            steps in proptest::collection::vec((0u32..30, priorities()), 1..300),
            fresh_only: bool,
            by_bytes: bool,
        ) {
            let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(true, by_bytes));
            let naive_rank = |priority: &Priority| naive_rank(by_bytes, priority);
            let mut model: Vec<Option<(Priority, usize)>> = vec![None; 30];
            for (stamp, (key, priority)) in steps.into_iter().enumerate() {
                let priority = priority.map(|priority| Priority { id: key, ..priority });
                let before = model[key as usize];
                schedule.set(&mut ranks, key, before.map(|(priority, _)| priority), priority);
                let moved = before.map(|(priority, _)| naive_rank(&priority)) != priority.as_ref().map(naive_rank);
                model[key as usize] = priority.map(|priority| match before {
                    Some((_, since)) if !moved => (priority, since),
                    _ => (priority, stamp),
                });
                let expected = model
                    .iter()
                    .flatten()
                    .filter(|(priority, _)| priority.fresh || !fresh_only)
                    .min_by_key(|(priority, since)| (naive_rank(priority), *since))
                    .map(|(priority, _)| priority.id);
                prop_assert_eq!(schedule.first(fresh_only).map(|(_, key)| key), expected);
            }
        }

        #[test]
        fn in_order__picks_the_oldest(
            steps in proptest::collection::vec((0u32..30, priorities()), 1..200),
        ) {
            let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(false, false));
            let mut model: Vec<Option<Priority>> = vec![None; 30];
            for (key, priority) in steps {
                let priority = priority.map(|priority| Priority { id: key, ..priority });
                schedule.set(&mut ranks, key, model[key as usize], priority);
                model[key as usize] = priority;
                let expected = model.iter().flatten().map(|priority| priority.id).min();
                prop_assert_eq!(schedule.first(false).map(|(_, key)| key), expected);
            }
        }
    }

    #[test]
    fn mrdf__one_packet_messages_new_before_lost_but_started_before_both() {
        let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(true, false));
        let priority = Priority {
            id: 0,
            remaining: 1,
            fresh: false,
            started: true,
            single: true,
            len_bytes: 9,
            payload_bytes: 10,
        };
        schedule.set(&mut ranks, 0, None, Some(priority));
        assert_eq!(schedule.first(false).unwrap().1, 0);
        schedule.set(
            &mut ranks,
            1,
            None,
            Some(Priority { id: 1, fresh: true, started: false, ..priority }),
        );
        assert_eq!(schedule.first(false).unwrap().1, 1);
        schedule.set(&mut ranks, 2, None, Some(Priority { id: 2, single: false, ..priority }));
        assert_eq!(schedule.first(false).unwrap().1, 2);
        assert_eq!(schedule.first(true).unwrap().1, 1);
    }
}
