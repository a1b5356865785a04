//! A simple model of the messages that a receiver must have.

use super::step::{COOKIE, JOB};
use atp_common::wire::{Flags, HEADER_LEN, Header, Kind, ReceiptBody};
use atp_proto::Message;
use std::collections::{BTreeMap, BTreeSet};

/// The current window's messages, by group and id.
#[derive(Debug, Default)]
pub struct Model {
    /// Windows overlap. The model then knows only which messages were handed over: by window, group
    /// and id.
    overlapping: Option<BTreeSet<(u32, u8, u32)>>,
    /// Complete messages.
    complete: BTreeSet<(u8, u32)>,
    /// Complete messages that the application doesn't have yet.
    held: BTreeSet<(u8, u32)>,
    /// Held messages of the window before.
    leaving: BTreeSet<(u8, u32)>,
    /// The next id of each group that is exact so far. `None` once a packet contradicted that, or
    /// the order was given up at an end.
    next: BTreeMap<u8, Option<u32>>,
    /// The number of complete messages of all windows.
    pub complete_ever: u64,
    /// The window of the last message handed over.
    pub window: Option<u32>,
}

impl Model {
    /// A model of windows that overlap, or don't.
    pub fn new(overlap: bool) -> Self {
        Self { overlapping: overlap.then(BTreeSet::new), ..Self::default() }
    }

    /// Whether windows overlap.
    pub fn overlaps(&self) -> bool {
        self.overlapping.is_some()
    }

    /// Notes that the receiver learned another number of its window, so that numbers repeat.
    pub fn renumbered(&mut self) {
        if let Some(handed_over) = &mut self.overlapping {
            handed_over.clear();
        }
    }

    /// Begins another window. The held messages of the one before are due now.
    pub fn begin_window(&mut self) {
        self.leaving.append(&mut self.held);
        self.complete.clear();
        self.next.clear();
    }

    /// Notes that the receiver calls the message of `header` complete.
    pub fn complete(&mut self, header: &Header) {
        self.complete_ever += 1;
        if self.overlaps() {
            return;
        }
        let key = (header.group(), header.message());
        assert!(self.complete.insert(key), "message {key:?} was completed twice");
        self.held.insert(key);
        let next = self.next.entry(key.0).or_insert(Some(0));
        if !header.flags().contains(Flags::ORDERED) {
            *next = None;
        }
    }

    /// Notes that the application got a message.
    pub fn got(&mut self, message: &Message, at_end: bool) {
        let key = (message.group, message.message);
        if let Some(handed_over) = &mut self.overlapping {
            let is_new = handed_over.insert((message.window, key.0, key.1));
            assert!(is_new, "message {key:?} of window {} came twice", message.window);
            return;
        }
        if self.leaving.remove(&key) {
            return;
        }
        assert!(self.held.remove(&key), "message {key:?} came twice, or incomplete");
        self.window = Some(message.window);
        let Some(next) = self.next.get_mut(&key.0) else { return };
        if let Some(expected) = *next {
            let in_order = if at_end { key.1 >= expected } else { key.1 == expected };
            assert!(in_order, "message {key:?} of an exact group came for {expected}");
            *next = Some(key.1 + 1);
        }
    }

    /// Checks, after the application took all messages, that none of an ended window is left.
    pub fn drained(&self) {
        let left = &self.leaving;
        assert!(left.is_empty(), "complete messages of an ended window are held: {left:?}");
    }

    /// Checks that no message is held at the end of a window.
    pub fn ended(&mut self) {
        assert_eq!(self.waiting(), 0, "complete messages are held after the end");
    }

    /// The number of complete messages that were not handed over.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// The number of complete messages.
    pub fn number(&self) -> u32 {
        self.complete.len() as u32
    }

    /// The number of complete messages of a group below an id.
    pub fn count(&self, group: u8, below: u32) -> u64 {
        self.complete.range((group, 0)..(group, below)).count() as u64
    }

    pub fn is_complete(&self, group: u8, id: u32) -> bool {
        self.complete.contains(&(group, id))
    }

    /// Checks that a receipt names complete messages only.
    pub fn check_receipt(&self, receipt: &[u8]) {
        let (header, kind) = Header::parse(receipt).expect("a receipt is well-formed");
        let body = ReceiptBody::parse(&receipt[HEADER_LEN..]).expect("so is its body");
        assert_eq!((kind, header.job(), header.cookie()), (Kind::Receipt, JOB, COOKIE));
        if self.overlaps() {
            return;
        }
        assert_eq!(body.delivered, self.number());
        let cumulative = body.cumulative;
        assert_eq!(self.count(header.group(), cumulative), u64::from(cumulative));
        for word in body.words() {
            for bit in (0..64).filter(|bit| word.bits >> bit & 1 == 1) {
                let id = word.index * 64 + bit;
                assert!(self.is_complete(word.group, id), "{id} of {} is not complete", word.group);
            }
        }
    }
}
