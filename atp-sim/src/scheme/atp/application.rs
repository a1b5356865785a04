//! The application of a receiving host.

use atp_proto::{Message, Receiver};
use std::fmt;

/// The application that a flow's messages are for.
///
/// Flows have none by default: their messages are counted and dropped.
pub trait Application: fmt::Debug {
    /// Takes in a complete message.
    fn take(&mut self, message: Message);

    /// Runs after each packet of the sender, when all complete messages were taken. The application
    /// takes the receiver's terms and summary, and may make requests of the sender.
    fn run(&mut self, now_ns: u64, receiver: &mut Receiver);
}
