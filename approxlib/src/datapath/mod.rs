//! The datapath of a flow: paces packets, and brings their acknowledgments back.
//!
//! - `kernel`: the daemon's eBPF programs do the work. This side shares memory with them (`maps`),
//!   and sends probes on lanes so fast that packets get no ACKs of their own.
//! - `userspace`: this process does the work, by the same laws (`atp_proto::flow`).
//!
//! `coverage` notices when the programs don't see the flow's packets. Both use `backlog`, the limit
//! of the socket's send buffer, and `job_progress`, the sums over all flows of a job.

mod backlog;
mod coverage;
mod job_progress;
mod kernel;
mod maps;
mod userspace;

pub use backlog::send_buffer_bytes_max;
pub(crate) use coverage::ReturnPause;
pub(crate) use job_progress::{FlowProgress, JobProgress};
pub(crate) use kernel::{End, Kernel};
pub(crate) use maps::{ArrivingPage, InterfacePage};
pub(crate) use userspace::Userspace;

use crate::udp::UdpSocket;
use atp_common::{
    maps::LaneStatus,
    wire::{Header, PROBE_LEN},
};
use atp_proto::Sender;
use std::os::fd::BorrowedFd;

/// The datapath of a flow.
pub(crate) enum Datapath {
    /// The daemon's programs pace, stamp, mark and count. Acknowledgments are read from shared
    /// memory.
    Kernel(Box<Kernel>),
    /// This process paces, stamps, marks and counts.
    Userspace(Box<Userspace>),
}

