//! Segmentation of consecutive messages into packets, and reassembly in any order.

use super::unsent::{Order, Unsent, UnsentMessage};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

/// The parts of messages that a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketContents {
    /// Packet number within the flow.
    pub number: u32,
    /// Number of messages that are completely in this packet.
    pub complete: u32,
    /// Parts of messages that span packets: one that began before this packet, and one that
    /// continues after it.
    pub parts: [Option<MessagePart>; 2],
}

/// A part of a message that spans several packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// Message number within the flow.
    pub message: u32,
    /// Number of packets that the message spans.
    pub packets: u32,
}

/// Divides unsent messages into packets. A message that has begun may be overtaken by a shorter one
/// at the beginning of a packet.
#[derive(Debug)]
pub struct Segmenter {
    packet_bytes_max: u32,
    order: Order,
    unsent: Unsent,
    /// Messages whose first part was sent, by rank.
    begun: BinaryHeap<Reverse<(u32, Begun)>>,
    packets: u32,
}

/// The unsent part of a message that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    message: u32,
    bytes: u32,
    /// Number of packets that the message spans.
    packets: u32,
}

impl Segmenter {
    /// Makes an empty segmenter for packets of at most `packet_bytes_max` bytes of messages.
    pub fn new(packet_bytes_max: u32, order: Order) -> Self {
        let (unsent, begun) = (Unsent::new(order), BinaryHeap::new());
        Self { packet_bytes_max, order, unsent, begun, packets: 0 }
    }

    /// Appends a message.
    pub fn queue(&mut self, bytes: u32) {
        self.unsent.push(bytes);
    }

    /// Whether no message is left.
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.begun.is_empty()
    }

    /// Number of packets made so far.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Drops the messages that are left.
    pub fn clear(&mut self) {
        self.unsent.clear();
        self.begun.clear();
    }

    /// The next packet, and its bytes of messages. `None` if nothing is left.
    ///
    /// A message that has begun continues only at the beginning of a packet. It then fills all of
    /// its packets but the first and the last one, so its first part can state their number. New
    /// messages fill the rest of a packet.
    pub fn next_packet(&mut self) -> Option<(PacketContents, u32)> {
        let mut room = self.packet_bytes_max;
        let mut contents = PacketContents { number: self.packets, ..PacketContents::default() };
        if let Some(begun) = self.next_begun() {
            let part = MessagePart { message: begun.message, packets: begun.packets };
            contents.parts[0] = Some(part);
            room -= begun.bytes.min(room);
            self.keep(begun, self.packet_bytes_max - room);
        }
        while room > 0
            && let Some(UnsentMessage { number: message, bytes }) = self.unsent.pop()
        {
            let sent_bytes = bytes.min(room);
            room -= sent_bytes;
            if sent_bytes == bytes {
                contents.complete += 1;
            } else {
                let packets = 1 + (bytes - sent_bytes).div_ceil(self.packet_bytes_max);
                contents.parts[1] = Some(MessagePart { message, packets });
                self.keep(Begun { message, bytes, packets }, sent_bytes);
            }
        }
        if room == self.packet_bytes_max {
            return None;
        }
        self.packets += 1;
        Some((contents, self.packet_bytes_max - room))
    }

    /// Removes the message that continues with the next packet. `None` if a new one goes first.
    fn next_begun(&mut self) -> Option<Begun> {
        let Reverse((rank, _)) = self.begun.peek()?;
        if self.unsent.rank().is_some_and(|of_new| of_new < *rank) {
            return None;
        }
        self.begun.pop().map(|Reverse((_, begun))| begun)
    }

    /// Keeps the rest of a message, if there is one, after `sent_bytes` of it were sent.
    fn keep(&mut self, begun: Begun, sent_bytes: u32) {
        let bytes = begun.bytes - sent_bytes;
        if bytes > 0 {
            self.begun.push(Reverse((self.order.rank(bytes), Begun { bytes, ..begun })));
        }
    }
}

/// The received packets of a flow.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// All packets below this are received.
    floor: u32,
    /// Packets received above the floor.
    beyond: BTreeSet<u32>,
    /// Number of received packets by message, for incomplete messages that span packets.
    incomplete: BTreeMap<u32, u32>,
}

impl Reassembly {
    /// The first packet that isn't received.
    pub const fn floor(&self) -> u32 {
        self.floor
    }

    /// Whether a packet is received.
    pub fn has(&self, number: u32) -> bool {
        number < self.floor || self.beyond.contains(&number)
    }

