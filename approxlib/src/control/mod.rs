//! The daemon's control socket: a Unix SOCK_SEQPACKET socket, one JSON object per packet, a reply
//! to every request. File descriptors travel beside the JSON (SCM_RIGHTS).

mod client;
mod protocol;

pub use client::{Client, ClientError};
pub use protocol::{
    GroupOpen, GroupStats, HostStats, JobInfo, LaneStats, PACKET_BYTES_MAX, PROTOCOL,
    REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request, SENDER_FDS, SenderGrant,
    default_socket,
};
