//! The network: packets, links, ports and their queue disciplines, switches, and how they are connected.

mod discipline;
mod packet;
mod port;
mod profile;
mod switch;
pub mod topology;

pub use discipline::{Discipline, PriorityLimits, QueueLimit, Queueing, TrimmingLimits, Waiting};
pub use packet::{
    Body, Cut, Dctcp, ETHERNET_BYTES, FlowId, HostId, Mlt, Ndp, NdpData, PFabric, Packet, PacketId,
    Packets, Part,
};
pub use port::{Counters, Departure, Fate, Port};
pub use profile::{PortQueues, Unit};
pub use switch::Switch;
pub use topology::{Link, Topology};

/// How long `bytes` take on a line of `bits_per_s`, picoseconds.
///
/// A packet of 64 KiB on the slowest line that makes sense (1 Mbit/s) stays below 2^64: 5 * 10^17.
pub const fn duration_ps(bytes: u32, bits_per_s: u64) -> u64 {
    bytes as u64 * 8_000_000_000_000 / bits_per_s
}
