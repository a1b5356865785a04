//! Loads the eBPF programs with the daemon's loader and runs them by `BPF_PROG_TEST_RUN`.

use crate::packets::{COOKIE, End, GROUP, JOB, RECEIVER, SENDER};
use anyhow::{Context, Result};
use atp_common::maps::{
    ACK_RING_WORDS, Config, Flow, GROUPS, JOB_ACTIVE, Job, LANE_NONE, LaneControl, PortEntry,
    RING_TAIL_WORDS, ack_ring,
};
use atp_datapath::{Datapath, EGRESS, INGRESS, Object, PacketLog, XDP, pacing::Backend};
use aya::{
    TestRunOptions,
    programs::{Program, TestRun},
};
use bytemuck::{Pod, Zeroable};
use nix::{
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
    time::{ClockId, clock_gettime},
};
use std::{ffi::c_void, num::NonZeroUsize, os::fd::OwnedFd, ptr::NonNull};

/// A tc program's `TC_ACT_UNSPEC`: the packet continues as without the program.
pub const TC_PASS: i32 = -1;
/// A tc program's drop.
pub const TC_DROP: i32 = 2;
/// A tc program's redirect to the device that the helper named.
pub const TC_REDIRECT: i32 = 7;
/// An XDP program's pass.
pub const XDP_PASS: i32 = 2;
/// An XDP program's drop.
pub const XDP_DROP: i32 = 1;

/// The lane of the test flow.
pub const LANE: u16 = 9;
/// The lane's rate. Even an emulated machine runs a program in much less time than a packet takes
/// at this rate.
pub const RATE_BYTES_PER_S: u64 = 40_000;
/// The lane's epoch.
pub const EPOCH: u16 = 300;
/// The lane's DSCP.
pub const DSCP: u8 = 19;
/// The DSCPs that ingress counts as approximate, one bit each.
const APPROXIMATE_DSCPS: u64 = 1 << DSCP;
/// Pacing horizon: the latest departure time, relative to now.
pub const HORIZON_NS: u64 = 10_000_000_000;
/// The rate of a lane without a heartbeat.
pub const SAFE_RATE_BYTES_PER_S: u64 = 16_000;
/// The mark of clones that become ACKs.
pub const ACK_MARK: u32 = 0x1234_5678;
/// The greatest age of a valid heartbeat, longer than any test.
const HEARTBEAT_NS_MAX: u64 = 3_600_000_000_000;
/// Index of the job in the programs' maps.
pub const JOB_INDEX: u32 = 3;

const FLOW_IPV4: u16 = 2;
const FLOW_IPV6: u16 = 4;
const PACKET_BYTES_MAX: usize = 4096;

/// The fields of `struct __sk_buff` that test runs can set or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SkBuff {
    len: u32,
    pkt_type: u32,
    /// The packet's mark.
    pub mark: u32,
    unused_1: [u32; 5],
    /// The packet's class, under HTB.
    pub priority: u32,
    unused_2: u32,
    /// The index of its device.
    pub ifindex: u32,
    unused_3: [u32; 27],
    /// The departure time, under fq.
    pub tstamp: u64,
    /// Length on the wire.
    pub wire_len: u32,
    /// Number of segments of a GSO buffer.
    pub gso_segs: u32,
    unused_4: [u32; 2],
    /// Segment size of a GSO buffer.
    pub gso_size: u32,
    unused_5: u32,
    hwtstamp: u64,
}

const _: () = assert!(size_of::<SkBuff>() == 192);

impl SkBuff {
    /// The context of a packet with a mark.
    pub fn with_mark(mark: u32) -> Self {
        Self { mark, ..Self::zeroed() }
    }

    /// The context of a GSO buffer.
    pub fn with_segments(gso_segs: u32, gso_size: u32) -> Self {
        Self { gso_segs, gso_size, ..Self::zeroed() }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The program's return value.
    pub verdict: i32,
    /// The packet.
    pub packet: Vec<u8>,
    /// The packet's context; all zero after XDP.
    pub skb: SkBuff,
}

/// The loaded programs with one job, one lane and a registered receiver. There are two flows, over
/// IPv4 and over IPv6. [`Rig::use_flow`] chooses the one that has the sender's port.
pub struct Rig {
    /// The daemon's view.
    pub datapath: Datapath,
    rings: [Ring; 2],
}

impl Rig {
    /// Loads the programs for fq.
    pub fn new() -> Result<Self> {
        Self::with_backend(Backend::Fq)
    }

    /// Loads the programs.
    pub fn with_backend(backend: Backend) -> Result<Self> {
        Self::load(backend, PacketLog::Off)
    }

    /// Loads the programs for fq, with their log of packets.
    pub fn with_log(log: PacketLog) -> Result<Self> {
        Self::load(Backend::Fq, log)
    }

    fn load(backend: Backend, log: PacketLog) -> Result<Self> {
        let path = testbed::object()?;
        let config = Config {
            heartbeat_ns: now_ns(),
            heartbeat_ns_max: HEARTBEAT_NS_MAX,
            safe_rate_bytes_per_s: SAFE_RATE_BYTES_PER_S,
            horizon_ns: HORIZON_NS,
            backend: 0,
            generation: 0,
            ack_mark: ACK_MARK,
            counts_arrivals: 0,
            approximate_dscps: APPROXIMATE_DSCPS,
        };
        let datapath = Datapath::load_for(&Object::from_file(&path)?, config, backend, log)?;
        let job = Job { cgroup: 0, id: JOB, state: JOB_ACTIVE };
        datapath.add_job(JOB_INDEX, &job)?;
        let rings = [Ring::new(&datapath, FLOW_IPV4)?, Ring::new(&datapath, FLOW_IPV6)?];
        let receiver = PortEntry::receiver([0; 16], PortEntry::ANY_SOCKET);
        datapath.set_port(RECEIVER.port, receiver)?;
        let rig = Self { datapath, rings };
        rig.renew_lane();
        rig.use_flow(false)?;
        Ok(rig)
    }

