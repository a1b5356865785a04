//! What a flow is to be, and how it stands.

use crate::{host::Place, net::HostId, scheme::Route, waste::Account};
use std::{collections::VecDeque, iter::Peekable};

/// Messages that an application has to send: when, and of how many bytes.
pub type Messages = Box<dyn Iterator<Item = (u64, u32)>>;

/// A flow to be simulated.
pub struct NewFlow {
    /// From where to where.
    pub source: HostId,
    /// The other host.
    pub destination: HostId,
    /// Every packet takes a way of its own.
    pub sprayed: bool,
    /// When its job begins, picoseconds.
    pub began_ps: u64,
    /// What its sender has to send, by time.
    pub messages: Messages,
    /// How many of them must be delivered.
    pub needed: u32,
    /// When it has them, its sender stops.
    pub stops: bool,
    /// Messages come in the order in which they were queued: how long each took is noted.
    pub timed: bool,
}

impl NewFlow {
    /// A flow that needs `needed` of its messages, begins at once, goes one way and isn't stopped.
    pub fn new(source: HostId, destination: HostId, messages: Messages, needed: u32) -> Self {
        Self {
            source,
            destination,
            sprayed: false,
            began_ps: 0,
            messages,
            needed,
            stops: false,
            timed: false,
        }
    }
}

/// How a flow stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that its sender's application had so far.
    pub queued: u32,
    /// Messages that its receiver's application has.
    pub delivered: u32,
    /// When its job began.
    pub began_ps: u64,
    /// When it had what it needs.
    pub done_ps: Option<u64>,
}

/// A flow that is simulated.
pub(super) struct Flow {
    pub route: Route,
    pub sender: Place,
    pub receiver: Place,
    pub messages: Peekable<Messages>,
    pub needed: u32,
    pub stops: bool,
    pub progress: Progress,
    pub times: Option<Times>,
    pub account: Account,
}

/// How long messages took.
#[derive(Default)]
pub(super) struct Times {
    /// When those that aren't delivered were queued.
    pub queued_ps: VecDeque<u64>,
    pub took_ps: Vec<u64>,
}
