//! The queue of future events: a calendar queue.
//!
//! Nearly all events lie within the next few microseconds. Each goes into the bucket of its time in
//! O(1). Only the current bucket is sorted, once. Events added to it after that wait in a heap, and
//! so do events beyond the last bucket.
//!
//! Memory accesses dominate the cost. So an emptied bucket's memory goes to the next bucket that
//! needs some, while the processor's cache still holds it.

use super::{Event, Kind};
use std::{cmp::Reverse, collections::BinaryHeap};

/// A bucket is 2^12 ps long, 4 ns: some hundred events of a busy fabric.
const BUCKET_BITS: u32 = 12;
/// The calendar reaches 33 us ahead, some round trips.
const BUCKETS: usize = 8_192;

/// Events by time.
#[derive(Debug)]
pub struct Calendar {
    now_ps: u64,
    /// The number of the next event.
    number: u64,
    /// The current bucket, counted from time 0.
    bucket: u64,
    /// The current bucket's events in descending order, so that the next one is the last.
    near: Vec<Event>,
    /// Events added to the current bucket, or an earlier one, after it was sorted.
    added: BinaryHeap<Reverse<Event>>,
    /// Events of the next `BUCKETS - 1` buckets, by bucket modulo `BUCKETS`.
    buckets: Vec<Vec<Event>>,
    /// Memory of emptied buckets.
    spare: Vec<Vec<Event>>,
    /// One bit per bucket, set if the bucket has events.
    occupied: [u64; BUCKETS / 64],
    /// Events beyond the last bucket.
    far: BinaryHeap<Reverse<Event>>,
    len: usize,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            now_ps: 0,
            number: 0,
            bucket: 0,
            near: Vec::new(),
            added: BinaryHeap::new(),
            buckets: vec![Vec::new(); BUCKETS],
            spare: Vec::new(),
            occupied: [0; BUCKETS / 64],
            far: BinaryHeap::new(),
            len: 0,
        }
    }
}

impl Calendar {
    /// Adds an event at `at_ps`.
    ///
    /// # Panics
    /// If that time has passed.
    pub fn add(&mut self, at_ps: u64, kind: Kind, node: u32, item: u32) {
        assert!(at_ps >= self.now_ps, "{kind:?} at {at_ps} ps, but it is {} ps", self.now_ps);
        let event = Event::new(at_ps, kind, node, self.number, item);
        self.number += 1;
        self.len += 1;
        let bucket = at_ps >> BUCKET_BITS;
        if bucket <= self.bucket {
            self.added.push(Reverse(event));
        } else if bucket < self.bucket + BUCKETS as u64 {
            self.put_into_bucket(event);
        } else {
            self.far.push(Reverse(event));
        }
    }

    /// Removes the next event, and advances the time to it. `None` if it is later than `end_ps`.
    pub fn next_until(&mut self, end_ps: u64) -> Option<Event> {
        while self.near.is_empty() && self.added.is_empty() {
            if self.len == 0 {
                return None;
            }
            self.advance_bucket();
        }
        let added = self.added.peek().map(|Reverse(event)| event);
        let is_near = match (self.near.last(), added) {
            (Some(near), Some(added)) => near < added,
            (near, _) => near.is_some(),
        };
        let next = if is_near { self.near.last() } else { added };
        if next?.at_ps > end_ps {
            return None;
        }
        let event =
            if is_near { self.near.pop() } else { self.added.pop().map(|Reverse(event)| event) }?;
        self.len -= 1;
        debug_assert!(event.at_ps >= self.now_ps);
        self.now_ps = event.at_ps;
        Some(event)
    }

