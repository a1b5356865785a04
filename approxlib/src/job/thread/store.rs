//! Holds the data of messages that are not released yet, by id.

use crate::job::data::{Data, MessageCopy};
use atp_proto::MessageId;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Messages that the transport may still send.
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

    /// The job's copy of a message; `None` if the application shares its memory instead.
    pub fn copy_mut(&mut self, id: MessageId) -> Option<&mut MessageCopy> {
        match self.0.get_mut(&key(id))? {
            Data::Copied(copy) => Some(copy),
            Data::Shared(_) => None,
        }
    }

    /// A message. Empty if there is none, which would be a bug of the transport.
    pub fn get(&self, id: MessageId) -> Message<'_> {
        match self.0.get(&key(id)) {
            Some(Data::Copied(copy)) => Message { bytes: copy, packet: Some(copy.packet()) },
            Some(Data::Shared(bytes)) => Message { bytes, packet: None },
            None => Message { bytes: &[], packet: None },
        }
    }
}

/// A message in memory.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub bytes: &'a [u8],
    /// The same bytes with the header's room in front; `None` if the memory is shared.
    pub packet: Option<&'a [u8]>,
}

fn key(id: MessageId) -> u64 {
    u64::from(id.group) << 32 | u64::from(id.id)
}

/// Fibonacci hashing. This process counts the ids from 0, so they need no defense against chosen
/// collisions, only a spread over the upper bits, which the table reads first.
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
    fn get__what_was_inserted_until_removed() {
        let mut store = Store::default();
        let message = |id| MessageId { group: 3, id };
        for id in 0..1000 {
            store.insert(message(id), Data::Copied(MessageCopy::copy(&[id as u8; 10], None)));
        }
        store.insert(MessageId { group: 4, id: 700 }, Data::default());
        assert_eq!(store.get(message(700)).bytes, [188; 10]);
        store.copy_mut(message(700)).unwrap().write_header(&[1; 32]);
        assert_eq!(
            store.get(message(700)).packet.unwrap(),
            [[1; 32].as_slice(), &[188; 10]].concat()
        );
        assert_eq!(store.remove(message(700)).len(), 10);
        assert_eq!(store.get(message(700)).bytes, [0u8; 0]);
    }
}
