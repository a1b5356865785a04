//! The application of a receiving host.

use atp_proto::endpoint::{Event, Request};
use std::fmt;

/// The application that a flow's messages are for.
///
/// Flows have none by default: their messages are counted and dropped.
pub trait Application: fmt::Debug {
    /// Takes in an event of the flow's job.
    fn take(&mut self, now_ns: u64, event: Event);

    /// The next request to the sender. The host asks for all of them after each packet.
    fn next_request(&mut self) -> Option<Request> {
        None
    }
}
