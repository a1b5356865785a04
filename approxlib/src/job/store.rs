//! The data of messages that are not released yet, by id.

use super::data::{Data, Own};
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

    /// A message that the job has a copy of.
    pub fn own_mut(&mut self, id: MessageId) -> Option<&mut Own> {
        match self.0.get_mut(&key(id))? {
            Data::Own(own) => Some(own),
            Data::Shared(_) => None,
        }
    }

    /// A message. Empty if there is none, which would be the transport's mistake.
    pub fn get(&self, id: MessageId) -> Message<'_> {
        match self.0.get(&key(id)) {
            Some(Data::Own(own)) => Message { bytes: own, packet: Some(own.packet()) },
            Some(Data::Shared(bytes)) => Message { bytes, packet: None },
            None => Message { bytes: &[], packet: None },
        }
    }
}

/// A message as it lies in memory.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub bytes: &'a [u8],
    /// With room for a header before it, or with the header that was written there.
    pub packet: Option<&'a [u8]>,
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
    fn get__what_was_inserted_until_removed() {
        let mut store = Store::default();
        let message = |id| MessageId { group: 3, id };
        for id in 0..1000 {
            store.insert(message(id), Data::Own(Own::copy(&[id as u8; 10], None)));
        }
        store.insert(MessageId { group: 4, id: 700 }, Data::default());
        assert_eq!(store.get(message(700)).bytes, [188; 10]);
        store.own_mut(message(700)).unwrap().write_head(&[1; 32]);
        assert_eq!(
            store.get(message(700)).packet.unwrap(),
            [[1; 32].as_slice(), &[188; 10]].concat()
        );
        assert_eq!(store.remove(message(700)).len(), 10);
        assert_eq!(store.get(message(700)).bytes, [0u8; 0]);
    }
}
