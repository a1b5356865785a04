//! The network: packets, links, ports and their queue disciplines, switches, and how they are connected.

mod body;
mod discipline;
mod packet;
mod packets;
mod port;
mod profile;
mod switch;
pub mod topology;

pub use body::{Aeolus, AeolusReport, Body, Cut, Dctcp, Mlt, Ndp, NdpData, PFabric, Part};
pub use discipline::{
    CREDIT_BYTES, CREDIT_DSCP, CreditedLimits, Discipline, PriorityLimits, QueueLimit, Queueing,
    TrimmingLimits, UNSCHEDULED_DSCP, Waiting, credit_ps,
};
pub use packet::{ETHERNET_BYTES, Ecn, FlowId, HostId, Label, Packet, PacketId};
pub use packets::Packets;
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
