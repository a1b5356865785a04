//! Accounts for the data bytes that a job's sender spends: useful or wasted.
//!
//! The definition is the same for all schemes. It counts the bytes on the wire of packets that
//! carry data ([`PacketBody::piece`](crate::scheme::PacketBody::piece)) as they leave their host.
//! Control packets do not count. Each data packet has exactly one end, the first in this list that
//! applies:
//!
//! 1. *dropped* by a switch, or trimmed to its header. *Dropped upstream* counts the dropped
//!    packets that had used a link between switches before, and so delayed other packets.
//! 2. *late*: it arrived after the job was complete.
//! 3. *repeated*: its data had arrived before.
//! 4. *unfinished*: it arrived in time, but its message was incomplete when the job completed. In a
//!    stream, this is the data beyond the last message to which the stream has no gap.
//! 5. *useful*: it belongs to a message that counted. One such message in the packet is enough.
//!
//! At any time, the bytes sent are the sum of the useful bytes, the wasted bytes (ends 1 to 4) and
//! the bytes in flight.

mod received;

use crate::scheme::Piece;
use received::{ReceivedMessages, ReceivedSegments, ReceivedStream};
use serde::{Deserialize, Serialize};

/// The use of the bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Bytes that left their hosts.
    pub sent_bytes: u64,
    /// Bytes of messages that counted.
    pub useful_bytes: u64,
    /// Bytes that switches dropped.
    pub dropped_bytes: u64,
    /// Dropped bytes that had used a link between switches before.
    pub dropped_upstream_bytes: u64,
    /// Bytes that arrived after the job was complete.
    pub late_bytes: u64,
    /// Bytes that had arrived before.
    pub repeated_bytes: u64,
    /// Bytes of messages that were not complete when the job was.
    pub unfinished_bytes: u64,
}

impl Spent {
    /// Bytes that were not useful.
    pub const fn wasted_bytes(&self) -> u64 {
        self.dropped_bytes + self.late_bytes + self.repeated_bytes + self.unfinished_bytes
    }

    /// Bytes in flight.
    #[cfg(test)]
    const fn in_flight_bytes(&self) -> u64 {
        self.sent_bytes - self.useful_bytes - self.wasted_bytes()
    }

    /// The wasted share of the bytes sent; 0 if nothing was sent.
    pub fn wasted_share(&self) -> f64 {
        self.share(self.wasted_bytes())
    }

    /// The share of the bytes sent that were dropped after a link between switches; 0 if nothing
    /// was sent.
    pub fn dropped_upstream_share(&self) -> f64 {
        self.share(self.dropped_upstream_bytes)
    }

    fn share(&self, bytes: u64) -> f64 {
        if self.sent_bytes == 0 { 0.0 } else { bytes as f64 / self.sent_bytes as f64 }
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.sent_bytes += other.sent_bytes;
        self.useful_bytes += other.useful_bytes;
        self.dropped_bytes += other.dropped_bytes;
        self.dropped_upstream_bytes += other.dropped_upstream_bytes;
        self.late_bytes += other.late_bytes;
        self.repeated_bytes += other.repeated_bytes;
        self.unfinished_bytes += other.unfinished_bytes;
    }
}

impl std::iter::Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, spent| {
            sum += spent;
            sum
        })
    }
}

/// The account of one flow.
#[derive(Debug, Default)]
pub struct Account {
    spent: Spent,
    /// Bytes of incomplete messages.
    pending_bytes: u64,
    messages: ReceivedMessages,
    stream: ReceivedStream,
    segments: ReceivedSegments,
    is_done: bool,
}

impl Account {
    /// Records that a data packet left its host.
    pub fn send(&mut self, wire_bytes: u32) {
        self.spent.sent_bytes += u64::from(wire_bytes);
    }

    /// Records that a packet was dropped by the `switch`-th switch of its path, counted from 1.
    pub fn drop_at(&mut self, wire_bytes: u32, switch: u8) {
        self.spent.dropped_bytes += u64::from(wire_bytes);
        if switch > 1 {
            self.spent.dropped_upstream_bytes += u64::from(wire_bytes);
        }
    }

    /// Records that a packet arrived. Returns whether it brought new data in time.
    pub fn arrive(&mut self, piece: Piece<'_>, wire_bytes: u32) -> bool {
        let bytes = u64::from(wire_bytes);
        if self.is_done {
            self.spent.late_bytes += bytes;
            return false;
        }
        let completed_bytes = match piece {
            Piece::Message { message, part, parts } => {
                self.messages.take(message, part, parts, bytes)
            }
            // One new message is enough, because the packet carried it.
            Piece::Messages(members) => {
                let messages = &mut self.messages;
                let is_new =
                    members.iter().filter(|member| messages.take(member.0, 0, 1, 0).is_some());
                (is_new.count() > 0).then_some(bytes)
            }
            Piece::Stream { begin, end, messages } => self.stream.take(begin, end, messages, bytes),
            Piece::Contents(contents) => self.segments.take(contents, bytes),
        };
        match completed_bytes {
            Some(completed_bytes) => {
                self.pending_bytes = self.pending_bytes + bytes - completed_bytes;
                self.spent.useful_bytes += completed_bytes;
            }
            None => self.spent.repeated_bytes += bytes,
        }
        completed_bytes.is_some()
    }