impl Datapath {
    /// The name in reports: `ebpf` or `userspace`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "ebpf",
            Self::Userspace(_) => "userspace",
        }
    }

    /// The pacing's name in reports: `fq`, `htb` or `userspace`.
    pub fn pacing(&self) -> &str {
        match self {
            Self::Kernel(kernel) => kernel.pacing(),
            Self::Userspace(_) => "userspace",
        }
    }

    /// Reads acknowledgments, runs the laws, and exchanges progress and status with the daemon.
    pub fn tick(&mut self, now_ns: u64, sender: &mut Sender, socket: &UdpSocket) {
        match self {
            Self::Kernel(kernel) => kernel.tick(now_ns, sender, socket),
            Self::Userspace(userspace) => userspace.tick(now_ns, sender, socket),
        }
    }

    /// The time before which no packet of a group may leave; `None` if one may leave now.
    pub fn hold_until(&self, group: u8, now_ns: u64) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => kernel.hold_until(group, now_ns),
            Self::Userspace(userspace) => userspace.lanes.hold_until(group, now_ns),
        }
    }

    /// Whether this side never holds packets back: the kernel alone paces them.
    pub fn is_unpaced(&self) -> bool {
        match self {
            Self::Kernel(kernel) => kernel.is_unpaced(),
            Self::Userspace(_) => false,
        }
    }

    /// The earliest time at which a held group may send; `None` if no group is held.
    pub fn next_release(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => kernel.next_release(now_ns),
            Self::Userspace(userspace) => userspace.lanes.next_release(now_ns),
        }
    }

    /// The traffic class of a group's packets; 0 for the socket's own. With a daemon, its programs
    /// write the traffic class.
    pub fn traffic_class(&self, group: u8) -> u8 {
        match self {
            Self::Kernel(_) => 0,
            Self::Userspace(userspace) => userspace.lanes.traffic_class(group),
        }
    }

    /// Accounts for a packet of `payload_bytes` (header included) that leaves now, and completes
    /// its header.
    pub fn depart(&mut self, now_ns: u64, header: &mut Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.depart(now_ns, header, payload_bytes),
            Self::Userspace(userspace) => userspace.lanes.depart(now_ns, header, payload_bytes),
        }
    }

    /// Takes back a packet that `depart` counted but that did not leave. Call in reverse order.
    pub fn take_back(&mut self, header: &Header, payload_bytes: u32) {
        match self {
            Self::Kernel(kernel) => kernel.take_back(header, payload_bytes),
            Self::Userspace(userspace) => userspace.lanes.take_back(header, payload_bytes),
        }
    }

    /// The probe that must leave before the next packet, if one is due, and its group.
    pub fn next_probe(&mut self, now_ns: u64, sender: &Sender) -> Option<(u8, [u8; PROBE_LEN])> {
        match self {
            Self::Kernel(kernel) => kernel.next_probe(now_ns, sender),
            Self::Userspace(_) => None,
        }
    }

    /// The most packets of a group that may share a GSO buffer.
    pub fn gso_packets(&self, group: u8) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.gso_packets(group),
            Self::Userspace(_) => 1,
        }
    }

    /// The largest `gso_packets` of all groups.
    pub fn gso_packets_max(&self) -> usize {
        match self {
            Self::Kernel(kernel) => kernel.gso_packets_max(),
            Self::Userspace(_) => 1,
        }
    }

    /// Records whether a group's probe left.
    pub fn probe_sent(&mut self, now_ns: u64, sender: &mut Sender, group: u8, left: bool) {
        if let Self::Kernel(kernel) = self {
            kernel.probe_sent(now_ns, sender, group, left);
        }
    }

    /// Notes that a packet ended the thread's sleep.
    pub fn woken_by_packet(&mut self) {
        if let Self::Userspace(userspace) = self {
            userspace.lanes.woken_by_packet();
        }
    }

    /// Notes that a timer ended the thread's sleep, `late_ns` after its time.
    pub fn timer_was_late(&mut self, late_ns: u64) {
        if let Self::Userspace(userspace) = self {
            userspace.lanes.timer_was_late(late_ns);
        }
    }

    /// How often a thread whose lanes' windows are full looks for acknowledgments, nanoseconds;
    /// `None` if acknowledgments wake it.
    pub fn ack_poll_ns(&self) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => Some(kernel.ack_poll_ns()),
            Self::Userspace(_) => None,
        }
    }

    /// Records an ACK that came on the socket and named the right cookie. `arrived`: when its
    /// packet did, by the receiver's clock.
    pub fn on_ack(&mut self, now_ns: u64, header: &Header, arrived: Option<u32>) {
        match self {
            Self::Kernel(kernel) => kernel.on_stray_ack(now_ns),
            Self::Userspace(userspace) => userspace.lanes.on_ack(now_ns, header, arrived),
        }
    }

    /// The current status of a group's lane.
    pub fn lane(&self, group: u8) -> LaneStatus {
        match self {
            Self::Kernel(kernel) => kernel.status(group),
            Self::Userspace(userspace) => userspace.lanes.status(group),
        }
    }

    /// Notes that `packets` of data were given to the socket.
    pub fn data_sent(&mut self, now_ns: u64, packets: usize) {
        if let Self::Kernel(kernel) = self {
            kernel.data_sent(now_ns, packets);
        }
    }

    /// Forgets uncounted packets: this host reported that the peer can't be reached.
    pub fn excuse_uncounted(&mut self, now_ns: u64) {
        if let Self::Kernel(kernel) = self {
            kernel.excuse_uncounted(now_ns);
        }
    }

    /// Since when this host has let no packet out, although some wait to leave. In userspace it
    /// isn't known: there packets count as sent once the socket has them.
    pub fn withheld_since_ns(&self, in_flight: u32) -> Option<u64> {
        match self {
            Self::Kernel(kernel) => kernel.withheld_since_ns(in_flight),
            Self::Userspace(_) => None,
        }
    }

    /// Why the flow must leave the kernel datapath, if it must.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Kernel(kernel) => kernel.end(),
            Self::Userspace(_) => None,
        }
    }

    /// The connection to the daemon, whose end is the end of the kernel datapath.
    pub fn control(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Kernel(kernel) => Some(kernel.control()),
            Self::Userspace(_) => None,
        }
    }

    /// Whether acknowledgments come without a wakeup, so that the sender thread must poll for them.
    pub fn must_poll_acks(&self) -> bool {
        match self {
            Self::Kernel(_) => true,
            Self::Userspace(userspace) => userspace.lanes.reads_ring(),
        }
    }
}
