//! Keeps the messages that reached the peer's host, but whose receipt has not come:
//! [`super::missing`] says which of them are retransmitted.

use crate::list::{Links, List, NONE};

/// The messages that wait, in the order in which they were acknowledged in full.
#[derive(Debug)]
pub(crate) struct AwaitingReceipt {
    list: List,
    links: Links,
    /// When the wait for any receipt began: at the first waiting message, or at the last receipt.
    pub(crate) since_ns: u64,
    /// Messages retransmitted as probes since the last receipt.
    pub(crate) probes: u32,
    /// When the last probe was due.
    pub(crate) probed_ns: u64,
    /// The message that was the last probe: the index of its group, and its id.
    pub(crate) probed: Option<(u8, u32)>,
    /// Receipts have named all messages that the library read up to this slot.
    pub(crate) known_slot: Option<u32>,
}

impl AwaitingReceipt {
    pub(crate) fn new() -> Self {
        Self {
            list: List::EMPTY,
            links: Links::default(),
            since_ns: 0,
            probes: 0,
            probed_ns: 0,
            probed: None,
            known_slot: None,
        }
    }

    pub(crate) fn push(&mut self, now_ns: u64, key: u32) {
        if self.list.is_empty() {
            self.since_ns = now_ns;
        }
        self.links.push_back(&mut self.list, key);
    }

    pub(crate) fn remove(&mut self, key: u32) {
        self.links.remove(&mut self.list, key);
    }

    pub(crate) fn clear(&mut self) {
        self.list = List::EMPTY;
    }

    /// Excludes a time in which this process did not run: it could read no receipt.
    pub(crate) fn exclude_absence(&mut self, now_ns: u64, absent_ns: u64) {
        self.since_ns = (self.since_ns + absent_ns).min(now_ns);
    }

    /// Notes that a receipt (or FIN-ACK) came.
    pub(crate) fn on_receipt(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.probes = 0;
    }

    /// Notes that receipts have named all messages that the library read up to `slot`.
    pub(crate) fn set_known_slot(&mut self, slot: u32) {
        self.known_slot = Some(slot);
    }

    /// The one that has waited longest.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.list.head != NONE).then_some(self.list.head)
    }
}
