//! The transport as a pure state machine: send ledger, packet scheduling, loss detection,
//! receipts, reassembly.
//!
//! Architecture invariant: no I/O, no clock, no randomness, no threads. Time comes in as
//! `now_ns: u64` (nanoseconds of one monotonic clock, never going back), so that the same code runs
//! on sockets and in a simulator, and a run can be replayed from its inputs. All state is bounded
//! by the configuration.
//!
//! - [`Sender`]: one flow, that is one destination of one job.
//! - [`Receiver`]: one per (source, job).

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod list;
mod packets;
pub mod receiver;
pub mod sender;

pub use receiver::{
    DropReason, GroupSummary, Message, Outcome, Receiver, ReceiverConfig, ReceiverStats, Summary,
    answer_fin_again, reset_header,
};
pub use sender::{
    AckRing, CompleteAt, ConfigError, GroupConfig, GroupReport, MESSAGES_MAX, MessageId, MsrError,
    Pace, Packet, PacketRefused, QueueError, Report, SendError, Sender, SenderConfig, Short, State,
};
