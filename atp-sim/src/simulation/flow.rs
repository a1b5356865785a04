//! A flow: its description, and its progress.

use crate::{
    host::EndpointId,
    net::{FlowId, HostId},
    scheme::Route,
    waste::Account,
};
use std::{collections::VecDeque, iter::Peekable};

/// An application's messages: time in picoseconds, and bytes.
pub type Messages = Box<dyn Iterator<Item = (u64, u32)>>;

/// The description of a flow.
pub struct NewFlow {
    /// The host that sends data.
    pub source: HostId,
    /// The host that receives the data.
    pub destination: HostId,
    /// Whether every packet takes its own path.
    pub sprayed: bool,
    /// The seed of the hash that chooses the flow's path.
    pub path_seed: u64,
    /// An earlier flow between the same hosts whose connection the flow continues: it has the same
    /// path, and starts from what that flow's sender has learned.
    pub continues: Option<FlowId>,
    /// The time when the flow's job begins, picoseconds.
    pub began_ps: u64,
    /// The sender's messages, by time.
    pub messages: Messages,
    /// Number of messages that must be delivered.
    pub needed: u32,
    /// Whether the simulator stops the sender as soon as the needed messages are delivered.
    pub stops: bool,
    /// Whether to record the completion time of each message. Messages must then be delivered in
    /// the order of queueing.
    pub timed: bool,
}

impl NewFlow {
    /// Makes a flow that needs `needed` of its messages, begins at once, takes one path, and isn't
    /// stopped.
    pub fn new(source: HostId, destination: HostId, messages: Messages, needed: u32) -> Self {
        Self {
            source,
            destination,
            sprayed: false,
            path_seed: 0,
            continues: None,
            began_ps: 0,
            messages,
            needed,
            stops: false,
            timed: false,
        }
    }
}

/// The progress of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that the application has queued so far.
    pub queued: u32,
    /// Messages delivered to the receiver's application.
    pub delivered: u32,
    /// The time when the flow's job began.
    pub began_ps: u64,
    /// The time when the needed messages were delivered.
    pub done_ps: Option<u64>,
}

/// A flow in the simulation.
pub(super) struct Flow {
    pub route: Route,
    pub sender: EndpointId,
    pub receiver: EndpointId,
    pub messages: Peekable<Messages>,
    pub needed: u32,
    pub stops: bool,
    pub progress: Progress,
    pub times: Option<Times>,
    pub account: Account,
}

/// Completion times of messages.
#[derive(Default)]
pub(super) struct Times {
    /// Queueing times of undelivered messages.
    pub queued_ps: VecDeque<u64>,
    pub took_ps: Vec<u64>,
}
