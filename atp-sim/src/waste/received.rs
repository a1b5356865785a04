//! Tracks the received data of a job, and the bytes on the wire that became useful.

use crate::scheme::PacketContents;
use std::collections::{BTreeMap, BTreeSet};

/// The received parts of messages.
#[derive(Debug, Default)]
pub struct ReceivedMessages {
    complete: Bits,
    incomplete: BTreeMap<u32, Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    here: BTreeSet<u32>,
    bytes: u64,
}

impl ReceivedMessages {
    /// Adds a part. Returns the bytes of the message that it completes, 0 if it completes none;
    /// `None` if the part had arrived before.
    pub fn take(&mut self, message: u32, part: u32, parts: u32, bytes: u64) -> Option<u64> {
        if self.complete.contains(message) {
            return None;
        }
        if parts <= 1 {
            self.complete.insert(message);
            return Some(bytes);
        }
        let known = self.incomplete.entry(message).or_default();
        if !known.here.insert(part) {
            return None;
        }
        known.bytes += bytes;
        if known.here.len() < parts as usize {
            return Some(0);
        }
        self.complete.insert(message);
        self.incomplete.remove(&message).map(|known| known.bytes)
    }
}

/// The received packets of consecutive messages.
#[derive(Debug, Default)]
pub struct ReceivedSegments {
    here: Bits,
    /// By message that spans packets: the number of received packets, and the bytes of those that
    /// carry no complete message.
    incomplete: BTreeMap<u32, (u32, u64)>,
}

impl ReceivedSegments {
    /// Like [`ReceivedMessages::take`], for a packet.
    pub fn take(&mut self, contents: PacketContents, bytes: u64) -> Option<u64> {
        if self.here.contains(contents.number) {
            return None;
        }
        self.here.insert(contents.number);
        // The bytes count for the first incomplete message, unless the packet has a complete one.
        let mut completed_bytes = 0;
        let mut pending_bytes = if contents.complete > 0 { 0 } else { bytes };
        for part in contents.parts.into_iter().flatten() {
            let (packets, waiting_bytes) = self.incomplete.entry(part.message).or_default();
            *packets += 1;
            *waiting_bytes += std::mem::take(&mut pending_bytes);
            if *packets == part.packets {
                completed_bytes += *waiting_bytes;
                self.incomplete.remove(&part.message);
            }
        }
        Some(completed_bytes + if contents.complete > 0 { bytes } else { 0 })
    }
}

/// A dense set of numbers from 0.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn contains(&self, number: u32) -> bool {
        let word = self.0.get(number as usize / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }
}

/// The received bytes of a stream.
#[derive(Debug, Default)]
pub struct ReceivedStream {
    /// All bytes below this have arrived.
    cumulative: u64,
    /// Pieces received beyond `cumulative`, by first byte: end, messages up to there, bytes on the
    /// wire.
    beyond: BTreeMap<u64, (u64, u32, u64)>,
    /// The number of complete messages.
    messages: u32,
    /// Bytes on the wire below `cumulative` that belong to an incomplete message.
    begun_bytes: u64,
}

impl ReceivedStream {
    /// Adds a piece. Returns the bytes of the messages that it completes; `None` if the piece had
    /// arrived before.
    pub fn take(&mut self, begin: u64, end: u64, messages: u32, bytes: u64) -> Option<u64> {
        if begin < self.cumulative || self.beyond.contains_key(&begin) {
            return None;
        }
        self.beyond.insert(begin, (end, messages, bytes));
        let mut completed_bytes = 0;
        while let Some((end, messages, bytes)) = self.beyond.remove(&self.cumulative) {
            self.cumulative = end;
            self.begun_bytes += bytes;
            if messages > self.messages {
                self.messages = messages;
                completed_bytes += std::mem::take(&mut self.begun_bytes);
            }
        }
        Some(completed_bytes)
    }
}
