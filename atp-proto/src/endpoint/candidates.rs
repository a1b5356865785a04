//! Senders that may be evicted: those whose job has ended, and those that a search found silent. A
//! search looks at every sender, and a stranger can ask for a place with each packet. So the next
//! search waits.

use super::{places::Network, source::SourceKey};
use std::collections::HashMap;

/// The interval of searches that look at every sender.
pub const SEARCH_NS: u64 = 10_000_000;

/// Each candidate is in two lists, and may have sent or left since.
#[derive(Default)]
pub struct Candidates {
    /// The first to evict is the last one.
    all: Vec<SourceKey>,
    by_network: HashMap<Network, Vec<SourceKey>>,
    /// Candidates that were added since the lists were empty.
    added: usize,
    search_due_ns: u64,
}

impl Candidates {
    /// Takes the next candidate: of `network`, or of any without it.
    pub fn pop(&mut self, network: Option<Network>) -> Option<SourceKey> {
        match network {
            None => self.all.pop(),
            Some(network) => self.by_network.get_mut(&network)?.pop(),
        }
    }

    /// Adds a sender whose job has ended, to be evicted first. After `most` additions it waits for
    /// the next search: many have left by then.
    pub fn add_ended(&mut self, key: SourceKey, most: usize) {
        if self.added < most {
            self.push(key);
        }
    }

    fn push(&mut self, key: SourceKey) {
        self.added += 1;
        self.all.push(key);
        self.by_network.entry(Network::of(key.address)).or_default().push(key);
    }

    /// Whether a search may look at every sender.
    pub const fn is_search_due(&self, now_ns: u64) -> bool {
        now_ns >= self.search_due_ns
    }

    /// Takes the senders of a search, in the order of their eviction.
    pub fn set(&mut self, now_ns: u64, found: impl DoubleEndedIterator<Item = SourceKey>) {
        self.search_due_ns = now_ns + SEARCH_NS;
        self.added = 0;
        self.all.clear();
        self.by_network.clear();
        found.rev().for_each(|key| self.push(key));
    }
}