    /// Adds a received packet. Returns the number of messages that it completes.
    pub fn take(&mut self, contents: &PacketContents) -> u32 {
        if contents.number < self.floor || !self.beyond.insert(contents.number) {
            return 0;
        }
        while self.beyond.remove(&self.floor) {
            self.floor += 1;
        }
        let mut complete = contents.complete;
        for part in contents.parts.into_iter().flatten() {
            let here = self.incomplete.entry(part.message).or_default();
            *here += 1;
            if *here == part.packets {
                self.incomplete.remove(&part.message);
                complete += 1;
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT_BYTES_MAX: u32 = 1_454;

    fn orders() -> impl Strategy<Value = Order> {
        prop_oneof![Just(Order::Arrival), Just(Order::ShortestFirst)]
    }

    proptest! {
        /// All bytes are sent once, and the packets' counts of messages add up. A packet isn't full
        /// only if no new message waits. In order of arrival, nothing at all waits then.
        #[test]
        fn next_packet__describes_its_contents(
            steps in proptest::collection::vec((1u32..6_000, 0u32..5), 1..60),
            order in orders(),
        ) {
            let mut stream = Segmenter::new(SEGMENT_BYTES_MAX, order);
            let (mut queued, mut sent) = (0, 0);
            let mut parts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut complete = 0;
            let count = steps.len() as u32;
            let mut send = |stream: &mut Segmenter| {
                let Some((packet, bytes)) = stream.next_packet() else { return false };
                assert!(bytes == SEGMENT_BYTES_MAX || stream.unsent.is_empty());
                let has_gap = order == Order::Arrival && bytes < SEGMENT_BYTES_MAX;
                assert!(!has_gap || stream.is_empty());
                assert_eq!(packet.number + 1, stream.packets());
                sent += u64::from(bytes);
                complete += packet.complete;
                for part in packet.parts.into_iter().flatten() {
                    let known = parts.entry(part.message).or_insert((0, part.packets));
                    known.0 += 1;
                    assert_eq!(known.1, part.packets);
                }
                true
            };
            for (bytes, packets) in steps {
                stream.queue(bytes);
                queued += u64::from(bytes);
                for _ in 0..packets {
                    send(&mut stream);
                }
            }
            while send(&mut stream) {}
            prop_assert_eq!(sent, queued);
            prop_assert_eq!(complete + parts.len() as u32, count);
            for (here, packets) in parts.into_values() {
                prop_assert_eq!(here, packets);
                prop_assert!(packets > 1);
            }
        }

        /// A packet begins with the message that has the fewest bytes left, one that has begun
        /// before a new one of the same length.
        #[test]
        fn next_packet__begins_with_the_least_remaining(
            steps in proptest::collection::vec((1u32..6_000, 0u32..5), 1..60),
        ) {
            let mut stream = Segmenter::new(SEGMENT_BYTES_MAX, Order::ShortestFirst);
            for (bytes, packets) in steps {
                stream.queue(bytes);
                for _ in 0..packets {
                    let begun = stream.begun.iter().map(|Reverse((_, begun))| begun.bytes).min();
                    let new = stream.unsent.rank();
                    let Some((contents, _)) = stream.next_packet() else { break };
                    let continues = begun.is_some_and(|begun| new.is_none_or(|new| begun <= new));
                    prop_assert_eq!(contents.parts[0].is_some(), continues);
                }
            }
        }

        /// Packets arrive in any order, with duplicates. A message counts once, when the last of
        /// its packets is received.
        #[test]
        fn take__counts_a_message_once(
            messages in proptest::collection::vec(1u32..6_000, 1..40),
            order in proptest::collection::vec(0usize..1_000, 0..300),
        ) {
            let mut stream = Segmenter::new(SEGMENT_BYTES_MAX, Order::Arrival);
            messages.iter().for_each(|bytes| stream.queue(*bytes));
            let packets = std::iter::from_fn(|| stream.next_packet());
            let packets: Vec<PacketContents> = packets.map(|packet| packet.0).collect();
            // The packets of each message, from the positions of its bytes.
            let mut end = 0;
            let spans: Vec<_> = messages
                .iter()
                .map(|bytes| {
                    let first = end / SEGMENT_BYTES_MAX;
                    end += bytes;
                    first..=(end - 1) / SEGMENT_BYTES_MAX
                })
                .collect();
            let mut reassembly = Reassembly::default();
            let (mut here, mut complete) = (BTreeSet::new(), 0);
            let rest = 0..packets.len();
            for index in order.into_iter().chain(rest) {
                let contents = packets[index % packets.len()];
                complete += reassembly.take(&contents);
                here.insert(contents.number);
                prop_assert!(reassembly.has(contents.number));
                prop_assert!(!here.contains(&reassembly.floor()));
                let expected = spans.iter().filter(|span| {
                    (**span).clone().all(|number| here.contains(&number))
                });
                prop_assert_eq!(complete as usize, expected.count());
            }
            prop_assert_eq!(complete as usize, messages.len());
        }
    }
}
