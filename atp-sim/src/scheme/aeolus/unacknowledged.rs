//! A sender's segments in flight, and the segments that it knows to be lost.

use super::AeolusReport;
use crate::scheme::stream::Segment;
use std::collections::BTreeMap;

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    segment: Segment,
    /// The number of the last transmission.
    transmission: u64,
    /// Whether the segment was sent without a credit.
    unscheduled: bool,
}

/// Segments that aren't acknowledged.
#[derive(Debug, Default)]
pub struct Unacknowledged {
    /// The segments in flight by sequence.
    in_flight: BTreeMap<u64, InFlight>,
    /// The unscheduled segments in flight: transmission to sequence.
    unscheduled: BTreeMap<u64, u64>,
    /// Segments to retransmit, by sequence.
    lost: BTreeMap<u64, Segment>,
}

impl Unacknowledged {
    /// Records that a segment was sent.
    pub fn send(&mut self, segment: Segment, transmission: u64, unscheduled: bool) {
        self.remove(segment.sequence);
        self.in_flight.insert(segment.sequence, InFlight { segment, transmission, unscheduled });
        if unscheduled {
            self.unscheduled.insert(transmission, segment.sequence);
        }
    }

    /// Records that the segment at `sequence` is received.
    pub fn acknowledge(&mut self, sequence: u64) {
        self.remove(sequence);
        self.lost.remove(&sequence);
    }

    /// Takes the receiver's state. A missing segment is lost if more than `reordering` later
    /// transmissions were sent before the largest one received.
    pub fn take_report(&mut self, report: &AeolusReport, reordering: u64) {
        while let Some((&sequence, _)) = self.in_flight.first_key_value()
            && sequence < report.cumulative
        {
            self.remove(sequence);
        }
        self.lost = self.lost.split_off(&report.cumulative);
        let missing = self.in_flight.range(report.cumulative..report.hole_end);
        let lost = missing.filter(|(_, sent)| sent.transmission + reordering < report.transmission);
        let lost: Vec<u64> = lost.map(|(sequence, _)| *sequence).collect();
        for sequence in lost {
            self.lose(sequence);
        }
    }

    /// Declares unscheduled segments lost if their transmission is before `before`, which is
    /// acknowledged: they would have been acknowledged earlier (Aeolus §3.3).
    pub fn lose_unscheduled(&mut self, before: u64) {
        while let Some((&transmission, &sequence)) = self.unscheduled.first_key_value()
            && transmission < before
        {
            self.lose(sequence);
        }
    }

    /// The next segment to retransmit.
    pub fn take_lost(&mut self) -> Option<Segment> {
        Some(self.lost.pop_first()?.1)
    }

    /// The next unscheduled segment that isn't acknowledged.
    pub fn take_unscheduled(&mut self) -> Option<Segment> {
        let (_, sequence) = self.unscheduled.pop_first()?;
        Some(self.in_flight.remove(&sequence)?.segment)
    }

    /// Whether a segment is lost.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether an unscheduled segment isn't acknowledged.
    pub fn awaits_unscheduled(&self) -> bool {
        !self.unscheduled.is_empty()
    }

    /// Whether a segment in flight isn't acknowledged.
    pub fn awaits_any(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn lose(&mut self, sequence: u64) {
        if let Some(lost) = self.remove(sequence) {
            self.lost.insert(sequence, lost.segment);
        }
    }

    fn remove(&mut self, sequence: u64) -> Option<InFlight> {
        let removed = self.in_flight.remove(&sequence)?;
        if removed.unscheduled {
            self.unscheduled.remove(&removed.transmission);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::stream::Incoming;
    use proptest::prelude::*;

    proptest! {
        /// On a path with losses and without reordering, every segment is either acknowledged, in
        /// flight or lost. No received segment is declared lost after its acknowledgment.
        #[test]
        fn unacknowledged__knows_what_is_lost(
            steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u8..4), 1..200),
        ) {
            let (mut unacknowledged, mut incoming) = (Unacknowledged::default(), Incoming::default());
            let mut here = std::collections::BTreeSet::new();
            let (mut transmission, mut sent) = (0, 0);
            for (is_dropped, unscheduled, kind) in steps {
                transmission += 1;
                let lost = if kind == 0 { unacknowledged.take_lost() } else { None };
                let segment = lost.unwrap_or_else(|| {
                    sent += 1;
                    Segment { sequence: (sent - 1) * 10, bytes: 10, messages: 0 }
                });
                unacknowledged.send(segment, transmission, unscheduled && lost.is_none());
                if is_dropped {
                    continue;
                }
                incoming.take(segment);
                here.insert(segment.sequence);
                let (cumulative, hole_end) = (incoming.cumulative(), incoming.hole_end());
                if unscheduled {
                    unacknowledged.acknowledge(segment.sequence);
                    unacknowledged.lose_unscheduled(transmission);
                }
                if kind % 2 == 0 {
                    let report = AeolusReport { cumulative, hole_end, transmission };
                    unacknowledged.take_report(&report, 0);
                    let first = unacknowledged.in_flight.range(cumulative..hole_end).next();
                    prop_assert!(first.is_none_or(|(_, sent)| sent.transmission > transmission));
                    prop_assert!(unacknowledged.lost.keys().all(|sequence| *sequence >= cumulative));
                }
                prop_assert!(unacknowledged.lost.keys().all(|sequence| !here.contains(sequence)));
            }
            for sequence in (0..sent).map(|number| number * 10) {
                let in_flight = unacknowledged.in_flight.contains_key(&sequence);
                let lost = unacknowledged.lost.contains_key(&sequence);
                prop_assert!(!(in_flight && lost));
                prop_assert!(in_flight || lost || here.contains(&sequence), "{sequence} is forgotten");
            }
            let listed = unacknowledged.in_flight.values().filter(|sent| sent.unscheduled).count();
            prop_assert_eq!(listed, unacknowledged.unscheduled.len());
            for sequence in unacknowledged.unscheduled.values() {
                prop_assert!(unacknowledged.in_flight[sequence].unscheduled);
            }
        }
    }
}
