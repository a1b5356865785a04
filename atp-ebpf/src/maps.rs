//! The maps. Their element types and sizes are in `atp_common::maps`.

use atp_common::maps::{
    self as layout, ACK_RING_WORDS, ADVISED_LANES, ArrivedBytes, ArrivedLane, Config, Counter,
    Flow, Job, LANES, LaneControl, LaneLaw, LaneState, PortEntry, RING_TAIL_WORDS,
    arrivals::{
        ADMITTED as ADMITTED_MAX, ARRIVALS, ARRIVALS_LEN, ArrivalKey, NEWCOMERS as NEWCOMERS_MAX,
    },
};
use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{self, ArrayOfMaps},
    macros::{btf_map, map},
    maps::{Array, HashMap, LruHashMap, PerCpuArray, ProgramArray},
};

/// The daemon's settings: one element, written through a memory mapping.
#[map]
pub static CONFIG: Array<Config> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The roles of local UDP ports, by port in host byte order.
#[map]
pub static PORTS: Array<PortEntry> = Array::with_max_entries(1 << 16, 0);

/// The flows, by the index that `PORTS` holds. Written by the daemon.
#[map]
pub static FLOWS: Array<Flow> = Array::with_max_entries(layout::FLOWS, 0);

/// The jobs, by the index that flows, `BOUND_IDS` and `CGROUPS` hold. Written by the daemon.
#[map]
pub static JOBS: Array<Job> = Array::with_max_entries(layout::JOBS, 0);

/// Index of a job that is bound to a cgroup, by its id, which an unregistered sender may claim.
/// The ids of other jobs are names that each user chooses.
#[map]
pub static BOUND_IDS: HashMap<u32, u32> = HashMap::with_max_entries(layout::JOBS, 0);

/// Index of a job by the id of its cgroup.
#[map]
pub static CGROUPS: HashMap<u64, u32> = HashMap::with_max_entries(layout::JOBS, 0);

/// The lanes' settings, written by the daemon through a memory mapping.
#[map]
pub static LANE_CONTROL: Array<LaneControl> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// The lanes' state and counters, written by the programs. The daemon reads them, and zeroes cells,
/// through a memory mapping.
#[map]
pub static LANE_STATE: Array<LaneState> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// The lanes' laws, with epochs in the kernel. Written by the daemon when a lane opens, then by the
/// programs.
#[map]
pub static LANE_LAW: Array<LaneLaw> = Array::with_max_entries(LANES, BPF_F_MMAPABLE);

/// The programs that run laws for tc, with epochs in the kernel: for packets that pass, and for
/// those that end here.
#[map]
pub static LAW_TC: ProgramArray = ProgramArray::with_max_entries(2, 0);
/// The program that runs laws for XDP, with epochs in the kernel.
#[map]
pub static LAW_XDP: ProgramArray = ProgramArray::with_max_entries(1, 0);

/// The lane whose law is due, for the program that runs laws: an element for each processor. Where
/// programs preempt each other (PREEMPT_RT), it can be the lane of another packet. Then that one's
/// law runs if it is due, and this one's at the next packet.
#[map]
pub static DUE: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

/// Event counters, and with them [`LOG_LINES`], are added to with atomic operations, although each
/// processor has its own: under PREEMPT_RT another program may run in the middle of an addition.
#[map]
pub static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Counter::COUNT, 0);

/// Lines that the programs had for the log. The daemon compares them with the lines that it read.
#[map]
pub static LOG_LINES: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// The ring of delivery bits of each flow, which the library maps read-only.
#[btf_map]
pub static ACK_RINGS: ArrayOfMaps<AckRing, { layout::FLOWS as usize }> = ArrayOfMaps::new();

type AckRing = btf_maps::Array<
    u64,
    { (ACK_RING_WORDS + RING_TAIL_WORDS) as usize },
    { BPF_F_MMAPABLE as usize },
>;

/// Arrivals of the lanes of admitted sources, until their sender's PROBE. The daemon enlarges this
/// map and the next two for hosts with many processors.
#[map]
pub static ARRIVED: LruHashMap<ArrivalKey, [u64; ARRIVALS_LEN]> =
    LruHashMap::with_max_entries(ARRIVALS, 0);

/// Arrivals of the lanes of sources that no receiver has admitted yet.
#[map]
pub static NEWCOMERS: LruHashMap<ArrivalKey, [u64; ARRIVALS_LEN]> =
    LruHashMap::with_max_entries(NEWCOMERS_MAX, 0);

/// Admitted sources, with their lanes in `ARRIVED`: a receiving library has sent each a RECEIPT.
#[map]
pub static ADMITTED: LruHashMap<ArrivalKey, u64> = LruHashMap::with_max_entries(ADMITTED_MAX, 0);

/// Lanes that get advice, with their index in `ARRIVED_LANES`. Written by the daemon, for lanes
/// that a receiving library has admitted: strangers add none.
#[map]
pub static ADVISED: HashMap<ArrivalKey, u32> = HashMap::with_max_entries(ADVISED_LANES, 0);

/// The arrivals of those lanes. The daemon reads it through a memory mapping.
#[map]
pub static ARRIVED_LANES: Array<ArrivedLane> =
    Array::with_max_entries(ADVISED_LANES, BPF_F_MMAPABLE);

/// Bytes that arrived over each interface, by processor. The daemon has an element made for each
/// processor, and reads them through a memory mapping.
#[map]
pub static ARRIVED_BYTES: Array<ArrivedBytes> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The initial record of a lane, all zero. It is too large for a program's stack.
#[map]
pub static NOTHING_ARRIVED: Array<[u64; ARRIVALS_LEN]> = Array::with_max_entries(1, 0);

/// The daemon's settings.
#[inline(always)]
pub fn config() -> Option<&'static Config> {
    CONFIG.get(0)
}
