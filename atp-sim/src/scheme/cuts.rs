//! Messages one after the other, cut into packets, and put together again in whatever order these come.

use crate::net::{Cut, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What was not sent yet.
#[derive(Debug)]
pub struct Cutter {
    packet_bytes_max: u32,
    messages: VecDeque<Rest>,
    queued: u32,
    packets: u32,
}

/// What is left of a message.
#[derive(Debug)]
struct Rest {
    message: u32,
    bytes: u32,
    /// In how many packets it is, if some of it has left.
    packets: Option<u32>,
}

impl Cutter {
    /// Nothing to send, in packets that have room for so many bytes of messages.
    pub const fn new(packet_bytes_max: u32) -> Self {
        Self { packet_bytes_max, messages: VecDeque::new(), queued: 0, packets: 0 }
    }

    /// One more message.
    pub fn queue(&mut self, bytes: u32) {
        self.messages.push_back(Rest { message: self.queued, bytes: bytes.max(1), packets: None });
        self.queued += 1;
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How many packets were cut.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Nothing of what is left is to be sent.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// The next packet, as full as can be, and how many bytes of messages are in it; `None` if nothing is
    /// left.
    pub fn cut(&mut self) -> Option<(Cut, u32)> {
        let mut room = self.packet_bytes_max;
        let mut cut = Cut { number: self.packets, ..Cut::default() };
        while room > 0
            && let Some(first) = self.messages.front_mut()
        {
            let bytes = first.bytes.min(room);
            room -= bytes;
            first.bytes -= bytes;
            let is_new = first.packets.is_none();
            if is_new && first.bytes == 0 {
                cut.whole += 1;
            } else {
                // The packets that follow begin with it, so it fills all of them but the last.
                let packets =
                    *first.packets.get_or_insert(1 + first.bytes.div_ceil(self.packet_bytes_max));
                let part = Part { message: first.message, packets };
                cut.parts[usize::from(is_new)] = Some(part);
            }
            if first.bytes == 0 {
                self.messages.pop_front();
            }
        }
        if room == self.packet_bytes_max {
            return None;
        }
        self.packets += 1;
        Some((cut, self.packet_bytes_max - room))
    }
}

/// What is here of a stream.
#[derive(Debug, Default)]
pub struct Assembly {
    /// All packets below are here.
    floor: u32,
    /// What is here beyond.
    beyond: BTreeSet<u32>,
    /// Of messages in several packets: how many of them are here.
    incomplete: BTreeMap<u32, u32>,
}

impl Assembly {
    /// All packets below are here, and this one isn't.
    pub const fn floor(&self) -> u32 {
        self.floor
    }

    /// Whether a packet is here.
    pub fn has(&self, number: u32) -> bool {
        number < self.floor || self.beyond.contains(&number)
    }

    /// A packet came: how many messages are complete with it and weren't before.
    pub fn take(&mut self, cut: &Cut) -> u32 {
        if cut.number < self.floor || !self.beyond.insert(cut.number) {
            return 0;
        }
        while self.beyond.remove(&self.floor) {
            self.floor += 1;
        }
        let mut complete = cut.whole;
        for part in cut.parts.into_iter().flatten() {
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
        /// Whenever it is cut: all bytes are sent once, only the last packet before a pause isn't full, and
        /// what packets say of messages adds up.
        #[test]
        fn cut__says_what_is_in_each_packet(
            steps in proptest::collection::vec((1u32..6_000, 0u32..5), 1..60),
        ) {
            let mut stream = Cutter::new(SEGMENT_BYTES_MAX);
            let (mut queued, mut sent) = (0, 0);
            let mut parts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut whole = 0;
            let count = steps.len() as u32;
            let mut cut = |stream: &mut Cutter| {
                let Some((packet, bytes)) = stream.cut() else { return false };
                assert!(bytes == SEGMENT_BYTES_MAX || stream.is_empty());
                assert_eq!(packet.number + 1, stream.packets());
                sent += u64::from(bytes);
                whole += packet.whole;
                for part in packet.parts.into_iter().flatten() {
                    let known = parts.entry(part.message).or_insert((0, part.packets));
                    known.0 += 1;
                    assert_eq!(known.1, part.packets);
                }
                true
            };
            for (bytes, cuts) in steps {
                stream.queue(bytes);
                queued += u64::from(bytes);
                for _ in 0..cuts {
                    cut(&mut stream);
                }
            }
            while cut(&mut stream) {}
            prop_assert_eq!(sent, queued);
            prop_assert_eq!(whole + parts.len() as u32, count);
            for (here, packets) in parts.into_values() {
                prop_assert_eq!(here, packets);
                prop_assert!(packets > 1);
            }
        }

        /// In whatever order packets come, and some of them again: a message counts once, when the last of its
        /// packets is here.
        #[test]
        fn take__counts_a_message_once(
            messages in proptest::collection::vec(1u32..6_000, 1..40),
            order in proptest::collection::vec(0usize..1_000, 0..300),
        ) {
            let mut stream = Cutter::new(SEGMENT_BYTES_MAX);
            messages.iter().for_each(|bytes| stream.queue(*bytes));
            let packets: Vec<Cut> = std::iter::from_fn(|| stream.cut()).map(|cut| cut.0).collect();
            // Which packets a message is in, by where its bytes are.
            let mut end = 0;
            let spans: Vec<_> = messages
                .iter()
                .map(|bytes| {
                    let first = end / SEGMENT_BYTES_MAX;
                    end += bytes;
                    first..=(end - 1) / SEGMENT_BYTES_MAX
                })
                .collect();
            let mut assembly = Assembly::default();
            let (mut here, mut complete) = (BTreeSet::new(), 0);
            let rest = 0..packets.len();
            for place in order.into_iter().chain(rest) {
                let cut = packets[place % packets.len()];
                complete += assembly.take(&cut);
                here.insert(cut.number);
                prop_assert!(assembly.has(cut.number) && !here.contains(&assembly.floor()));
                let expected = spans.iter().filter(|span| {
                    (**span).clone().all(|number| here.contains(&number))
                });
                prop_assert_eq!(complete as usize, expected.count());
            }
            prop_assert_eq!(complete as usize, messages.len());
        }
    }
}
