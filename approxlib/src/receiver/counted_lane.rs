//! A lane whose arrivals this process counts, to give it advice.

use atp_common::{maps::RECEIVER_LANES, wire::Advice};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The most lanes of one receiver, as in the daemon.
pub const LANES_MAX: usize = RECEIVER_LANES - 1;

/// A lane whose arrivals are counted, until it is dropped.
#[derive(Debug)]
pub struct CountedLane {
    /// No other lane of the receiver has it.
    pub number: u64,
    ended: Sender<u64>,
    /// Since the last tick.
    pub wire_bytes: u64,
    /// The flag of its last packet.
    pub backlogged: bool,
    /// That of its last packet, as the kernel says.
    pub interface: u32,
    /// The interface of its line; `None` for a line of unknown rate.
    pub line: Option<u32>,
    pub advised: Advice,
    /// The advice that its sender's transport has.
    pub given: Advice,
}

impl CountedLane {
    /// The advice, if it has changed since the last call.
    pub fn take_advice(&mut self) -> Option<Advice> {
        let advised = self.advised;
        (std::mem::replace(&mut self.given, advised) != advised).then_some(advised)
    }
}

impl Drop for CountedLane {
    fn drop(&mut self) {
        // Without an adviser, nobody has to forget the lane.
        let _ = self.ended.send(self.number);
    }
}

/// Numbers the lanes, and limits them.
#[derive(Debug)]
pub struct OpenLanes {
    open: usize,
    last: u64,
    ended: (Sender<u64>, Receiver<u64>),
}

impl OpenLanes {
    /// None.
    pub fn new() -> Self {
        Self { open: 0, last: 0, ended: channel() }
    }

    /// Their number, with those that ended since the last [`Self::take_ended`].
    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.open
    }

    /// A new lane, if there is room.
    pub fn open(&mut self) -> Option<CountedLane> {
        if self.open >= LANES_MAX {
            return None;
        }
        self.open += 1;
        self.last += 1;
        Some(CountedLane {
            number: self.last,
            ended: self.ended.0.clone(),
            wire_bytes: 0,
            backlogged: true,
            interface: 0,
            line: None,
            advised: Advice::NONE,
            given: Advice::NONE,
        })
    }

    /// The lanes that ended since the last call.
    pub fn take_ended(&mut self) -> impl Iterator<Item = u64> {
        let Self { open, ended, .. } = self;
        ended.1.try_iter().inspect(|_| *open -= 1)
    }
}
