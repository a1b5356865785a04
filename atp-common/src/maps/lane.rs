use crate::laws::{
    lane::{EPOCHS, EpochCount},
    rtt::Rtt,
};
use bytemuck::{Pod, Zeroable};

/// What the controller tells a lane. Written by the daemon through a memory mapping (each field
/// whole, so a reader sees the old or the new), read by egress for every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneControl {
    /// The rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// `skb->priority` under the HTB backend: the class of this lane.
    pub htb_class: u32,
    /// The DSCP of its queue; [`LaneControl::DSCP_KEEP`] leaves the application's, and lets switches
    /// mark the lane's packets (ECT).
    pub dscp: u32,
    /// The epoch that packets leaving now carry (16 bits used).
    pub epoch: u32,
    /// 1 while the lane is in use.
    pub active: u32,
}

const _: () = assert!(size_of::<LaneControl>() == 24);

impl LaneControl {
    /// Queue 0 keeps what the application set.
    pub const DSCP_KEEP: u32 = u32::MAX;
}

/// What the programs measured in one epoch. The cell is zeroed, and its tag set, by the controller
/// before any packet carries the epoch; from then on the programs only add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct EpochCell {
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes on the wire.
    pub sent_bytes: u64,
    /// Of these packets, how many were acknowledged.
    pub acked_packets: u64,
    /// Of these, with the ECN mark.
    pub marked_packets: u64,
    /// The epoch that this cell counts (16 bits used).
    pub epoch: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<EpochCell>() == 40);

impl EpochCell {
    /// What a controller judges.
    pub const fn count(&self) -> EpochCount {
        EpochCount {
            sent_packets: self.sent_packets,
            sent_bytes: self.sent_bytes,
            acked_packets: self.acked_packets,
            marked_packets: self.marked_packets,
        }
    }
}

/// What the programs keep of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneState {
    /// The first moment at which the next packet may leave, nanoseconds.
    pub clock_ns: u64,
    /// Packets dropped by the runaway guard.
    pub too_far_packets: u64,
    /// Round-trip times of its ACKs.
    pub rtt: Rtt,
    /// Counters by epoch; epoch `e` is in cell `e % 16`.
    pub cells: [EpochCell; EPOCHS],
}

const _: () = assert!(size_of::<LaneState>() == 40 + EPOCHS * size_of::<EpochCell>());