    /// Whether no event is left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn put_into_bucket(&mut self, event: Event) {
        let slot = (event.at_ps >> BUCKET_BITS) as usize % BUCKETS;
        let bucket = &mut self.buckets[slot];
        if bucket.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *bucket = spare;
        }
        bucket.push(event);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Advances to the next bucket with events.
    fn advance_bucket(&mut self) {
        self.bucket = match self.next_occupied() {
            Some(bucket) => bucket,
            // Only events beyond the last bucket are left.
            None => self.far.peek().map_or(self.bucket, |first| first.0.at_ps >> BUCKET_BITS),
        };
        while let Some(Reverse(first)) = self.far.peek()
            && first.at_ps >> BUCKET_BITS < self.bucket + BUCKETS as u64
        {
            let event = *first;
            self.far.pop();
            self.put_into_bucket(event);
        }
        let slot = self.bucket as usize % BUCKETS;
        let events = std::mem::take(&mut self.buckets[slot]);
        self.spare.push(std::mem::replace(&mut self.near, events));
        self.near.sort_unstable_by(|one, other| other.cmp(one));
        self.occupied[slot / 64] &= !(1 << (slot % 64));
    }

    /// The first bucket with events after the current one. Far events are later than all buckets:
    /// each moves into its bucket as soon as that comes within reach.
    fn next_occupied(&self) -> Option<u64> {
        let start = self.bucket as usize % BUCKETS;
        // One pass over all words. The first word comes twice: its high bits first, its low bits
        // last.
        for step in 0..=self.occupied.len() {
            let index = (start / 64 + step) % self.occupied.len();
            let mut word = self.occupied[index];
            if step == 0 {
                word &= u64::MAX << (start % 64);
            }
            if word != 0 {
                let slot = index * 64 + word.trailing_zeros() as usize;
                let ahead = (slot + BUCKETS - start) % BUCKETS;
                return Some(self.bucket + ahead as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The calendar agrees with a sorted list. Events are added while time advances: to the
        /// current bucket, the next ones, far beyond the last one, and before the current one.
        #[test]
        fn next_until__is_the_earliest(
            steps in proptest::collection::vec(
                (0u32..34, any::<u64>(), 0u8..4, 0u32..5, 0u8..3, 0u32..64),
                1..400,
            ),
        ) {
            let mut calendar = Calendar::default();
            let mut model = std::collections::BTreeSet::new();
            let mut now_ps = 0;
            for (number, step) in steps.into_iter().enumerate() {
                let (bits, random, kind, node, pops, end_bits) = step;
                let kinds = [Kind::Arrival, Kind::PortFree, Kind::Wake, Kind::Application];
                let kind = kinds[kind as usize];
                let at_ps = now_ps + random % (1 << bits);
                calendar.add(at_ps, kind, node, number as u32);
                model.insert(Event::new(at_ps, kind, node, number as u64, number as u32));
                for _ in 0..pops {
                    // The next event may be later than `end_ps`. An event added then may be earlier
                    // than the next event.
                    let end_ps = now_ps.saturating_add(1 << end_bits);
                    let is_due = model.first().is_some_and(|event: &Event| event.at_ps <= end_ps);
                    let event = calendar.next_until(end_ps);
                    prop_assert_eq!(event, if is_due { model.pop_first() } else { None });
                    now_ps = event.map_or(now_ps, |event| event.at_ps);
                }
            }
            while let Some(event) = model.pop_first() {
                prop_assert_eq!(calendar.next_until(u64::MAX), Some(event));
            }
            prop_assert_eq!(calendar.next_until(u64::MAX), None);
        }
    }

    #[test]
    fn next_until__leaves_later_events() {
        let mut calendar = Calendar::default();
        calendar.add(10_000_000_000, Kind::Wake, 3, 4);
        assert_eq!(calendar.next_until(9_999_999_999), None);
        assert_eq!(calendar.next_until(10_000_000_000).unwrap().item, 4);
    }

    #[test]
    #[should_panic(expected = "but it is 10 ps")]
    fn add__refuses_the_past() {
        let mut calendar = Calendar::default();
        calendar.add(10, Kind::Wake, 0, 0);
        calendar.next_until(u64::MAX);
        calendar.add(9, Kind::Wake, 0, 0);
    }
}
