//! Segmentation of consecutive messages into packets, and reassembly in any order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Divides unsent messages into packets.
#[derive(Debug)]
pub struct Segmenter {
    packet_bytes_max: u32,
    messages: VecDeque<Remainder>,
    queued: u32,
    packets: u32,
}

/// The unsent part of a message.
#[derive(Debug)]
struct Remainder {
    message: u32,
    bytes: u32,
    /// Number of packets that the message spans, once its first part was sent.
    packets: Option<u32>,
}

impl Segmenter {
    /// Makes an empty segmenter for packets of at most `packet_bytes_max` bytes of messages.
    pub const fn new(packet_bytes_max: u32) -> Self {
        Self { packet_bytes_max, messages: VecDeque::new(), queued: 0, packets: 0 }
    }

    /// Appends a message.
    pub fn queue(&mut self, bytes: u32) {
        self.messages.push_back(Remainder {
            message: self.queued,
            bytes: bytes.max(1),
            packets: None,
        });
        self.queued += 1;
    }

    /// Whether no message is left.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Number of packets made so far.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Drops the messages that are left.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// The next packet, as full as possible, and its bytes of messages. `None` if nothing is left.
    pub fn next_packet(&mut self) -> Option<(PacketContents, u32)> {
        let mut room = self.packet_bytes_max;
        let mut contents = PacketContents { number: self.packets, ..PacketContents::default() };
        while room > 0
            && let Some(first) = self.messages.front_mut()
        {
            let bytes = first.bytes.min(room);
            room -= bytes;
            first.bytes -= bytes;
            let is_new = first.packets.is_none();
            if is_new && first.bytes == 0 {
                contents.complete += 1;
            } else {
                // The following packets begin with this message, so it fills all of them except the
                // last one.
                let packets =
                    *first.packets.get_or_insert(1 + first.bytes.div_ceil(self.packet_bytes_max));
                let part = MessagePart { message: first.message, packets };
                contents.parts[usize::from(is_new)] = Some(part);
            }
            if first.bytes == 0 {
                self.messages.pop_front();
            }
        }
        if room == self.packet_bytes_max {
            return None;
        }
        self.packets += 1;
        Some((contents, self.packet_bytes_max - room))
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

    proptest! {
        /// All bytes are sent once, only the last packet before a pause isn't full, and the
        /// packets' counts of messages add up.
        #[test]
        fn next_packet__describes_its_contents(
            steps in proptest::collection::vec((1u32..6_000, 0u32..5), 1..60),
        ) {
            let mut stream = Segmenter::new(SEGMENT_BYTES_MAX);
            let (mut queued, mut sent) = (0, 0);
            let mut parts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut complete = 0;
            let count = steps.len() as u32;
            let mut send = |stream: &mut Segmenter| {
                let Some((packet, bytes)) = stream.next_packet() else { return false };
                assert!(bytes == SEGMENT_BYTES_MAX || stream.is_empty());
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

        /// Packets arrive in any order, with duplicates. A message counts once, when the last of
        /// its packets is received.
        #[test]
        fn take__counts_a_message_once(
            messages in proptest::collection::vec(1u32..6_000, 1..40),
            order in proptest::collection::vec(0usize..1_000, 0..300),
        ) {
            let mut stream = Segmenter::new(SEGMENT_BYTES_MAX);
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
