//! A byte stream in which messages stand one after the other, as TCP's applications send them: how a
//! sender cuts it into segments, and how a receiver puts it together.

use std::collections::{BTreeMap, VecDeque};

/// A part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub sequence: u64,
    /// How many bytes.
    pub bytes: u32,
    /// Messages that end in or before it.
    pub messages: u32,
}

impl Segment {
    /// Where the next one begins.
    pub const fn end(&self) -> u64 {
        self.sequence + self.bytes as u64
    }
}

/// What of the stream hasn't been cut into segments.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Where the messages end that aren't cut in full.
    ends: VecDeque<u64>,
    /// Messages that end below `next`.
    messages: u32,
    /// The stream's length so far.
    queued: u64,
    next: u64,
}

impl Outgoing {
    /// One more message.
    pub fn queue(&mut self, bytes: u32) {
        self.queued += u64::from(bytes);
        self.ends.push_back(self.queued);
    }

    /// Bytes that aren't cut.
    pub const fn left_bytes(&self) -> u64 {
        self.queued - self.next
    }

    /// Where the next segment begins.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The next segment, of `bytes_max` at most, if there is anything.
    pub fn cut(&mut self, bytes_max: u32) -> Option<Segment> {
        let bytes = self.left_bytes().min(u64::from(bytes_max)) as u32;
        if bytes == 0 {
            return None;
        }
        let sequence = self.next;
        self.next += u64::from(bytes);
        while self.ends.pop_front_if(|end| *end <= self.next).is_some() {
            self.messages += 1;
        }
        Some(Segment { sequence, bytes, messages: self.messages })
    }

    /// What isn't cut stays where it is.
    pub fn clear(&mut self) {
        self.queued = self.next;
        self.ends.clear();
    }
}

/// What of the stream is here.
#[derive(Debug, Default)]
pub struct Incoming {
    /// All bytes below are here.
    cumulative: u64,
    /// What is here beyond: by its beginning, its end.
    beyond: BTreeMap<u64, u64>,
    /// How many messages end at or below which byte of the stream, as segments said so far.
    ends: BTreeMap<u64, u32>,
    delivered: u32,
}

impl Incoming {
    /// A segment is here: how many messages can be handed over for it, in their order.
    pub fn take(&mut self, segment: Segment) -> u32 {
        let end = segment.end();
        // The usual case: the next one.
        if segment.sequence <= self.cumulative && self.beyond.is_empty() {
            let before = self.delivered;
            if end > self.cumulative {
                self.cumulative = end;
                self.delivered = before.max(segment.messages);
            }
            return self.delivered - before;
        }
        if end > self.cumulative {
            let known = self.beyond.entry(segment.sequence).or_insert(end);
            *known = end.max(*known);
            self.ends.insert(end, segment.messages);
        }
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.cumulative
        {
            self.cumulative = self.cumulative.max(first.remove());
        }
        let before = self.delivered;
        while let Some(first) = self.ends.first_entry()
            && *first.key() <= self.cumulative
        {
            self.delivered = self.delivered.max(first.remove());
        }
        self.delivered - before
    }

    /// All bytes below are here.
    pub const fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// Where the first bytes begin that are here beyond one that isn't; `u64::MAX` if there are none.
    pub fn hole_end(&self) -> u64 {
        self.beyond.first_key_value().map_or(u64::MAX, |(begin, _)| *begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever messages there are and in whatever order their segments come, with repetitions: each
        /// is handed over once, when it and all before it are here, and never sooner.
        #[test]
        fn stream__hands_over_each_message_once_and_in_order(
            messages in proptest::collection::vec(1u32..300, 1..30),
            bytes_max in 1u32..200,
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let mut outgoing = Outgoing::default();
            let mut ends = Vec::new();
            for bytes in &messages {
                outgoing.queue(*bytes);
                ends.push(ends.last().copied().unwrap_or(0) + u64::from(*bytes));
            }
            let segments: Vec<Segment> = std::iter::from_fn(|| outgoing.cut(bytes_max)).collect();
            prop_assert_eq!(outgoing.left_bytes(), 0);
            let (mut incoming, mut here, mut delivered) = (Incoming::default(), vec![false; segments.len()], 0);
            let all = (0..segments.len()).rev();
            let places = order.iter().map(|index| index.index(segments.len())).chain(all);
            for place in places {
                delivered += incoming.take(segments[place]);
                here[place] = true;
                let missing = here.iter().position(|here| !here);
                let cumulative = missing.map_or(*ends.last().unwrap(), |place| segments[place].sequence);
                let expected = ends.iter().filter(|end| **end <= cumulative).count();
                prop_assert_eq!(delivered, expected as u32);
                prop_assert_eq!(incoming.cumulative(), cumulative);
                let beyond = missing.and_then(|first| {
                    (first..segments.len()).find(|place| here[*place]).map(|place| segments[place].sequence)
                });
                prop_assert_eq!(incoming.hole_end(), beyond.unwrap_or(u64::MAX));
            }
            prop_assert_eq!(delivered, messages.len() as u32);
        }
    }
}
