//! How packets leave and how their acknowledgements come back: through the daemon's eBPF programs,
//! or by the library alone.

mod backlog;
mod by_group;
mod epochs;
mod kernel;
mod maps;
mod pacer;
mod prober;
mod together;
mod userspace;

pub(crate) use kernel::Kernel;
pub(crate) use together::{Member, Together};
pub(crate) use userspace::{Userspace, UserspaceSettings};

use crate::udp::UdpSocket;
use atp_common::{
    maps::LaneStatus,
    wire::{Header, PROBE_LEN},
};
use atp_proto::Sender;
use std::os::fd::BorrowedFd;

/// One of both.
pub(crate) enum Datapath {
    /// The daemon paces, stamps, marks and counts; acknowledgements are read from its memory.
    Kernel(Box<Kernel>),
    /// This process does all that.
    Userspace(Box<Userspace>),
}

impl Datapath {
    /// For the report: `ebpf` or `userspace`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "ebpf",
            Self::Userspace(_) => "userspace",
        }
    }

    /// For the report: `fq`, `htb` or `userspace`.
    pub fn pacing(&self) -> &str {
        match self {
            Self::Kernel(kernel) => kernel.pacing(),
            Self::Userspace(_) => "userspace",
        }
    }

    /// Does what is due: acknowledgements, laws, and what both sides of the datapath tell each
    /// other.
    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        match self {
            Self::Kernel(kernel) => kernel.tick(now_ns, sender, socket),
            Self::Userspace(userspace) => userspace.tick(now_ns, sender, socket),
        }
    }

    /// Until when no packet of a group may leave; `None` if one may leave now.
    pub fn hold_until(&self, group: u8, now_ns: u64) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => kernel.hold_until(group, now_ns),
            Self::Userspace(userspace) => userspace.hold_until(group, now_ns),
        }
    }

    /// Whether no group's packets ever have to wait here.
    pub fn never_holds(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.is_alone(),
            Self::Userspace(_) => false,
        }
    }

    /// When the first of the groups whose packets have to wait may send; `None` if none has to.
    pub fn first_release(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => kernel.first_release(now_ns),
            Self::Userspace(userspace) => userspace.first_release(now_ns),
        }
    }

    /// The traffic class of a group's packets; 0 for the socket's own. Where there is a daemon, its
    /// programs write it.
    pub fn traffic_class(&self, group: u8) -> u8 {
        match self {
            Self::Kernel(_) => 0,
            Self::Userspace(userspace) => userspace.traffic_class(group),
        }
    }

    /// A packet of `payload_bytes` (header included) is about to leave.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.depart(now_ns, header, payload_bytes),
            Self::Userspace(userspace) => userspace.depart(now_ns, header, payload_bytes),
        }
    }

    /// It did not leave after all. Youngest first.
    pub fn unsent(&mut self, header: &Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.unsent(header, payload_bytes),
            Self::Userspace(userspace) => userspace.unsent(header, payload_bytes),
        }
    }

    /// A question (PROBE) that is to leave before the next packet, if one is due, and its group.
    pub fn ask(&mut self, now_ns: u64, sender: &Sender) -> Option<(u8, [u8; PROBE_LEN])> {
        match self {
            Self::Kernel(kernel) => kernel.ask(now_ns, sender),
            Self::Userspace(_) => None,
        }
    }

    /// How many packets of a group may leave as one superpacket.
    pub fn burst_packets(&self, group: u8) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.burst_packets(group),
            Self::Userspace(_) => 1,
        }
    }

    /// The same of the group with the longest bursts.
    pub fn longest_burst_packets(&self) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.longest_burst_packets(),
            Self::Userspace(_) => 1,
        }
    }

    /// Whether a group's question left.
    pub fn asked(&mut self, now_ns: u64, sender: &mut Sender, group: u8, left: bool) {
        if let Self::Kernel(kernel) = self {
            kernel.asked(now_ns, sender, group, left);
        }
    }

    /// An ACK came in on the socket, and its sender's cookie was right.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) {
        if let Self::Userspace(userspace) = self {
            userspace.on_ack(now_ns, header);
        }
    }

    /// The lane of a group as it is now.
    pub fn lane(&self, group: u8) -> LaneStatus {
        match self {
            Self::Kernel(kernel) => kernel.status(group),
            Self::Userspace(userspace) => userspace.status(group),
        }
    }

    /// Whether the daemon closed its lanes.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.is_closed(),
            Self::Userspace(_) => false,
        }
    }

    /// The connection whose end is the end of the kernel's datapath.
    pub fn control(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(kernel) => Some(kernel.control()),
            Self::Userspace(_) => None,
        }
    }

    /// Whether acknowledgements come without waking anybody, so that one has to look for them.
    pub fn acks_are_silent(&self) -> bool {
        match self {
            Self::Kernel(_) => true,
            Self::Userspace(userspace) => userspace.reads_ring(),
        }
    }
}
