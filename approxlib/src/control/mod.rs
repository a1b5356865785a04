//! The daemon's control socket: a Unix SOCK_SEQPACKET socket with one JSON object per packet, and
//! one reply to each request. File descriptors travel beside the JSON (SCM_RIGHTS).
//!
//! [`Client`] sends requests. [`Request`] and [`Reply`] are the messages, which the daemon parses
//! with the same types. [`Job`](crate::Job) and [`Receiver`](crate::Receiver) use the socket by
//! themselves; this module is for tools that manage jobs or read statistics.
//!
//! ```no_run
//! # fn main() -> Result<(), approxlib::control::ClientError> {
//! use approxlib::control::{Client, default_socket};
//! let client = Client::connect(&default_socket())?;
//! let mut snapshot = client.snapshot()?;
//! for lane in snapshot.read().lanes {
//!     println!("job {} group {}: {} bytes/s", lane.job, lane.group.group, lane.rate_bytes_per_s);
//! }
//! # Ok(())
//! # }
//! ```

mod client;
mod job_user;
mod protocol;
mod registrar;
mod snapshot;
mod stats;

pub(crate) use client::FlowOpen;
pub use client::{Client, ClientError};
pub use job_user::JobUser;
pub use protocol::{
    GroupOpen, INTERFACE_WORDS, JobInfo, KnownPath, PACKET_BYTES_MAX, PROTOCOL, PROTOCOL_MIN,
    REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request, SENDER_FDS, SenderGrant,
    default_socket,
};
pub(crate) use registrar::Registrar;
pub use snapshot::Snapshot;
pub use stats::{
    CoverageStats, GroupStats, HostStats, LaneIdentity, LaneStats, PolicyRefusals, ProgramRuns,
};
