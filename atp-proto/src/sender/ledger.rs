//! The messages that may still have to be sent: lengths and packet states, never data.

use super::{report::MessageId, schedule::Place};
use crate::{list::NONE, packets::PacketStates};
use slab::Slab;
use std::collections::VecDeque;

/// How a message counts in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Some packet was never sent.
    Untried,
    /// Sent in full, some packet's fate is open.
    Flying,
    /// Tried in full, incomplete, nothing in flight (NetApprox §4.2: "lost").
    Lost,
    /// All of it reached the peer's host; its receipt has not come.
    Awaiting,
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
    /// Counts how often it was started over: what became of packets of an earlier round says
    /// nothing about this one.
    pub(crate) round: u8,
    /// How often it was cut anew.
    pub(crate) cut: u8,
    /// As its group counts it.
    pub(crate) standing: Standing,
    /// In the order of this round's sending; see [`Message::index_of_turn`].
    pub(crate) packets: PacketStates,
    /// While awaiting its receipt: since when, nanoseconds.
    pub(crate) whole_ns: u64,
    /// While awaiting its receipt: the first slot that was not given out when it became whole.
    pub(crate) whole_slot: u32,
}

impl Message {
    pub(crate) fn new(id: MessageId, group: u8, len_bytes: u32, payload_bytes: u32) -> Self {
        let count = len_bytes.div_ceil(payload_bytes).max(1);
        Self {
            id,
            len_bytes,
            payload_bytes,
            group,
            round: 0,
            cut: 0,
            standing: Standing::Untried,
            packets: PacketStates::new(count),
            whole_ns: 0,
            whole_slot: 0,
        }
    }

    /// Starts over with packets of `payload_bytes`: what became of earlier ones no longer counts.
    /// `tried`: it is a repetition, as far as the cut is the same.
    pub(crate) fn start_over(&mut self, payload_bytes: u32, tried: bool) {
        let count = self.len_bytes.div_ceil(payload_bytes).max(1);
        let same_cut = payload_bytes == self.payload_bytes || self.packets.count == 1 && count == 1;
        self.round = self.round.wrapping_add(1);
        self.payload_bytes = payload_bytes;
        self.cut = self.cut.wrapping_add(u8::from(!same_cut));
        self.packets = if tried && same_cut {
            PacketStates::all_lost(count)
        } else {
            PacketStates::new(count)
        };
    }

    /// Which packet of the message the `turn`-th in order of sending is.
    ///
    /// Every round begins elsewhere: a receiver that takes in only the beginning of each burst would
    /// otherwise get the same packets for ever, and the message never. Steps of the golden ratio come
    /// near every packet soon; of a message of thousands not to every one, but then one round is as
    /// long as many bursts.
    pub(crate) fn index_of_turn(&self, turn: u32) -> u32 {
        let count = u64::from(self.packets.count);
        let step = (count * 618).div_ceil(1_000);
        ((u64::from(turn) + u64::from(self.round) * step) % count) as u32
    }

    pub(crate) fn standing_now(&self) -> Standing {
        let packets = &self.packets;
        if packets.new > 0 {
            Standing::Untried
        } else if packets.acked == packets.count {
            Standing::Awaiting
        } else if packets.in_flight() > 0 {
            Standing::Flying
        } else {
            Standing::Lost
        }
    }

    pub(crate) fn place(&self) -> Option<Place> {
        let packets = &self.packets;
        packets.has_pending().then(|| Place {
            id: self.id.id,
            remaining: packets.remaining(),
            fresh: packets.new > 0,
            started: packets.new < packets.count,
            single: packets.count == 1,
        })
    }
}

/// All messages without a receipt, by group and id.
#[derive(Debug)]
pub(crate) struct Ledger {
    messages: Slab<Message>,
    /// By index of the group.
    groups: Vec<Ids>,
    /// How many ids were given out, in all groups.
    ids: u32,
    /// Their lengths together.
    pub(crate) bytes: u64,
    released: VecDeque<MessageId>,
}

/// The ids of one group.
#[derive(Debug, Default)]
struct Ids {
    /// Where in the slab message `base + i` is; [`NONE`] once it has left.
    keys: VecDeque<u32>,
    base: u32,
}

impl Ledger {
    pub(crate) fn new(groups: usize) -> Self {
        let groups = (0..groups).map(|_| Ids::default()).collect();
        Self { messages: Slab::new(), groups, ids: 0, bytes: 0, released: VecDeque::new() }
    }

    /// How many ids were given out.
    pub(crate) fn ids(&self) -> u32 {
        self.ids
    }

    pub(crate) fn len(&self) -> u32 {
        self.messages.len() as u32
    }

    /// Takes in the message of its group's next id and returns its key.
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

    /// Takes a message out; its id can be handed to the caller.
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

    /// Takes all messages out, group by group in order of their ids.
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

    /// Ids are counted from 0 again. All messages were released before.
    pub(crate) fn begin_window(&mut self) {
        debug_assert!(self.messages.is_empty());
        self.groups.fill_with(Ids::default);
        self.ids = 0;
    }

    pub(crate) fn drain_released(&mut self) -> impl Iterator<Item = MessageId> + '_ {
        self.released.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: u32) -> MessageId {
        MessageId { group: 9, id }
    }

    #[test]
    fn index_of_turn__is_every_packet_once_and_first_some_round() {
        for count in [1, 2, 3, 8, 13, 100, 618, 1_000] {
            let mut message = Message::new(id(0), 0, count, 1);
            let mut first = vec![false; count as usize];
            for round in 0..=255 {
                message.round = round;
                let mut seen = vec![false; count as usize];
                (0..count).for_each(|turn| seen[message.index_of_turn(turn) as usize] = true);
                assert_eq!(seen, vec![true; count as usize], "{count} packets, round {round}");
                // As much as a receiver that can hardly keep up takes of a burst.
                (0..8).for_each(|turn| first[message.index_of_turn(turn % count) as usize] = true);
            }
            assert_eq!(first, vec![true; count as usize], "{count} packets");
        }
    }

    #[test]
    fn release__gives_each_id_once_and_forgets_it() {
        let mut ledger = Ledger::new(2);
        ledger.insert(Message::new(MessageId { group: 0, id: 0 }, 1, 7, 40));
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