    /// Records that the job is complete.
    pub fn finish(&mut self) {
        self.is_done = true;
        (self.messages, self.stream) = (ReceivedMessages::default(), ReceivedStream::default());
        self.segments = ReceivedSegments::default();
    }

    /// The present use of bytes. Unfinished bytes may become useful until the job is complete.
    pub fn spent(&self) -> Spent {
        Spent { unfinished_bytes: self.pending_bytes, ..self.spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u32 = 100;

    fn part(message: u32, part: u32) -> Piece<'static> {
        Piece::Message { message, part, parts: 3 }
    }

    /// Pieces of ten bytes. A message ends in every second piece.
    fn stream(number: u64) -> Piece<'static> {
        Piece::Stream {
            begin: number * 10,
            end: number * 10 + 10,
            messages: (number as u32).div_ceil(2),
        }
    }

    #[test]
    fn account__a_complete_message_is_useful() {
        let mut account = Account::default();
        for piece in [part(0, 0), part(1, 0), part(0, 2), part(0, 1), part(0, 1), part(1, 0)] {
            account.send(BYTES);
            account.arrive(piece, BYTES);
        }
        account.finish();
        account.send(BYTES);
        account.arrive(part(1, 1), BYTES);
        for switch in [1, 2] {
            account.send(BYTES);
            account.drop_at(BYTES, switch);
        }
        let expected = Spent {
            sent_bytes: 900,
            useful_bytes: 300,
            dropped_bytes: 200,
            dropped_upstream_bytes: 100,
            late_bytes: 100,
            repeated_bytes: 200,
            unfinished_bytes: 100,
        };
        assert_eq!(account.spent(), expected);
        assert_eq!(expected.in_flight_bytes(), 0);
    }

    #[test]
    fn account__a_packet_of_whole_messages_is_useful_if_one_is_new() {
        let mut account = Account::default();
        for members in [&[(0, 9), (1, 9)][..], &[(1, 9), (2, 0)], &[(2, 0), (0, 9)]] {
            account.send(BYTES);
            account.arrive(Piece::Messages(members), BYTES);
        }
        let spent = account.spent();
        assert_eq!((spent.useful_bytes, spent.repeated_bytes), (200, 100));
        assert_eq!((spent.unfinished_bytes, spent.in_flight_bytes()), (0, 0));
    }

    #[test]
    fn account__data_beyond_a_gap_of_a_stream_is_unfinished() {
        let mut account = Account::default();
        // Messages end in pieces 1, 3 and 5. Piece 4 is missing.
        for number in [0, 1, 2, 3, 5, 5, 0] {
            account.send(BYTES);
            account.arrive(stream(number), BYTES);
        }
        let spent = account.spent();
        assert_eq!(
            (spent.useful_bytes, spent.unfinished_bytes, spent.repeated_bytes),
            (400, 100, 200)
        );
        account.send(BYTES);
        account.arrive(stream(4), BYTES);
        assert_eq!(account.spent().useful_bytes, 600);
    }

    #[test]
    fn account__a_packet_is_useful_with_its_first_complete_message() {
        use crate::scheme::{MessagePart, PacketContents};
        // Messages 0 and 2 have one packet each. Message 1 begins in the packet of 0 and ends in
        // that of 2.
        let part = |message, packets| Some(MessagePart { message, packets });
        let contents =
            |number, complete, parts| Piece::Contents(PacketContents { number, complete, parts });
        let mut account = Account::default();
        let mut useful = |piece| {
            account.send(BYTES);
            account.arrive(piece, BYTES);
            account.spent().useful_bytes
        };
        assert_eq!(useful(contents(1, 0, [part(1, 3), None])), 0);
        assert_eq!(useful(contents(0, 1, [None, part(1, 3)])), 100);
        assert_eq!(useful(contents(0, 1, [None, part(1, 3)])), 100);
        assert_eq!(useful(contents(2, 1, [part(1, 3), part(3, 2)])), 300);
        assert_eq!(useful(contents(4, 0, [part(4, 2), None])), 300);
        assert_eq!(useful(contents(3, 0, [part(3, 2), part(4, 2)])), 500);
        let spent = account.spent();
        assert_eq!((spent.repeated_bytes, spent.unfinished_bytes), (100, 0));
    }

    proptest! {
        /// In any order of packets, bytes sent are useful, wasted or in flight. The useful bytes
        /// are exactly those of complete messages.
        #[test]
        fn account__balances(
            packets in proptest::collection::vec((0u32..6, 0u32..3, 0u8..4), 0..120),
            done_after in 0usize..120,
        ) {
            let mut account = Account::default();
            let mut here = [[false; 3]; 6];
            for (at, (message, number, end)) in packets.into_iter().enumerate() {
                if at == done_after {
                    account.finish();
                }
                account.send(BYTES);
                let in_flight_bytes = match end {
                    0 => BYTES,
                    1 => {
                        account.drop_at(BYTES, 1);
                        0
                    }
                    _ => {
                        account.arrive(part(message, number), BYTES);
                        here[message as usize][number as usize] |= at < done_after;
                        0
                    }
                };
                let spent = account.spent();
                prop_assert!(spent.in_flight_bytes() >= u64::from(in_flight_bytes));
                let complete = here.iter().filter(|parts| parts.iter().all(|here| *here)).count();
                prop_assert_eq!(spent.useful_bytes, complete as u64 * 300);
            }
        }
    }
}
