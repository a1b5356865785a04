//! Keeps all messages without a receipt: their lengths and packet states, not their data.

use super::{report::MessageId, schedule::Priority};
use crate::{list::NONE, packets::PacketStates};
use slab::Slab;
use std::collections::VecDeque;

/// The state of a message, as its group counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageState {
    /// Some packet was never sent.
    Untried,
    /// Sent in full, some packet is in flight.
    InFlight,
    /// Tried in full, incomplete, nothing in flight (NetApprox §4.2: "lost").
    Lost,
    /// All of it reached the peer's host; its receipt has not come.
    AwaitingReceipt,
}

/// A message without a receipt.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: MessageId,
    pub(crate) len_bytes: u32,
    /// Bytes of each of its packets but the last.
    pub(crate) payload_bytes: u32,
    /// Index of its group in the configuration.
    pub(crate) group: u8,
    /// The number of this attempt at sending it. Acknowledgments of earlier attempts don't count.
    pub(crate) attempt: u8,
    /// The number of this segmentation into packets.
    pub(crate) segmentation: u8,
    /// As its group counts it: see [`Message::current_state`].
    pub(crate) state: MessageState,
    /// In the attempt's order of sending; see [`Message::index_at`].
    pub(crate) packets: PacketStates,
    /// When its latest packet was acknowledged. If all of them are, it awaits its receipt since.
    pub(crate) acked_ns: u64,
    /// The next slot at that time.
    pub(crate) acked_slot: u32,
}

impl Message {
    pub(crate) fn new(id: MessageId, group: u8, len_bytes: u32, payload_bytes: u32) -> Self {
        let count = len_bytes.div_ceil(payload_bytes).max(1);
        Self {
            id,
            len_bytes,
            payload_bytes,
            group,
            attempt: 0,
            segmentation: 0,
            state: MessageState::Untried,
            packets: PacketStates::new(count),
            acked_ns: 0,
            acked_slot: 0,
        }
    }

    /// Begins a new attempt with packets of `payload_bytes`. Acknowledgments of earlier attempts no
    /// longer count. The packets are retransmissions if their segmentation stays the same.
    pub(crate) fn begin_attempt(&mut self, payload_bytes: u32) {
        let count = self.len_bytes.div_ceil(payload_bytes).max(1);
        let is_same = payload_bytes == self.payload_bytes || self.packets.count == 1 && count == 1;
        self.attempt = self.attempt.wrapping_add(1);
        self.payload_bytes = payload_bytes;
        self.segmentation = self.segmentation.wrapping_add(u8::from(!is_same));
        self.packets =
            if is_same { PacketStates::all_lost(count) } else { PacketStates::new(count) };
    }

    /// Notes that a packet was acknowledged. `next_slot`: that of the next packet.
    pub(crate) fn note_ack(&mut self, now_ns: u64, next_slot: u32) {
        (self.acked_ns, self.acked_slot) = (now_ns, next_slot);
    }

    /// The index of the packet at `position` in the attempt's order of sending.
    ///
    /// Every attempt begins at another packet. A receiver that reads only the beginning of each
    /// burst would otherwise get the same packets every time, and never the message. With steps of
    /// the golden ratio, an attempt soon begins near every packet. The steps don't reach every
    /// packet of a message of thousands, but one attempt at such a message is as long as many
    /// bursts.
    pub(crate) fn index_at(&self, position: u32) -> u32 {
        let count = u64::from(self.packets.count);
        let step = (count * 618).div_ceil(1_000);
        ((u64::from(position) + u64::from(self.attempt) * step) % count) as u32
    }

    /// The state that follows from the states of its packets.
    pub(crate) fn current_state(&self) -> MessageState {
        let packets = &self.packets;
        if packets.new > 0 {
            MessageState::Untried
        } else if packets.acked == packets.count {
            MessageState::AwaitingReceipt
        } else if packets.in_flight() > 0 {
            MessageState::InFlight
        } else {
            MessageState::Lost
        }
    }

    /// The message's priority in the schedule; `None` if it has nothing to send.
    pub(crate) fn priority(&self) -> Option<Priority> {
        let packets = &self.packets;
        packets.has_pending().then(|| Priority {
            id: self.id.id,
            remaining: packets.remaining(),
            fresh: packets.new > 0,
            started: packets.new < packets.count,
            single: packets.count == 1,
            len_bytes: self.len_bytes,
            payload_bytes: self.payload_bytes,
        })
    }
}

/// All messages without a receipt, by group and id.
#[derive(Debug)]
pub(crate) struct Ledger {
    messages: Slab<Message>,
    /// By index of the group.
    groups: Vec<Ids>,
    /// The number of ids given out, in all groups.
    ids: u32,
    /// The sum of their lengths.
    pub(crate) bytes: u64,
    released: VecDeque<MessageId>,
}

/// The ids of one group.
#[derive(Debug, Default)]
struct Ids {
    /// The key of message `base + i` in the slab; [`NONE`] once it has left.
    keys: VecDeque<u32>,
    base: u32,
}

