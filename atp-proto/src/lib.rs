//! The ATP transport as a pure state machine: queueing, scheduling, loss detection, receipts and
//! reassembly.
//!
//! Architecture invariant: no I/O, no clock, no randomness, no threads. The caller passes the time
//! as `now_ns: u64`, nanoseconds of one monotonic clock. The same code therefore runs on sockets
//! and in a simulator, and a run can be replayed from its inputs. The configuration bounds all
//! state.
//!
//! - [`Sender`] is one flow: one destination of one job.
//! - [`Receiver`] is one (source, job).
//! - [`endpoint::Endpoint`] is one port of a receiving host: any number of receivers.
//! - [`flow`] is what a sending host does between a sender and its socket.
//! - [`Adviser`] is one line of a receiving host.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod adviser;
pub mod endpoint;
pub mod flow;
mod list;
mod packets;
#[cfg(feature = "pair")]
pub mod pair;
pub mod receiver;
pub mod sender;

pub use adviser::{Adviser, AdviserConfig, Rest, WireBytes};
pub use receiver::{
    Account, Budget, DropReason, GroupSummary, Message, Outcome, Part, Receiver, ReceiverConfig,
    ReceiverStats, Share, StatedEnd, Summary, Terms, reset_header,
};
pub use sender::{
    AckRing, CompleteAt, ConfigError, EndedWindow, GroupConfig, GroupReport, LostIds, MESSAGES_MAX,
    MessageId, MsrError, PAYLOAD_BYTES_MAX, Pace, PackedMessage, Packet, PacketRefused, QueueError,
    Report, RequestPolicy, SendError, Sender, SenderConfig, Short, State, UnknownIds,
};
