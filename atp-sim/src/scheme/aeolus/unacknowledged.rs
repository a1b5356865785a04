//! What a sender has sent and knows no more of, and what it knows to be lost.

use crate::{net::AeolusReport, scheme::stream::Segment};
use std::collections::BTreeMap;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    segment: Segment,
    /// What counted it.
    turn: u64,
    /// It had no credit.
    unscheduled: bool,
}

/// Segments that aren't acknowledged.
#[derive(Debug, Default)]
pub struct Unacknowledged {
    /// By where they begin.
    flying: BTreeMap<u64, Flying>,
    /// Those without credit by their turn: where they begin.
    unscheduled: BTreeMap<u64, u64>,
    /// What is to be sent again.
    lost: BTreeMap<u64, Segment>,
}

impl Unacknowledged {
    /// It left.
    pub fn send(&mut self, segment: Segment, turn: u64, unscheduled: bool) {
        self.land(segment.sequence);
        self.flying.insert(segment.sequence, Flying { segment, turn, unscheduled });
        if unscheduled {
            self.unscheduled.insert(turn, segment.sequence);
        }
    }

    /// The segment that begins there is at its destination.
    pub fn acknowledge(&mut self, sequence: u64) {
        self.land(sequence);
        self.lost.remove(&sequence);
    }

    /// What the receiver has. So many packets of the flow may overtake one; what isn't there of what was
    /// sent longer before the latest turn that is never will be.
    pub fn heed(&mut self, report: &AeolusReport, overtaking: u64) {
        while let Some((&sequence, _)) = self.flying.first_key_value()
            && sequence < report.cumulative
        {
            self.land(sequence);
        }
        self.lost = self.lost.split_off(&report.cumulative);
        let missing = self.flying.range(report.cumulative..report.hole_end);
        let gone = missing.filter(|(_, flying)| flying.turn + overtaking < report.turn);
        let gone: Vec<u64> = gone.map(|(sequence, _)| *sequence).collect();
        for sequence in gone {
            self.lose(sequence);
        }
    }

    /// A packet of that turn was acknowledged: so were all unscheduled ones before it that came (Aeolus
    /// §3.3).
    pub fn lose_unscheduled(&mut self, before_turn: u64) {
        while let Some((&turn, &sequence)) = self.unscheduled.first_key_value()
            && turn < before_turn
        {
            self.lose(sequence);
        }
    }

    /// What is sent next of what was sent before: what is lost.
    pub fn take_lost(&mut self) -> Option<Segment> {
        Some(self.lost.pop_first()?.1)
    }

    /// What has left without a credit, and isn't heard of yet.
    pub fn take_unscheduled(&mut self) -> Option<Segment> {
        let (_, sequence) = self.unscheduled.pop_first()?;
        Some(self.flying.remove(&sequence)?.segment)
    }

    /// Something is to be sent again.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Something left without a credit and isn't heard of yet.
    pub fn awaits_unscheduled(&self) -> bool {
        !self.unscheduled.is_empty()
    }

    /// Something isn't heard of yet.
    pub fn awaits_any(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Nothing of it matters any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn lose(&mut self, sequence: u64) {
        if let Some(flying) = self.land(sequence) {
            self.lost.insert(sequence, flying.segment);
        }
    }

    fn land(&mut self, sequence: u64) -> Option<Flying> {
        let flying = self.flying.remove(&sequence)?;
        if flying.unscheduled {
            self.unscheduled.remove(&flying.turn);
        }
        Some(flying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::stream::Incoming;
    use proptest::prelude::*;

    proptest! {
        /// On a path that drops what it likes and keeps the order: every segment is acknowledged,
        /// awaited or lost, exactly one of these; and nothing that came is ever called lost after the
        /// word of it.
        #[test]
        fn unacknowledged__knows_what_is_lost(
            steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u8..4), 1..200),
        ) {
            let (mut unacknowledged, mut incoming) = (Unacknowledged::default(), Incoming::default());
            let mut here = std::collections::BTreeSet::new();
            let (mut turn, mut cut) = (0, 0);
            for (is_dropped, unscheduled, kind) in steps {
                turn += 1;
                let again = if kind == 0 { unacknowledged.take_lost() } else { None };
                let segment = again.unwrap_or_else(|| {
                    cut += 1;
                    Segment { sequence: (cut - 1) * 10, bytes: 10, messages: 0 }
                });
                unacknowledged.send(segment, turn, unscheduled && again.is_none());
                if is_dropped {
                    continue;
                }
                incoming.take(segment);
                here.insert(segment.sequence);
                let (cumulative, hole_end) = (incoming.cumulative(), incoming.hole_end());
                if unscheduled {
                    unacknowledged.acknowledge(segment.sequence);
                    unacknowledged.lose_unscheduled(turn);
                }
                if kind % 2 == 0 {
                    unacknowledged.heed(&AeolusReport { cumulative, hole_end, turn }, 0);
                    let first = unacknowledged.flying.range(cumulative..hole_end).next();
                    prop_assert!(first.is_none_or(|(_, flying)| flying.turn > turn));
                    prop_assert!(unacknowledged.lost.keys().all(|sequence| *sequence >= cumulative));
                }
                prop_assert!(unacknowledged.lost.keys().all(|sequence| !here.contains(sequence)));
            }
            for sequence in (0..cut).map(|number| number * 10) {
                let (flies, lost) =
                    (unacknowledged.flying.contains_key(&sequence), unacknowledged.lost.contains_key(&sequence));
                prop_assert!(!(flies && lost));
                prop_assert!(flies || lost || here.contains(&sequence), "{sequence} is forgotten");
            }
            let listed = unacknowledged.flying.values().filter(|flying| flying.unscheduled).count();
            prop_assert_eq!(listed, unacknowledged.unscheduled.len());
            prop_assert!(unacknowledged.unscheduled.values().all(|sequence| unacknowledged.flying[sequence].unscheduled));
        }
    }
}
