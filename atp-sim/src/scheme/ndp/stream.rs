//! Messages one after the other, cut into packets.

use super::SEGMENT_BYTES_MAX;
use crate::net::{NdpData, NdpPart};
use std::collections::VecDeque;

/// What was not sent yet.
#[derive(Debug, Default)]
pub struct Stream {
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

impl Stream {
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
    pub fn cut(&mut self) -> Option<(NdpData, u32)> {
        let mut room = SEGMENT_BYTES_MAX;
        let mut data = NdpData { number: self.packets, ..NdpData::default() };
        while room > 0
            && let Some(first) = self.messages.front_mut()
        {
            let bytes = first.bytes.min(room);
            room -= bytes;
            first.bytes -= bytes;
            let is_new = first.packets.is_none();
            if is_new && first.bytes == 0 {
                data.whole += 1;
            } else {
                // The packets that follow begin with it, so it fills all of them but the last.
                let packets =
                    *first.packets.get_or_insert(1 + first.bytes.div_ceil(SEGMENT_BYTES_MAX));
                let part = NdpPart { message: first.message, packets };
                data.parts[usize::from(is_new)] = Some(part);
            }
            if first.bytes == 0 {
                self.messages.pop_front();
            }
        }
        if room == SEGMENT_BYTES_MAX {
            return None;
        }
        self.packets += 1;
        Some((data, SEGMENT_BYTES_MAX - room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Whenever it is cut: all bytes are sent once, only the last packet before a pause isn't full, and
        /// what packets say of messages adds up.
        #[test]
        fn cut__says_what_is_in_each_packet(
            steps in proptest::collection::vec((1u32..6_000, 0u32..5), 1..60),
        ) {
            let mut stream = Stream::default();
            let (mut queued, mut sent) = (0, 0);
            let mut parts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            let mut whole = 0;
            let count = steps.len() as u32;
            let mut cut = |stream: &mut Stream| {
                let Some((data, bytes)) = stream.cut() else { return false };
                assert!(bytes == SEGMENT_BYTES_MAX || stream.is_empty());
                assert_eq!(data.number + 1, stream.packets());
                sent += u64::from(bytes);
                whole += data.whole;
                for part in data.parts.into_iter().flatten() {
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
    }
}
