use super::GROUPS;
use bytemuck::{Pod, Zeroable};

/// A UDP port from which a registered flow sends.
pub const PORT_SENDER: u8 = 1;
/// A UDP port on which a registered receiver listens.
pub const PORT_RECEIVER: u8 = 2;

/// The role of a local UDP port; element `port` of an array of 65,536. All zero: no role.
///
/// A registration is one of a socket, not of its port. Other sockets may have the same port: beside
/// this one (`SO_REUSEPORT`), or after it, until the daemon notices that it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct PortEntry {
    /// The kernel's cookie of the registered socket, which it gives to no other one until the host
    /// restarts; or [`PortEntry::ANY_SOCKET`].
    pub socket: u64,
    /// For a receiver: the address that it is bound to, in the form of [`Flow::local`]. `0.0.0.0`
    /// means every IPv4 address, `::` every address.
    pub address: [u8; 16],
    /// For a sender: its element in the array of flows.
    pub flow: u16,
    /// [`PORT_SENDER`], [`PORT_RECEIVER`] or 0.
    pub role: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

const _: () = assert!(size_of::<PortEntry>() == 32);

impl PortEntry {
    /// Instead of a cookie: packets of every socket. For runs of single programs
    /// (`BPF_PROG_TEST_RUN`), whose packets come from a new socket each. No socket has this cookie,
    /// the daemon registers none with it, and a cleared entry hasn't it.
    pub const ANY_SOCKET: u64 = u64::MAX;

    /// The entry of a registered sender's port.
    pub const fn sender(flow: u16, socket: u64) -> Self {
        Self { socket, address: [0; 16], flow, role: PORT_SENDER, reserved: [0; 5] }
    }

    /// The entry of a receiver's port that is bound to `address`.
    pub const fn receiver(address: [u8; 16], socket: u64) -> Self {
        Self { socket, address, flow: 0, role: PORT_RECEIVER, reserved: [0; 5] }
    }
}

/// The group has no lane: its packets are dropped and counted.
pub const LANE_NONE: u16 = u16::MAX;

/// One connected UDP socket that sends for one job to one destination. The flow's ACK ring is the
/// element of the same index in an array of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Flow {
    /// The local address; IPv4 as `::ffff:a.b.c.d`.
    pub local: [u8; 16],
    /// The destination's address, in the same form.
    pub remote: [u8; 16],
    /// The local port, host byte order.
    pub local_port: u16,
    /// The destination's port, host byte order.
    pub remote_port: u16,
    /// The job's element in the array of jobs.
    pub job_index: u32,
    /// The secret that its packets carry and its ACKs echo. Every flow has its own, so that a
    /// receiver can't take a job's next run from the same port for duplicates.
    pub cookie: u32,
    /// The lane of each group, or [`LANE_NONE`].
    pub lanes: [u16; GROUPS],
}

const _: () = assert!(size_of::<Flow>() == 44 + 2 * GROUPS);

impl Flow {
    /// `::ffff:a.b.c.d`, the form in which IPv4 addresses are compared.
    pub const fn mapped(ipv4: [u8; 4]) -> [u8; 16] {
        let [a, b, c, d] = ipv4;
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }
}
