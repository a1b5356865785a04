//! Messages that a sender has not begun to send, and the order in which it begins them.

use std::{cmp::Reverse, collections::BinaryHeap};

/// The order in which a sender begins its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order of the application's calls.
    #[default]
    Arrival,
    /// The shortest waiting message first, and messages of one length in the order of arrival. This
    /// is ATP's choice of messages (MRDF, NetApprox §4.1) for transports that send a stream.
    ShortestFirst,
}

impl Order {
    /// The rank of a message with `bytes` unsent bytes. The lowest rank goes first.
    pub const fn rank(self, bytes: u32) -> u32 {
        match self {
            Self::Arrival => 0,
            Self::ShortestFirst => bytes,
        }
    }
}

/// Messages that wait for their first byte to be sent.
#[derive(Debug, Default)]
pub struct Unsent {
    order: Order,
    /// (rank, number, bytes) of each message.
    messages: BinaryHeap<Reverse<(u32, u32, u32)>>,
    queued: u32,
}

/// A message that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsentMessage {
    /// The message's number in the order of arrival, from 0.
    pub number: u32,
    /// The message's length.
    pub bytes: u32,
}

impl Unsent {
    /// Makes an empty queue.
    pub fn new(order: Order) -> Self {
        Self { order, ..Self::default() }
    }

    /// Appends a message. An empty message counts as one byte.
    pub fn push(&mut self, bytes: u32) {
        let bytes = bytes.max(1);
        self.messages.push(Reverse((self.order.rank(bytes), self.queued, bytes)));
        self.queued += 1;
    }

    /// Removes the message that begins next.
    pub fn pop(&mut self) -> Option<UnsentMessage> {
        self.messages.pop().map(|Reverse((_, number, bytes))| UnsentMessage { number, bytes })
    }

    /// The rank of the message that begins next.
    pub fn rank(&self) -> Option<u32> {
        self.messages.peek().map(|Reverse((rank, ..))| *rank)
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.messages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Messages that wait together leave as a stable sort would order them.
        #[test]
        fn pop__chooses_what_a_sort_chooses(sizes in proptest::collection::vec(1u32..9, 0..60)) {
            for order in [Order::Arrival, Order::ShortestFirst] {
                let mut unsent = Unsent::new(order);
                sizes.iter().for_each(|bytes| unsent.push(*bytes));
                let mut sorted: Vec<(u32, u32)> = (0..).zip(sizes.iter().copied()).collect();
                if order == Order::ShortestFirst {
                    sorted.sort_by_key(|message| message.1);
                }
                let popped = std::iter::from_fn(|| unsent.pop());
                let popped: Vec<_> = popped.map(|message| (message.number, message.bytes)).collect();
                prop_assert_eq!(popped, sorted);
            }
        }
    }
}
