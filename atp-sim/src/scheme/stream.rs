//! A byte stream of consecutive messages, as with TCP: segmentation by the sender, and reassembly
//! by the receiver.

use super::unsent::{Order, Unsent};
use std::collections::BTreeMap;

/// A segment of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub sequence: u64,
    /// Number of bytes.
    pub bytes: u32,
    /// Messages that end in this segment or earlier.
    pub messages: u32,
}

impl Segment {
    /// First byte after the segment.
    pub const fn end(&self) -> u64 {
        self.sequence + self.bytes as u64
    }
}

/// The part of the stream that isn't segmented yet. A message has its place in the stream from its
/// first byte on. Earlier, a shorter message may overtake it.
#[derive(Debug, Default)]
pub struct Outgoing {
    unsent: Unsent,
    /// Number of messages that have begun, and the end of the last one.
    begun: u32,
    begun_end: u64,
    /// The stream's length so far.
    queued: u64,
    next: u64,
}

impl Outgoing {
    /// Makes an empty stream, which messages enter in the given order.
    pub fn new(order: Order) -> Self {
        Self { unsent: Unsent::new(order), ..Self::default() }
    }

    /// Appends a message. An empty message counts as one byte.
    pub fn queue(&mut self, bytes: u32) {
        let bytes = bytes.max(1);
        self.queued += u64::from(bytes);
        self.unsent.push(bytes);
    }

    /// Bytes that aren't segmented.
    pub const fn left_bytes(&self) -> u64 {
        self.queued - self.next
    }

    /// First byte of the next segment.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The next segment of at most `bytes_max`. `None` if nothing is left.
    pub fn next_segment(&mut self, bytes_max: u32) -> Option<Segment> {
        let bytes = self.left_bytes().min(u64::from(bytes_max)) as u32;
        if bytes == 0 {
            return None;
        }
        let sequence = self.next;
        self.next += u64::from(bytes);
        while self.begun_end < self.next
            && let Some(message) = self.unsent.pop()
        {
            self.begun += 1;
            self.begun_end += u64::from(message.bytes);
        }
        let messages = self.begun - u32::from(self.is_inside_message());
        Some(Segment { sequence, bytes, messages })
    }

    /// Drops the bytes that aren't segmented.
    pub fn clear(&mut self) {
        self.begun -= u32::from(self.is_inside_message());
        (self.queued, self.begun_end) = (self.next, self.next);
        self.unsent.clear();
    }

    /// Whether the last message that has begun continues after `next`.
    const fn is_inside_message(&self) -> bool {
        self.begun_end > self.next
    }
}

/// The received part of the stream.
#[derive(Debug, Default)]
pub struct Incoming {
    /// All bytes below this are received.
    cumulative: u64,
    /// Segments received beyond `cumulative`: begin to end.
    beyond: BTreeMap<u64, u64>,
    /// By byte of the stream: the number of messages that end at or below it, from received
    /// segments.
    ends: BTreeMap<u64, u32>,
    delivered: u32,
}

impl Incoming {
    /// Adds a received segment. Returns the number of messages that can be delivered now, in order.
    pub fn take(&mut self, segment: Segment) -> u32 {
        let end = segment.end();
        // The usual case: the next segment in order.
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

    /// All bytes below this are received.
    pub const fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// First received byte above the first missing one. `u64::MAX` if there is none.
    pub fn hole_end(&self) -> u64 {
        self.beyond.first_key_value().map_or(u64::MAX, |(begin, _)| *begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whenever a message begins, it is the shortest of those that wait.
        #[test]
        fn next_segment__begins_the_shortest_message(
            steps in proptest::collection::vec((1u32..300, 0u32..4), 1..60),
            bytes_max in 1u32..200,
        ) {
            let mut outgoing = Outgoing::new(Order::ShortestFirst);
            let (mut waiting, mut begun_end, mut begun) = (Vec::new(), 0, 0);
            for (bytes, segments) in steps {
                outgoing.queue(bytes);
                waiting.push(bytes);
                for _ in 0..segments {
                    let Some(segment) = outgoing.next_segment(bytes_max) else { break };
                    waiting.sort_unstable();
                    while begun_end < segment.end() {
                        begun_end += u64::from(waiting.remove(0));
                        begun += 1;
                    }
                    let is_inside = begun_end > segment.end();
                    prop_assert_eq!(segment.messages, begun - u32::from(is_inside));
                }
            }
        }

        /// Segments arrive in any order, with duplicates. Each message is delivered once, exactly
        /// when it and all messages before it are received.
        #[test]
        fn stream__delivers_each_message_once_and_in_order(
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
            let segments = std::iter::from_fn(|| outgoing.next_segment(bytes_max));
            let segments: Vec<Segment> = segments.collect();
            prop_assert_eq!(outgoing.left_bytes(), 0);
            let (mut incoming, mut delivered) = (Incoming::default(), 0);
            let mut here = vec![false; segments.len()];
            let all = (0..segments.len()).rev();
            let indexes = order.iter().map(|index| index.index(segments.len())).chain(all);
            for index in indexes {
                delivered += incoming.take(segments[index]);
                here[index] = true;
                let missing = here.iter().position(|here| !here);
                let begin = |index: usize| segments[index].sequence;
                let cumulative = missing.map_or(*ends.last().unwrap(), begin);
                let expected = ends.iter().filter(|end| **end <= cumulative).count();
                prop_assert_eq!(delivered, expected as u32);
                prop_assert_eq!(incoming.cumulative(), cumulative);
                let beyond = missing.and_then(|first| {
                    let next = (first..segments.len()).find(|index| here[*index]);
                    next.map(|index| segments[index].sequence)
                });
                prop_assert_eq!(incoming.hole_end(), beyond.unwrap_or(u64::MAX));
            }
            prop_assert_eq!(delivered, messages.len() as u32);
        }
    }
}
