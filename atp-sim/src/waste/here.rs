//! What is here of a job's data, and which bytes on the wire have become useful by it.

use crate::scheme::PacketContents;
use std::collections::{BTreeMap, BTreeSet};

/// Which parts of messages are here.
#[derive(Debug, Default)]
pub struct Messages {
    complete: Bits,
    incomplete: BTreeMap<u32, Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    here: BTreeSet<u32>,
    bytes: u64,
}

impl Messages {
    /// The bytes of the message that this part completes, 0 if it completes none; `None` if the part
    /// was there.
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

/// Which packets of a stream in pieces are here.
#[derive(Debug, Default)]
pub struct Cuts {
    here: Bits,
    /// Of messages in several packets: how many of them are here, and the bytes of those that carry
    /// nothing that is complete.
    incomplete: BTreeMap<u32, (u32, u64)>,
}

impl Cuts {
    /// As [`Messages::take`].
    pub fn take(&mut self, cut: PacketContents, bytes: u64) -> Option<u64> {
        if self.here.contains(cut.number) {
            return None;
        }
        self.here.insert(cut.number);
        // Bytes wait with the first message that isn't complete, unless one is.
        let mut completed_bytes = 0;
        let mut pending_bytes = if cut.complete > 0 { 0 } else { bytes };
        for part in cut.parts.into_iter().flatten() {
            let (packets, waiting_bytes) = self.incomplete.entry(part.message).or_default();
            *packets += 1;
            *waiting_bytes += std::mem::take(&mut pending_bytes);
            if *packets == part.packets {
                completed_bytes += *waiting_bytes;
                self.incomplete.remove(&part.message);
            }
        }
        Some(completed_bytes + if cut.complete > 0 { bytes } else { 0 })
    }
}

/// A set of numbers of which most are there, from 0 on.
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

/// How far a stream is.
#[derive(Debug, Default)]
pub struct StreamHere {
    /// All below is here.
    cumulative: u64,
    /// What is here beyond, by its beginning: its end, messages until there, bytes on the wire.
    beyond: BTreeMap<u64, (u64, u32, u64)>,
    /// Messages that are complete.
    messages: u32,
    /// What is here below `cumulative` of a message that isn't complete, bytes on the wire.
    begun_bytes: u64,
}

impl StreamHere {
    /// The bytes of the messages that this piece completes; `None` if it was there.
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
