//! The network: packets, links, ports with queue disciplines, switches, and topologies.
//!
//! Architecture invariant: this module names no scheme and imports nothing above it. Ports and
//! switches read a packet's [`Label`]. A packet's body is opaque to them, and the scheme layer
//! chooses its type.

mod discipline;
mod packet;
mod packets;
mod port;
mod port_queues;
mod switch;
pub mod topology;

pub use discipline::{
    CREDIT_BYTES, CREDIT_DSCP, CommonLimit, CreditLimits, Discipline, PriorityLimits, QueueLimit,
    Queued, Queueing, TrimmingLimits, UNSCHEDULED_DSCP, credit_ps,
};
pub use packet::{Content, ETHERNET_BYTES, Ecn, FlowId, HostId, Label, Packet, PacketId};
pub use packets::{Labels, Packets};
pub use port::{Counters, Departure, Fate, Port};
pub use port_queues::{PortQueues, Unit};
pub use switch::Switch;
pub use topology::{Link, Topology};

/// Transmission time of `bytes` on a line of `bits_per_s`, picoseconds.
///
/// 64 KiB at 1 Mbit/s, the slowest plausible line, take 5 * 10^17 ps: below 2^64.
pub const fn duration_ps(bytes: u32, bits_per_s: u64) -> u64 {
    bytes as u64 * 8_000_000_000_000 / bits_per_s
}
