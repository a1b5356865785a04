//! Windows of a stream of records over ATP, such as those of a topic's partition.
//!
//! A sender cuts a stream into [windows](Cutter) by event time or by number, shuffles and packs the
//! records of each ([`PackedWindow`]), and sends it as a window of a job ([`Outbox`]). A receiver
//! ([`Inbox`]) hands over each window once it has ended, with its records, those that were lost by
//! offset, and whether it was counted before ([`Counted`]). The window ends for its sender only
//! once the receiving application has confirmed it.
//!
//! A window's first message is its [`WindowHeader`]. It is exact, and names the stream, the window
//! and the offsets of its records: a window that is sent again after a crash is recognized by them.
//!
//! Records are bytes with an offset: nothing here knows Kafka.

#![deny(missing_docs)]

mod answers;
mod counted;
mod cutter;
mod error;
mod header;
mod inbox;
mod json;
mod offsets;
mod outbox;
mod pack;
mod position;
mod record;
mod rule;
mod sampling;
mod state;
mod stream;
mod window;

pub use counted::{Count, Counted, CountedOffsets};
pub use cutter::{Cut, Cutter, Limits};
pub use error::{InboxError, MalformedError, OutboxError};
pub use header::{GroupHeader, WindowHeader};
pub use inbox::{Arrival, Inbox, InboxStats};
pub use offsets::Offsets;
pub use outbox::{Confirmed, Outbox, Peer};
pub use pack::PackedWindow;
pub use position::Position;
pub use record::{Record, RecordRef};
pub use rule::Rule;
pub use sampling::{Group, GroupId, Sampling};
pub use state::{StateError, StateFile};
pub use stream::Stream;
pub use window::{ReceivedGroup, ReceivedWindow};
