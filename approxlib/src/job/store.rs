//! The data of messages that are not released yet, by id.

use super::data::Data;
use atp_proto::MessageId;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Where messages stay until the transport needs them no more.
#[derive(Default)]
pub struct Store(HashMap<u64, Data, BuildHasherDefault<IdHasher>>);

impl Store {
    pub fn insert(&mut self, id: MessageId, data: Data) {
        self.0.insert(key(id), data);
    }

    /// Removes a message and returns its data.
    pub fn remove(&mut self, id: MessageId) -> Data {
        self.0.remove(&key(id)).unwrap_or_default()
    }

    /// A part of a message. Empty if there is no such part, which would be the transport's mistake.
    pub fn part(&self, id: MessageId, offset: u32, len: u32) -> &[u8] {
        let range = offset as usize..offset as usize + len as usize;
        self.0.get(&key(id)).and_then(|data| data.get(range)).unwrap_or_default()
    }
}

fn key(id: MessageId) -> u64 {
    u64::from(id.group) << 32 | u64::from(id.id)
}

/// Ids are counted by ourselves, from 0: they need no defence against collisions, only a spread
/// over the upper bits, which the table looks at first (Fibonacci hashing).
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part__of_what_was_inserted_until_removed() {
        let mut store = Store::default();
        let message = |id| MessageId { group: 3, id };
        for id in 0..1000 {
            store.insert(message(id), Data::Own(vec![id as u8; 10].into()));
        }
        store.insert(MessageId { group: 4, id: 700 }, Data::default());
        assert_eq!(store.part(message(700), 8, 2), [188, 188]);
        assert_eq!(store.part(message(700), 8, 3), [0u8; 0]);
        assert_eq!(store.remove(message(700)).len(), 10);
        assert_eq!(store.part(message(700), 0, 1), [0u8; 0]);
    }
}