impl Ledger {
    pub(crate) fn new(groups: usize) -> Self {
        let groups = (0..groups).map(|_| Ids::default()).collect();
        Self { messages: Slab::new(), groups, ids: 0, bytes: 0, released: VecDeque::new() }
    }

    /// The number of ids given out.
    pub(crate) fn ids(&self) -> u32 {
        self.ids
    }

    pub(crate) fn len(&self) -> u32 {
        self.messages.len() as u32
    }

    /// Inserts the message with its group's next id and returns its key.
    pub(crate) fn insert(&mut self, message: Message) -> u32 {
        let ids = &mut self.groups[usize::from(message.group)];
        debug_assert_eq!(message.id.id, ids.base + ids.keys.len() as u32);
        self.bytes += u64::from(message.len_bytes);
        self.ids += 1;
        let key = self.messages.insert(message) as u32;
        ids.keys.push_back(key);
        key
    }

    /// The key of a message of the group at index `group`.
    pub(crate) fn key(&self, group: u8, id: u32) -> Option<u32> {
        let ids = &self.groups[usize::from(group)];
        let at = id.checked_sub(ids.base)?;
        ids.keys.get(at as usize).copied().filter(|&key| key != NONE)
    }

    /// The keys of all messages.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.messages.iter().map(|(key, _)| key as u32).collect()
    }

    pub(crate) fn message(&self, key: u32) -> &Message {
        &self.messages[key as usize]
    }

    pub(crate) fn message_mut(&mut self, key: u32) -> &mut Message {
        &mut self.messages[key as usize]
    }

    /// Removes a message and makes its id ready for the caller.
    pub(crate) fn release(&mut self, key: u32) -> Message {
        let message = self.messages.remove(key as usize);
        self.bytes -= u64::from(message.len_bytes);
        let ids = &mut self.groups[usize::from(message.group)];
        ids.keys[(message.id.id - ids.base) as usize] = NONE;
        while ids.keys.front() == Some(&NONE) {
            ids.keys.pop_front();
            ids.base += 1;
        }
        self.released.push_back(message.id);
        message
    }

    /// Removes all messages, group by group in order of their ids.
    pub(crate) fn release_all(&mut self) {
        for ids in &mut self.groups {
            let keys = std::mem::take(&mut ids.keys);
            ids.base += keys.len() as u32;
            for key in keys.into_iter().filter(|&key| key != NONE) {
                self.released.push_back(self.messages[key as usize].id);
            }
        }
        self.messages.clear();
        self.bytes = 0;
    }

    /// Takes over the released ids of another window.
    pub(crate) fn take_released(&mut self, of: &mut Self) {
        self.released.append(&mut of.released);
    }

    pub(crate) fn drain_released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.released.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: u32) -> MessageId {
        MessageId { window: 0, group: 9, id }
    }

    #[test]
    fn index_at__covers_every_packet_once_and_at_the_front_in_some_attempt() {
        for count in [1, 2, 3, 8, 13, 100, 618, 1_000] {
            let mut message = Message::new(id(0), 0, count, 1);
            let mut first = vec![false; count as usize];
            for attempt in 0..=255 {
                message.attempt = attempt;
                let mut seen = vec![false; count as usize];
                (0..count).for_each(|position| seen[message.index_at(position) as usize] = true);
                assert_eq!(seen, vec![true; count as usize], "{count} packets, attempt {attempt}");
                // The beginning of a burst, as an overloaded receiver reads it.
                (0..8)
                    .for_each(|position| first[message.index_at(position % count) as usize] = true);
            }
            assert_eq!(first, vec![true; count as usize], "{count} packets");
        }
    }

    #[test]
    fn release__gives_each_id_once_and_forgets_it() {
        let mut ledger = Ledger::new(2);
        ledger.insert(Message::new(MessageId { window: 0, group: 0, id: 0 }, 1, 7, 40));
        let keys: Vec<_> = (0..5).map(|n| ledger.insert(Message::new(id(n), 0, 100, 40))).collect();
        assert_eq!((ledger.ids(), ledger.len(), ledger.bytes), (6, 6, 507));
        ledger.release(keys[3]);
        ledger.release(keys[0]);
        assert_eq!(ledger.key(0, 0), None);
        assert_eq!(ledger.key(0, 3), None);
        assert_eq!(ledger.key(0, 4), Some(keys[4]));
        assert_eq!(ledger.key(0, 5), None);
        ledger.release_all();
        let released: Vec<_> = ledger.drain_released().map(|id| (id.group, id.id)).collect();
        assert_eq!(released, [(9, 3), (9, 0), (9, 1), (9, 2), (9, 4), (0, 0)]);
        assert_eq!((ledger.ids(), ledger.len(), ledger.bytes), (6, 0, 0));
    }

    #[test]
    fn message__has_a_packet_even_if_empty() {
        assert_eq!(Message::new(id(0), 0, 0, 40).packets.count, 1);
        assert_eq!(Message::new(id(0), 0, 80, 40).packets.count, 2);
        assert_eq!(Message::new(id(0), 0, 81, 40).packets.count, 3);
    }
}
