//! Holds the data of messages that are not released yet, by id.

use crate::job::data::{Data, MessageCopy};
use atp_proto::MessageId;
use slab::Slab;
use std::collections::VecDeque;

/// No message.
const NONE: u32 = u32::MAX;

/// Messages that the transport may still send.
#[derive(Default)]
pub struct Store {
    data: Slab<Data>,
    /// By group, for even and for odd windows: two windows at most have messages.
    groups: [Vec<Ids>; 2],
}

/// The ids of one group's messages. Most lie close together, in the order of their first packets:
/// neighbors share a cache line, which a hash table would spread over the memory.
#[derive(Default)]
struct Ids {
    /// The position of message `base + i` in [`Store::data`]; [`NONE`] once it is removed.
    positions: VecDeque<u32>,
    base: u32,
}

impl Store {
    /// Inserts a message with its group's next id. In a new window ids count from 0 again.
    pub fn insert(&mut self, id: MessageId, data: Data) {
        let (group, groups) = (usize::from(id.group), &mut self.groups[parity(id)]);
        if groups.len() <= group {
            groups.resize_with(group + 1, Ids::default);
        }
        let ids = &mut groups[group];
        if ids.positions.is_empty() {
            ids.base = id.id;
        }
        debug_assert_eq!(id.id, ids.base + ids.positions.len() as u32);
        ids.positions.push_back(self.data.insert(data) as u32);
    }

    /// Removes a message and returns its data.
    pub fn remove(&mut self, id: MessageId) -> Data {
        let Some(position) = self.position(id) else { return Data::default() };
        let ids = &mut self.groups[parity(id)][usize::from(id.group)];
        ids.positions[(id.id - ids.base) as usize] = NONE;
        while ids.positions.front() == Some(&NONE) {
            ids.positions.pop_front();
            ids.base += 1;
        }
        self.data.remove(position)
    }

    /// The job's copy of a message; `None` if the application shares its memory instead.
    pub fn copy_mut(&mut self, id: MessageId) -> Option<&mut MessageCopy> {
        let position = self.position(id)?;
        match &mut self.data[position] {
            Data::Copied(copy) => Some(copy),
            Data::Shared(_) | Data::Owned(_) => None,
        }
    }

    /// A message. Empty if there is none, which would be a bug of the transport.
    pub fn get(&self, id: MessageId) -> Message<'_> {
        match self.position(id).map(|position| &self.data[position]) {
            Some(Data::Copied(copy)) => Message { bytes: copy, packet: Some(copy.packet()) },
            Some(Data::Shared(bytes)) => Message { bytes, packet: None },
            Some(Data::Owned(message)) => Message { bytes: message.bytes(), packet: None },
            None => Message { bytes: &[], packet: None },
        }
    }

    fn position(&self, id: MessageId) -> Option<usize> {
        let ids = self.groups[parity(id)].get(usize::from(id.group))?;
        let at = id.id.checked_sub(ids.base)?;
        let position = *ids.positions.get(at as usize)?;
        (position != NONE).then_some(position as usize)
    }
}

fn parity(id: MessageId) -> usize {
    (id.window % 2) as usize
}

/// A message in memory.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub bytes: &'a [u8],
    /// The bytes with room for a header in front; `None` if the memory is shared.
    pub packet: Option<&'a [u8]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn get__what_was_inserted_until_removed() {
        let mut store = Store::default();
        let message = |id| MessageId { window: 0, group: 3, id };
        for id in 0..1000 {
            store.insert(message(id), Data::Copied(MessageCopy::copy(&[id as u8; 10], None)));
        }
        store.insert(MessageId { window: 0, group: 4, id: 0 }, Data::default());
        assert_eq!(store.get(message(700)).bytes, [188; 10]);
        store.copy_mut(message(700)).unwrap().write_header(&[1; 32]);
        assert_eq!(
            store.get(message(700)).packet.unwrap(),
            [[1; 32].as_slice(), &[188; 10]].concat()
        );
        assert_eq!(store.remove(message(700)).len(), 10);
        assert_eq!(store.get(message(700)).bytes, [0u8; 0]);
        assert_eq!(store.remove(message(700)).len(), 0);
    }

    #[test]
    fn remove__in_any_order_and_then_the_next_window() {
        let mut store = Store::default();
        for window in 0..3u8 {
            let message = |id| MessageId { window: window.into(), group: 0, id };
            for id in 0..100 {
                store.insert(
                    message(id),
                    Data::Copied(MessageCopy::copy(&[window, id as u8], None)),
                );
            }
            // 37 and 100 have no common divisor: each id once.
            for id in (0..100).map(|n| n * 37 % 100) {
                assert_eq!(store.get(message(id)).bytes, [window, id as u8]);
                assert_eq!(&*store.remove(message(id)), [window, id as u8]);
                assert_eq!(store.get(message(id)).bytes, [0u8; 0]);
            }
            assert!(
                store.data.is_empty()
                    && store.groups.iter().flatten().all(|ids| ids.positions.is_empty())
            );
        }
    }
}
