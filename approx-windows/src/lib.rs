//! Windows of a stream of records over ATP, such as those of a topic's partition.
//!
//! A sender cuts a stream into [windows](Cutter) by event time or by number, draws as many records
//! of each as must arrive, and sends them while the window is open, as a window of a job
//! ([`Worker`], [`Outbox`]). A receiver ([`Inbox`]) hands over each window once it has ended, with
//! its records, those that were left out by offset, and whether it was counted before
//! ([`Counted`]). The window ends for its sender only once the receiving application has confirmed
//! it.
//!
//! A window's last message is its [`WindowHeader`]. It is exact, and names the stream, the window
//! and the offsets of its records: a window that is sent again after a crash is recognized by them.
//!
//! Records are bytes with an offset: nothing here knows Kafka.

#![deny(missing_docs)]

mod accepted;
mod answers;
mod counted;
mod cutter;
mod draw;
mod error;
mod header;
mod inbox;
mod json;
mod offsets;
mod outbox;
mod outgoing;
mod position;
mod record;
mod room;
mod rule;
mod sampling;
mod sender;
mod state;
mod stream;
#[cfg(test)]
mod testing;
mod window;
mod worker;

pub use accepted::Accepted;
pub use counted::{Count, Counted, CountedOffsets};
pub use cutter::{Batch, Cut, Cutter, Limits, Plan};
pub use error::{InboxError, MalformedError, OutboxError, PushError};
pub use header::{GroupHeader, WindowBegin, WindowHeader};
pub use inbox::{Arrival, Inbox, InboxStats};
pub use offsets::Offsets;
pub use outbox::{Confirmed, Outbox, Peer};
pub use outgoing::OutgoingWindow;
pub use position::Position;
pub use record::{Record, RecordRef};
pub use room::Room;
pub use rule::Rule;
pub use sampling::{Group, GroupId, Sampling};
pub use sender::{SenderProgress, SenderState, StreamSender};
pub use state::{StateError, StateFile};
pub use stream::Stream;
pub use window::{ReceivedGroup, ReceivedWindow};
pub use worker::{Target, Told, Worker};
