//! Finds the flow, job and lane of a packet.

use crate::maps::{FLOWS, JOBS, LANE_CONTROL, LANE_STATE, PORTS};
use atp_common::maps::{
    Flow, JOB_ACTIVE, Job, LANE_NONE, LaneControl, LaneState, PORT_RECEIVER, PORT_SENDER, PortEntry,
};
use aya_ebpf::{helpers::generated::bpf_get_socket_cookie, programs::TcContext};

/// The registration of a sender at `port`.
#[inline(always)]
pub fn sender_at(port: u16) -> Option<&'static PortEntry> {
    PORTS.get(u32::from(port)).filter(|entry| entry.role == PORT_SENDER)
}

/// The registration of a receiver at this end.
#[inline(always)]
pub fn receiver_at(end: &End) -> Option<&'static PortEntry> {
    let entry = PORTS.get(u32::from(end.port))?;
    (entry.role == PORT_RECEIVER && is_bound_to(&entry.address, &end.address)).then_some(entry)
}

/// Whether a packet that leaves comes from the registered socket. Packets that arrive have no
/// socket yet: for them a registration holds until the daemon notices that its socket is closed.
#[inline(always)]
pub fn is_from_socket_of(ctx: &TcContext, entry: &PortEntry) -> bool {
    // SAFETY: the program's context; 0 if the packet has no socket.
    let socket = || unsafe { bpf_get_socket_cookie(ctx.skb.skb.cast()) };
    entry.socket == PortEntry::ANY_SOCKET || entry.socket == socket()
}

/// Whether a socket that is bound to `bound` gets packets to `address`.
#[inline(always)]
fn is_bound_to(bound: &[u8; 16], address: &[u32; 4]) -> bool {
    let any_ipv4 = Flow::mapped([0; 4]);
    let is_ipv4 = address[0] == 0 && address[1] == 0 && address[2] == u32::from_be(0xffff);
    equal(bound, address) || equal(bound, &[0; 4]) || (is_ipv4 && equal(bound, &words(&any_ipv4)))
}

#[inline(always)]
fn words(address: &[u8; 16]) -> [u32; 4] {
    // SAFETY: both are 16 bytes of plain data.
    unsafe { core::mem::transmute(*address) }
}

/// One end of a flow.
pub struct End {
    /// The address, in words as they are in a packet.
    pub address: [u32; 4],
    /// The port, host byte order.
    pub port: u16,
}

/// The flow at `index`, if it runs between these ends.
#[inline(always)]
pub fn between(index: u32, local: &End, remote: &End) -> Option<&'static Flow> {
    let flow = FLOWS.get(index)?;
    let same = flow.remote_port == remote.port
        && flow.local_port == local.port
        && equal(&flow.remote, &remote.address)
        && equal(&flow.local, &local.address);
    if same { Some(flow) } else { None }
}

#[inline(always)]
fn equal(stored: &[u8; 16], address: &[u32; 4]) -> bool {
    let stored = core::ptr::from_ref(stored).cast::<u32>();
    // SAFETY: the addresses in a `Flow` and a `PortEntry` are at multiples of four in an aligned
    // map value.
    let word = |i: usize| unsafe { stored.add(i).read() };
    (word(3) ^ address[3])
        | (word(0) ^ address[0])
        | (word(1) ^ address[1])
        | (word(2) ^ address[2])
        == 0
}

/// The job of a flow, while it is active.
#[inline(always)]
pub fn job(flow: &Flow) -> Option<&'static Job> {
    JOBS.get(flow.job_index).filter(|job| job.state == JOB_ACTIVE)
}

/// The index of a group's lane.
#[inline(always)]
pub fn lane(flow: &Flow, group: u8) -> Option<u32> {
    let lane = flow.lanes[group as usize];
    if lane == LANE_NONE { None } else { Some(u32::from(lane)) }
}

/// The controller's settings of a lane; `None` while the lane is not in use.
#[inline(always)]
pub fn control(lane: u32) -> Option<&'static LaneControl> {
    LANE_CONTROL.get(lane).filter(|control| control.active != 0)
}

/// The epoch and the DSCP of packets that leave now. Each is read once, in one load, because the
/// controller may open the next epoch at the same time.
#[inline(always)]
pub fn epoch_and_dscp(control: &LaneControl) -> (u16, u32) {
    // SAFETY: fields of a map value.
    unsafe {
        let epoch = (&raw const control.epoch).read_volatile();
        (epoch as u16, (&raw const control.dscp).read_volatile())
    }
}

/// The programs' state of a lane.
#[inline(always)]
pub fn state(lane: u32) -> Option<*mut LaneState> {
    LANE_STATE.get_ptr_mut(lane)
}
