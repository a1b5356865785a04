//! How packets leave and how their acknowledgements come back: through the daemon's eBPF programs,
//! or by the library alone.

mod backlog;
mod epochs;
mod kernel;
mod maps;
mod pacer;
mod prober;
mod userspace;

pub(crate) use kernel::Kernel;
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
    Kernel(Kernel),
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

    /// Until when no packet may leave; `None` if one may leave now.
    pub fn hold_until(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Kernel(_) => None,
            Self::Userspace(userspace) => userspace.hold_until(now_ns),
        }
    }

    /// A packet of `payload_bytes` (header included) is about to leave.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.depart(header),
            Self::Userspace(userspace) => userspace.depart(now_ns, header, payload_bytes),
        }
    }

    /// It did not leave after all. Youngest first.
    pub fn unsent(&mut self, header: &Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.unsent(header),
            Self::Userspace(userspace) => userspace.unsent(header, payload_bytes),
        }
    }

    /// A question (PROBE) that is to leave before the next packet, if one is due.
    pub fn ask(&mut self, now_ns: u64, sender: &Sender) -> Option<[u8; PROBE_LEN]> {
        match self {
            Self::Kernel(kernel) => kernel.ask(now_ns, sender),
            Self::Userspace(_) => None,
        }
    }

    /// How many packets may leave as one superpacket.
    pub fn burst_packets(&self) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.burst_packets(),
            Self::Userspace(_) => 1,
        }
    }

    /// Whether that question left.
    pub fn asked(&mut self, now_ns: u64, sender: &mut Sender, left: bool) {
        if let Self::Kernel(kernel) = self {
            kernel.asked(now_ns, sender, left);
        }
    }

    /// An ACK came in on the socket, and its sender's cookie was right.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header) {
        if let Self::Userspace(userspace) = self {
            userspace.on_ack(now_ns, header);
        }
    }

    /// The lane as it is now.
    pub fn lane(&self) -> LaneStatus {
        match self {
            Self::Kernel(kernel) => kernel.status(),
            Self::Userspace(userspace) => userspace.status(),
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
