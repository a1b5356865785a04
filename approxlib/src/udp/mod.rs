//! UDP in batches: many packets a system call, no copy of what is sent.

mod receive;
mod send;
mod socket;
mod superpackets;
mod wait;

pub use receive::{Incoming, ReceiveBatch};
pub use send::{Outgoing, SendBatch};
pub use socket::{Trouble, UdpSocket};
pub use superpackets::{Superpacket, SuperpacketBatch, is_for_superpackets};
pub use wait::{Interest, now_ns, wait};

/// The most packets that one system call sends or receives.
pub const BATCH: usize = 64;
