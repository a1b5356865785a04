//! What a receiver must have, kept the simplest way.

use super::step::{COOKIE, JOB};
use atp_common::wire::{Flags, HEADER_LEN, Header, Kind, ReceiptBody};
use atp_proto::Message;
use std::collections::{BTreeMap, BTreeSet};

/// The present window's messages, by group and id.
#[derive(Debug, Default)]
pub struct Model {
    /// Whole; those that the application doesn't have yet are also in `held`.
    whole: BTreeSet<(u8, u32)>,
    held: BTreeSet<(u8, u32)>,
    /// The same of the window before.
    leaving: BTreeSet<(u8, u32)>,
    /// The next id of each group of which everything so far came as of an exact group; `None` once
    /// something didn't, or the order was given up at an end.
    next: BTreeMap<u8, Option<u32>>,
    /// Of all windows.
    pub whole_ever: u64,
    /// That of the last message handed over.
    pub window: Option<u32>,
}

impl Model {
    /// The receiver has begun another window. What it still kept of the one before is due now.
    pub fn begin_window(&mut self) {
        self.leaving.append(&mut self.held);
        self.whole.clear();
        self.next.clear();
    }

    /// The receiver says that the message of `header` is whole now.
    pub fn complete(&mut self, header: &Header) {
        let key = (header.group(), header.message());
        assert!(self.whole.insert(key), "message {key:?} became whole twice");
        self.held.insert(key);
        self.whole_ever += 1;
        let next = self.next.entry(key.0).or_insert(Some(0));
        if !header.flags().contains(Flags::ORDERED) {
            *next = None;
        }
    }

    /// The application was handed a message.
    pub fn got(&mut self, message: &Message, at_end: bool) {
        let key = (message.group, message.message);
        if self.leaving.remove(&key) {
            return;
        }
        assert!(self.held.remove(&key), "message {key:?} came twice, or without being whole");
        self.window = Some(message.window);
        let Some(next) = self.next.get_mut(&key.0) else { return };
        if let Some(expected) = *next {
            let in_order = if at_end { key.1 >= expected } else { key.1 == expected };
            assert!(in_order, "message {key:?} of an exact group came for {expected}");
            *next = Some(key.1 + 1);
        }
    }

    /// The application took everything that it could have.
    pub fn drained(&self) {
        let left = &self.leaving;
        assert!(left.is_empty(), "whole messages of a window that is over are kept: {left:?}");
    }

    /// The window has ended.
    pub fn ended(&mut self) {
        assert_eq!(self.waiting(), 0, "whole messages are left behind at an end");
    }

    /// Whole messages that were not handed over.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Whole messages.
    pub fn number(&self) -> u32 {
        self.whole.len() as u32
    }

    /// Whole messages of a group below an id.
    pub fn count(&self, group: u8, below: u32) -> u64 {
        self.whole.range((group, 0)..(group, below)).count() as u64
    }

    pub fn is_whole(&self, group: u8, id: u32) -> bool {
        self.whole.contains(&(group, id))
    }

    /// A receipt speaks of whole messages only.
    pub fn check_receipt(&self, receipt: &[u8]) {
        let (header, kind) = Header::parse(receipt).expect("a receipt is well-formed");
        let body = ReceiptBody::parse(&receipt[HEADER_LEN..]).expect("so is its body");
        assert_eq!((kind, header.job(), header.cookie()), (Kind::Receipt, JOB, COOKIE));
        assert_eq!(body.delivered, self.number());
        let cumulative = body.cumulative;
        assert_eq!(self.count(header.group(), cumulative), u64::from(cumulative));
        for word in body.words() {
            for bit in (0..64).filter(|bit| word.bits >> bit & 1 == 1) {
                let id = word.index * 64 + bit;
                assert!(self.is_whole(word.group, id), "{id} of {} is not whole", word.group);
            }
        }
    }
}
