//! What became of the data that a job's sender put on its line: what of it was needed, and what was not.
//!
//! Defined once, for all schemes. Counted are bytes on the wire of packets that carry data
//! ([`PacketBody::piece`](crate::scheme::PacketBody::piece)) as they leave their host; control packets are not. Each of
//! these packets comes to one of five ends, the first that is true of it:
//!
//! 1. *dropped* by a switch, or trimmed to its header; apart from that it is noted whether it had crossed a line between switches
//!    before, where it stood in others' way;
//! 2. *late*: it arrived when the job had what it needs;
//! 3. *repeated*: what it carries was there;
//! 4. *unfinished*: it arrived in time, but when the job had what it needs, the message that it belongs
//!    to wasn't complete; of a stream, what lies beyond the last complete message that all before it was
//!    there of;
//! 5. *useful*: it belongs to a message that counted. Of a packet with several, one is enough.
//!
//! So at any moment what was sent is what was useful, what was wasted (the other four) and what is under
//! way.

mod here;

use crate::scheme::Piece;
use here::{Cuts, Messages, StreamHere};
use serde::Serialize;

/// Where bytes on the wire went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// All that left their hosts.
    pub sent_bytes: u64,
    /// Of messages that counted.
    pub useful_bytes: u64,
    /// Dropped by switches.
    pub dropped_bytes: u64,
    /// Those of them that had crossed a line between switches before.
    pub dropped_upstream_bytes: u64,
    /// They came when the job had what it needs.
    pub late_bytes: u64,
    /// They came a second time.
    pub repeated_bytes: u64,
    /// Of messages that weren't complete when the job had what it needs.
    pub unfinished_bytes: u64,
}

impl Spent {
    /// What came to an end and wasn't useful.
    pub const fn wasted_bytes(&self) -> u64 {
        self.dropped_bytes + self.late_bytes + self.repeated_bytes + self.unfinished_bytes
    }

    /// What is under way.
    pub const fn under_way_bytes(&self) -> u64 {
        self.sent_bytes - self.useful_bytes - self.wasted_bytes()
    }

    /// The share of what was sent that was wasted; 0 of nothing.
    pub fn wasted_share(&self) -> f64 {
        self.share(self.wasted_bytes())
    }

    /// The share of what was sent that was dropped behind a line between switches; 0 of nothing.
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

/// The books of one flow.
#[derive(Debug, Default)]
pub struct Account {
    spent: Spent,
    /// Of messages that aren't complete.
    pending_bytes: u64,
    messages: Messages,
    stream: StreamHere,
    cuts: Cuts,
    is_done: bool,
}

impl Account {
    /// A packet of data left its host.
    pub fn send(&mut self, wire_bytes: u32) {
        self.spent.sent_bytes += u64::from(wire_bytes);
    }

    /// Switch number `switch` on its way dropped it, counted from 1.
    pub fn drop_at(&mut self, wire_bytes: u32, switch: u8) {
        self.spent.dropped_bytes += u64::from(wire_bytes);
        if switch > 1 {
            self.spent.dropped_upstream_bytes += u64::from(wire_bytes);
        }
    }

    /// It arrived. Returns whether it brought something that wasn't there, in time.
    pub fn arrive(&mut self, piece: Piece, wire_bytes: u32) -> bool {
        let bytes = u64::from(wire_bytes);
        if self.is_done {
            self.spent.late_bytes += bytes;
            return false;
        }
        let completed_bytes = match piece {
            Piece::Message { message, part, parts } => {
                self.messages.take(message, part, parts, bytes)
            }
            Piece::Stream { begin, end, messages } => self.stream.take(begin, end, messages, bytes),
            Piece::Contents(contents) => self.cuts.take(contents, bytes),
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

    /// The job has what it needs.
    pub fn finish(&mut self) {
        self.is_done = true;
        (self.messages, self.stream) = (Messages::default(), StreamHere::default());
        self.cuts = Cuts::default();
    }

    /// How they stand. What is unfinished may still become useful while the job isn't done.
    pub fn spent(&self) -> Spent {
        Spent { unfinished_bytes: self.pending_bytes, ..self.spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: u32 = 100;

    fn part(message: u32, part: u32) -> Piece {
        Piece::Message { message, part, parts: 3 }
    }

    /// Ten bytes each; a message ends in every second.
    fn stream(number: u64) -> Piece {
        Piece::Stream {
            begin: number * 10,
            end: number * 10 + 10,
            messages: (number as u32).div_ceil(2),
        }
    }

    #[test]
    fn account__a_message_is_useful_once_all_of_it_is_here() {
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
        assert_eq!(expected.under_way_bytes(), 0);
    }

    #[test]
    fn account__what_lies_beyond_a_hole_of_a_stream_is_unfinished() {
        let mut account = Account::default();
        // Messages end in 1, 3 and 5; 4 is missing.
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
    fn account__a_packet_of_several_messages_is_useful_with_the_first() {
        use crate::scheme::{MessagePart, PacketContents};
        // Messages 0 and 2 are in one packet each, 1 begins with 0 and ends with 2, 3 goes on.
        let part = |message, packets| Some(MessagePart { message, packets });
        let cut =
            |number, complete, parts| Piece::Contents(PacketContents { number, complete, parts });
        let mut account = Account::default();
        let mut useful = |piece| {
            account.send(BYTES);
            account.arrive(piece, BYTES);
            account.spent().useful_bytes
        };
        assert_eq!(useful(cut(1, 0, [part(1, 3), None])), 0);
        assert_eq!(useful(cut(0, 1, [None, part(1, 3)])), 100);
        assert_eq!(useful(cut(0, 1, [None, part(1, 3)])), 100);
        assert_eq!(useful(cut(2, 1, [part(1, 3), part(3, 2)])), 300);
        assert_eq!(useful(cut(4, 0, [part(4, 2), None])), 300);
        assert_eq!(useful(cut(3, 0, [part(3, 2), part(4, 2)])), 500);
        let spent = account.spent();
        assert_eq!((spent.repeated_bytes, spent.unfinished_bytes), (100, 0));
    }

    proptest! {
        /// Whatever comes in which order: what was sent is useful, wasted or under way, and useful is
        /// exactly what messages that are complete consist of.
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
                let under_way_bytes = match end {
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
                prop_assert!(spent.under_way_bytes() >= u64::from(under_way_bytes));
                let complete = here.iter().filter(|parts| parts.iter().all(|here| *here)).count();
                prop_assert_eq!(spent.useful_bytes, complete as u64 * 300);
            }
        }
    }
}