    /// Resets the lane: nothing sent, nothing measured.
    pub fn renew_lane(&self) {
        self.datapath.lanes().reset(LANE);
        self.datapath.lanes().open_cell(LANE, EPOCH);
        self.datapath.lanes().store_control(LANE, &control());
    }

    /// Assigns the sender's port to the flow over IPv4 or over IPv6.
    pub fn use_flow(&self, ipv6: bool) -> Result<()> {
        let index = if ipv6 { FLOW_IPV6 } else { FLOW_IPV4 };
        self.datapath.set_flow(u32::from(index), &flow(ipv6))?;
        let sender = PortEntry::sender(index, PortEntry::ANY_SOCKET);
        Ok(self.datapath.set_port(SENDER.port, sender)?)
    }

    /// Runs the egress program.
    pub fn egress(&self, packet: &[u8]) -> Result<Outcome> {
        self.run(EGRESS, packet, SkBuff::zeroed())
    }

    /// Runs the egress program on a marked clone.
    pub fn egress_marked(&self, packet: &[u8]) -> Result<Outcome> {
        self.run(EGRESS, packet, SkBuff::with_mark(ACK_MARK))
    }

    /// Runs the ingress program.
    pub fn ingress(&self, packet: &[u8]) -> Result<Outcome> {
        self.run(INGRESS, packet, SkBuff::zeroed())
    }

    /// Runs the XDP program.
    pub fn xdp(&self, packet: &[u8]) -> Result<Outcome> {
        self.run(XDP, packet, SkBuff::zeroed())
    }

    /// Runs a program by name, in this context (not for XDP).
    pub fn run(&self, program: &str, packet: &[u8], skb: SkBuff) -> Result<Outcome> {
        let mut out = vec![0; PACKET_BYTES_MAX];
        let mut skb_out = SkBuff::zeroed();
        let ebpf = self.datapath.ebpf();
        let program = ebpf.program(program).context("no such program")?;
        let mut options = TestRunOptions {
            data_in: Some(packet),
            data_out: Some(&mut out),
            ..TestRunOptions::default()
        };
        let result = match program {
            Program::SchedClassifier(program) => {
                options.ctx_in = Some(bytemuck::bytes_of(&skb));
                options.ctx_out = Some(bytemuck::bytes_of_mut(&mut skb_out));
                program.test_run(options)?
            }
            Program::Xdp(program) => program.test_run(options)?,
            _ => anyhow::bail!("neither tc nor XDP"),
        };
        out.truncate(result.data_size_out as usize);
        Ok(Outcome { verdict: result.return_value.cast_signed(), packet: out, skb: skb_out })
    }

    /// A counter of the programs.
    pub fn counter(&self, name: &str) -> Result<u64> {
        self.datapath.counters()?.get(name).copied().with_context(|| format!("no counter {name}"))
    }

    /// Whether the ACK ring of the flow over IPv4 (or IPv6) has `slot` as delivered.
    pub fn delivered(&self, ipv6: bool, slot: u32) -> bool {
        self.rings[usize::from(ipv6)].contains(slot)
    }

    /// A word of that flow's ACK map.
    pub fn ring_word(&self, ipv6: bool, position: u32) -> u64 {
        self.rings[usize::from(ipv6)].word(position)
    }
}

/// The test flow.
pub fn flow(ipv6: bool) -> Flow {
    let address = |end: &End| if ipv6 { end.ipv6() } else { Flow::mapped(end.ipv4) };
    let mut lanes = [LANE_NONE; GROUPS];
    lanes[usize::from(GROUP)] = LANE;
    Flow {
        local: address(&SENDER),
        remote: address(&RECEIVER),
        local_port: SENDER.port,
        remote_port: RECEIVER.port,
        job_index: JOB_INDEX,
        cookie: COOKIE,
        lanes,
    }
}

/// The lane's control entry.
pub fn control() -> LaneControl {
    LaneControl {
        rate_bytes_per_s: RATE_BYTES_PER_S,
        htb_class: 0xa7a7_0042,
        dscp: u32::from(DSCP),
        epoch: u32::from(EPOCH),
        active: 1,
        due_ns: 0,
        ..LaneControl::default()
    }
}

/// The present time of CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// A flow's ACK ring, mapped read-only from the frozen descriptor as the library maps it.
struct Ring {
    memory: NonNull<c_void>,
    _fd: OwnedFd,
}

const RING_BYTES: usize = (ACK_RING_WORDS + RING_TAIL_WORDS) as usize * size_of::<u64>();

impl Ring {
    fn new(datapath: &Datapath, flow: u16) -> Result<Self> {
        let fd = datapath.new_ack_ring(u32::from(flow))?;
        let len = NonZeroUsize::new(RING_BYTES).context("empty")?;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory =
            unsafe { mmap(None, len, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &fd, 0)? };
        Ok(Self { memory, _fd: fd })
    }

    fn contains(&self, slot: u32) -> bool {
        ack_ring::contains(self.word(ack_ring::position(slot, ACK_RING_WORDS)), slot)
    }

    fn word(&self, position: u32) -> u64 {
        assert!(position < ACK_RING_WORDS + RING_TAIL_WORDS);
        // SAFETY: inside the mapping, which is as long as the ring; the programs write it.
        unsafe { self.memory.cast::<u64>().add(position as usize).read_volatile() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no longer used.
        let unmapped = unsafe { munmap(self.memory, RING_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}
