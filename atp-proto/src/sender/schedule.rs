//! Which message sends next (NetApprox §4.3).
//!
//! *Minimal remaining data first*: the message with the least data still to be delivered, over new
//! packets and lost ones alike. Data is counted in packets, since packets are what the network
//! takes or loses; a packet in flight still remains to be delivered. Among equals:
//!
//! 1. a message that has begun comes before one that has not: half a message is worth nothing;
//! 2. but among one-packet messages the new ones come before those sent before: retransmitting
//!    first would keep the number of lost messages at 0 and so the target loss rate at its start
//!    value, and the job in the lowest queue;
//! 3. else first come, first served.
//!
//! *In order*, for streams whose messages depend on each other: the oldest message with anything
//! to send.

use super::buckets::{Buckets, Ranks, file};
use std::collections::BTreeSet;

/// Where a message stands in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) id: u32,
    /// Packets still to be delivered, at least 1.
    pub(crate) remaining: u32,
    /// Some packet was never sent; otherwise all that it has to send is lost packets.
    pub(crate) fresh: bool,
    /// Some packet was sent.
    pub(crate) started: bool,
    /// It has one packet.
    pub(crate) single: bool,
}

/// The messages of one group that have something to send.
#[derive(Debug)]
pub(crate) enum Schedule {
    /// Minimal remaining data first.
    Mrdf { fresh: Buckets, repair: Buckets },
    /// By id: (id, key).
    InOrder { fresh: BTreeSet<(u32, u32)>, repair: BTreeSet<(u32, u32)> },
}

impl Schedule {
    pub(crate) fn new(mrdf: bool) -> Self {
        if !mrdf {
            return Self::InOrder { fresh: BTreeSet::new(), repair: BTreeSet::new() };
        }
        Self::Mrdf { fresh: Buckets::default(), repair: Buckets::default() }
    }

    /// Files a message at its new place; `None` if it has nothing to send. `ranks`: of the messages
    /// of all groups.
    pub(crate) fn set(
        &mut self,
        ranks: &mut Ranks,
        key: u32,
        before: Option<Place>,
        after: Option<Place>,
    ) {
        match self {
            Self::Mrdf { fresh, repair } => {
                let place = after.map(|p| {
                    let behind = if p.fresh { !p.started } else { p.single };
                    (2 * p.remaining + u32::from(behind), !p.fresh)
                });
                file(ranks, [fresh, repair], key, place);
            }
            Self::InOrder { fresh, repair } => {
                if let Some(place) = before {
                    (if place.fresh { &mut *fresh } else { &mut *repair }).remove(&(place.id, key));
                }
                if let Some(place) = after {
                    (if place.fresh { fresh } else { repair }).insert((place.id, key));
                }
            }
        }
    }

    /// The message that sends next, with its rank (comparable between groups). With `fresh_only`,
    /// messages that were tried in full are left out.
    pub(crate) fn first(&self, fresh_only: bool) -> Option<(u32, u32)> {
        let (fresh, repair) = match self {
            // Ranks of `fresh` are 2r (started), 2r + 1 (not started); of `repair` 2r (several
            // packets), 2r + 1 (one). Interleaved: started, several, not started, one.
            Self::Mrdf { fresh, repair } => (
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

    fn places() -> impl Strategy<Value = Option<Place>> {
        let place = (1u32..20, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(remaining, fresh, started, single)| {
                let single = single && remaining == 1;
                let started = !fresh || started && !single;
                Place { id: 0, remaining, fresh, started, single }
            },
        );
        proptest::option::weighted(0.8, place)
    }

    /// The rule, spelled out.
    fn naive_rank(place: &Place) -> (u32, u32) {
        let class = match (place.fresh, place.started, place.single) {
            (true, true, _) => 0,
            (false, _, false) => 1,
            (true, false, _) => 2,
            (false, _, true) => 3,
        };
        (place.remaining, class)
    }

    proptest! {
        // NetApprox §4.3, against a sort of all messages.
        #[test]
        fn mrdf__picks_what_a_sort_picks(
            steps in proptest::collection::vec((0u32..30, places()), 1..300),
            fresh_only: bool,
        ) {
            let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(true));
            let mut model: Vec<Option<(Place, usize)>> = vec![None; 30];
            for (stamp, (key, place)) in steps.into_iter().enumerate() {
                let place = place.map(|place| Place { id: key, ..place });
                let before = model[key as usize];
                schedule.set(&mut ranks, key, before.map(|(place, _)| place), place);
                let moved = before.map(|(place, _)| naive_rank(&place)) != place.as_ref().map(naive_rank);
                model[key as usize] = place.map(|place| match before {
                    Some((_, since)) if !moved => (place, since),
                    _ => (place, stamp),
                });
                let expected = model
                    .iter()
                    .flatten()
                    .filter(|(place, _)| place.fresh || !fresh_only)
                    .min_by_key(|(place, since)| (naive_rank(place), *since))
                    .map(|(place, _)| place.id);
                prop_assert_eq!(schedule.first(fresh_only).map(|(_, key)| key), expected);
            }
        }

        #[test]
        fn in_order__picks_the_oldest(
            steps in proptest::collection::vec((0u32..30, places()), 1..200),
        ) {
            let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(false));
            let mut model: Vec<Option<Place>> = vec![None; 30];
            for (key, place) in steps {
                let place = place.map(|place| Place { id: key, ..place });
                schedule.set(&mut ranks, key, model[key as usize], place);
                model[key as usize] = place;
                let expected = model.iter().flatten().map(|place| place.id).min();
                prop_assert_eq!(schedule.first(false).map(|(_, key)| key), expected);
            }
        }
    }

    #[test]
    fn mrdf__one_packet_messages_new_before_lost_but_started_before_both() {
        let (mut ranks, mut schedule) = (Ranks::default(), Schedule::new(true));
        let place = Place { id: 0, remaining: 1, fresh: false, started: true, single: true };
        schedule.set(&mut ranks, 0, None, Some(place));
        assert_eq!(schedule.first(false).unwrap().1, 0);
        schedule.set(
            &mut ranks,
            1,
            None,
            Some(Place { id: 1, fresh: true, started: false, ..place }),
        );
        assert_eq!(schedule.first(false).unwrap().1, 1);
        schedule.set(&mut ranks, 2, None, Some(Place { id: 2, single: false, ..place }));
        assert_eq!(schedule.first(false).unwrap().1, 2);
        assert_eq!(schedule.first(true).unwrap().1, 1);
    }
}
