//! The maps; their element types and sizes are `atp_common::maps`.

use crate::{law::Due, verdict::Refusal};
use atp_common::maps::{
    self as layout, ACK_RING_WORDS, ANSWER_WORDS, Config, Counter, Flow, Job, LANES, LaneControl,
    LaneLaw, LaneState, PortEntry,
    arrivals::{ARRIVALS, ARRIVALS_LEN, ArrivalKey},
};
use atp_common::wire::ProbeBody;
use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{self, ArrayOfMaps},
    macros::{btf_map, map},
    maps::{Array, HashMap, LruHashMap, PerCpuArray, ProgramArray},
};

/// One element, written by the daemon through a memory mapping.
#[map]
pub static CONFIG: Array<Config> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// By local UDP port, host byte order.
#[map]
pub static PORTS: Array<PortEntry> = Array::with_max_entries(1 << 16, 0);

#[map]
pub static FLOWS: Array<Flow> = Array::with_max_entries(layout::FLOWS, 0);

#[map]
pub static JOBS: Array<Job> = Array::with_max_entries(layout::JOBS, 0);

/// Index of a job by its id: what an unregistered sender claims to be.
#[map]
pub static JOB_IDS: HashMap<u32, u32> = HashMap::with_max_entries(layout::JOBS, 0);

/// Index of a job by the id of its cgroup.
#[map]
pub static CGROUPS: HashMap<u64, u32> = HashMap::with_max_entries(layout::JOBS, 0);

/// Written by the daemon through a memory mapping.
#[map]
pub static LANE_CONTROL: Array<LaneControl> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// Written here; the daemon reads it, and zeroes cells, through a memory mapping.
#[map]
pub static LANE_STATE: Array<LaneState> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// Written by the daemon when a lane opens, then here; only with epochs in the kernel.
#[map]
pub static LANE_LAW: Array<LaneLaw> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// The program of laws, if epochs are the kernel's: for tc, and for XDP.
#[map]
pub static LAW_TC: ProgramArray = ProgramArray::with_max_entries(1, 0);
#[map]
pub static LAW_XDP: ProgramArray = ProgramArray::with_max_entries(1, 0);

/// Whose law is to run, one per processor.
#[map]
pub static DUE: PerCpuArray<Due> = PerCpuArray::with_max_entries(1, 0);

#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);

/// By flow: its ring of delivery bits, which the library maps read-only.
#[btf_map]
pub static ACK_RINGS: ArrayOfMaps<AckRing, { layout::FLOWS as usize }> = ArrayOfMaps::new();

type AckRing =
    btf_maps::Array<u64, { (ACK_RING_WORDS + ANSWER_WORDS) as usize }, { BPF_F_MMAPABLE as usize }>;

/// What arrived of other hosts' lanes, for who will ask.
#[map]
pub static ARRIVED: LruHashMap<ArrivalKey, [u64; ARRIVALS_LEN]> =
    LruHashMap::with_max_entries(ARRIVALS, 0);

/// Where a PROBE's answer is made, one per processor.
#[map]
pub static ANSWER: PerCpuArray<ProbeBody> = PerCpuArray::with_max_entries(1, 0);

/// All zero: what a lane begins with that is too large for a program's stack.
#[map]
pub static NOTHING_ARRIVED: Array<[u64; ARRIVALS_LEN]> = Array::with_max_entries(1, 0);

/// The daemon's settings; a datapath without a daemon is nobody's.
#[inline(always)]
pub fn config() -> Result<&'static Config, Refusal> {
    CONFIG.get(0).ok_or(Refusal::Foreign)
}
