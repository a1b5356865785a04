//! The maps of receiver advice: counts of arrivals, the lanes that a receiving library has
//! admitted, and the advice that a sending library has received.

use crate::{units::Share, wire::Advice};
use bytemuck::{Pod, Zeroable};

/// Arriving lanes of a host that get advice. Bytes of further lanes count as unadvised.
pub const ADVISED_LANES: u32 = 2048;
/// Arriving lanes of one receiver that get advice.
pub const RECEIVER_LANES: usize = 512;
/// Counters of arrived bytes per processor. An interface's counter is at its index modulo this
/// number. Interfaces that share a counter get no advice.
pub const LINES: usize = 64;

/// The bytes that arrived over each interface on one processor, as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivedBytes {
    /// All bytes; only grows, and wraps.
    pub all: [u64; LINES],
    /// Bytes with the DSCP of an approximate queue; only grows, and wraps.
    pub approximate: [u64; LINES],
}

/// The programs' count of an arriving lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivedLane {
    /// Bytes of its DATA on the wire; only grows, and wraps.
    pub bytes: u64,
    /// The index of the interface of the last packet.
    pub interface: u32,
    /// Whether the last packet was flagged BACKLOGGED; 0 or 1.
    pub backlogged: u32,
    /// The part of `bytes` with the DSCP of an approximate queue.
    pub approximate_bytes: u64,
    /// Zero. Lanes that arrive on different processors don't share a cache line.
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<ArrivedLane>() == 64);

/// A lane that a receiving library has admitted; an element of a map that library and daemon write.
/// Element 0 is an [`ArrivingLanes`].
///
/// The library writes the fields up to `number`, and `number` last. The daemon writes the others.
/// A library can only ask for lanes to its own port, and only it reads the advice to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivingLane {
    /// The sender's address; IPv4 as `::ffff:a.b.c.d`.
    pub source: [u8; 16],
    /// The flow's secret.
    pub cookie: u32,
    /// The sender's port, host byte order.
    pub source_port: u16,
    /// The group (8 bits used).
    pub group: u16,
    /// Zero.
    pub reserved: u32,
    /// Changes with each use of the element; 0 if it is not in use.
    pub number: u32,
    /// The `number` of the lane that `advice` is for.
    pub advised: u32,
    /// [`Advice::to_wire`].
    pub advice: u32,
    /// Zero.
    pub reserved_too: u64,
}

const _: () = assert!(size_of::<ArrivingLane>() == 48);

/// The first element of a receiver's map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ArrivingLanes {
    /// Written by the library: grows whenever an element's `number` has changed.
    pub changes: u64,
    /// Written by the daemon: not 0 while it doesn't look at `changes` and counts. The library
    /// then wakes it by the eventfd that came with the map.
    pub asleep: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<ArrivingLanes>() == size_of::<ArrivingLane>());

/// The content of receipts for the controller of a group's lane: the newest advice, and the share
/// of lost ACKs. The sending library writes it into the elements of the progress map behind those
/// of all groups. It may be hostile: it can raise its own lane to a quarter of Rmax at most, or
/// slow it down, or hide half of the lane's losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ReceivedAdvice {
    /// When the newest receipt came, nanoseconds of CLOCK_MONOTONIC; 0: never.
    pub received_ns: u64,
    /// [`Advice::to_wire`].
    pub advice: u32,
    /// The share of ACKs that the network loses, Q16.
    pub acks_lost_q16: u32,
}

const _: () = assert!(size_of::<ReceivedAdvice>() == 16);

impl ReceivedAdvice {
    /// The advice that a sender received, and when.
    pub const fn new(advice: Advice, received_ns: u64, acks_lost: Share) -> Self {
        Self { received_ns, advice: advice.to_wire(), acks_lost_q16: acks_lost.q16() }
    }

    /// The advice as if received no later than now: a sender must not prolong it.
    pub const fn until(self, now_ns: u64) -> Self {
        let received_ns = if self.received_ns < now_ns { self.received_ns } else { now_ns };
        Self { received_ns, ..self }
    }

    /// Takes the advice out, and keeps the share of lost ACKs.
    pub const fn without_advice(self) -> Self {
        Self { advice: Advice::NONE.to_wire(), ..self }
    }

    /// The advice.
    pub const fn advice(&self) -> Advice {
        Advice::from_wire(self.advice)
    }

    /// The share of ACKs that the network loses.
    pub const fn acks_lost(&self) -> Share {
        Share::from_q16(self.acks_lost_q16)
    }
}
