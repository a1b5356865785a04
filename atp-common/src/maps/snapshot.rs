//! The snapshot pages: what a daemon shows of its host, in memory that any number of clients read
//! without asking it.
//!
//! | page | content | readers |
//! |---|---|---|
//! | [`SnapshotPage`] | numbers of the host, its jobs and its lanes | every client |
//! | [`IdentityPage`] | names, addresses, processes | root, and the daemon's own user |
//!
//! The control loop writes a lane's entry at every tick, and another thread the [`Telemetry`].
//! Entries that are all zero are not in use. Text is UTF-8, ended by zeroes.

use super::{JOBS, LANES, Sequenced};
use bytemuck::{Pod, Zeroable};
use core::mem::{offset_of, size_of};

/// The value of [`SnapshotHeader::magic`]: the pages' name, and the version of their layout.
pub const SNAPSHOT_MAGIC: u64 = u64::from_le_bytes(*b"ATPsnap\x03");
/// The most interfaces that the page shows.
pub const SNAPSHOT_INTERFACES: usize = 64;
/// Room for event counters.
pub const SNAPSHOT_COUNTERS: usize = 64;
/// Room for programs.
pub const SNAPSHOT_PROGRAMS: usize = 8;

/// The page for every client.
#[repr(C)]
pub struct SnapshotPage {
    /// Written once, except the words that say so.
    pub header: SnapshotHeader,
    /// Counters and run times.
    pub telemetry: Sequenced<Telemetry>,
    /// Flows whose packets pass no program.
    pub coverage: Sequenced<CoverageEntry>,
    /// The interfaces.
    pub interfaces: [Sequenced<InterfaceEntry>; SNAPSHOT_INTERFACES],
    /// The jobs, by index in the datapath.
    pub jobs: [Sequenced<JobEntry>; JOBS as usize],
    /// The lanes, by index in the datapath.
    pub lanes: [Sequenced<LaneEntry>; LANES as usize],
}

/// The page for root and the daemon's own user.
#[repr(C)]
pub struct IdentityPage {
    /// [`SNAPSHOT_MAGIC`].
    pub magic: u64,
    /// The jobs, by index in the datapath.
    pub jobs: [Sequenced<JobIdentity>; JOBS as usize],
    /// The lanes, by index in the datapath.
    pub lanes: [Sequenced<LaneIdentity>; LANES as usize],
}

/// The head of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SnapshotHeader {
    /// [`SNAPSHOT_MAGIC`].
    pub magic: u64,
    /// When the daemon started, nanoseconds of CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// When the control loop ran last; written at every tick.
    pub ticked_ns: u64,
    /// One above the highest index of a lane so far; grows.
    pub lanes_end: u64,
    /// Not 0 once the daemon has ended.
    pub ended: u64,
    /// Not 0 if the programs evaluate epochs.
    pub epochs_in_kernel: u64,
    /// `fq` or `htb`.
    pub pacing: [u8; 16],
    /// The name of the rate law.
    pub law: [u8; 16],
    /// Requests that the operator's policy refused because of `jobs_max`.
    pub refused_by_jobs_max: u64,
    /// Requests that the policy refused because of `msr_min`.
    pub refused_by_msr_min: u64,
    /// Requests that the policy refused because of `queue_highest`.
    pub refused_by_queue_highest: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

const _: () = assert!(size_of::<SnapshotHeader>() == 128);

/// The last reading of counters and run times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Telemetry {
    /// When it began to read, nanoseconds of CLOCK_MONOTONIC; 0: never.
    pub read_ns: u64,
    /// How many counters there are; [`Counter`](super::Counter) names them.
    pub counter_count: u32,
    /// Not 0 if the kernel measures run times (`kernel.bpf_stats_enabled`).
    pub run_times_on: u32,
    /// Event counters, summed over processors.
    pub counters: [u64; SNAPSHOT_COUNTERS],
    /// The programs.
    pub programs: [ProgramEntry; SNAPSHOT_PROGRAMS],
}

const _: () =
    assert!(size_of::<Telemetry>() == 16 + 8 * SNAPSHOT_COUNTERS + 32 * SNAPSHOT_PROGRAMS);

/// Counts of flows whose packets pass no program of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CoverageEntry {
    /// Flows that were refused, because their route leads over another interface.
    pub refused_flows: u64,
    /// Flows whose packets ceased to pass the programs.
    pub lost_flows: u64,
    /// Flows that came back from userspace.
    pub returned_flows: u64,
    /// The reason of the last refusal or loss; empty if there was none.
    pub last_reason: [u8; 256],
}

const _: () = assert!(size_of::<CoverageEntry>() == 280);

/// A program's runs while the kernel measured them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ProgramEntry {
    /// The program's name.
    pub name: [u8; 16],
    /// The time of all runs, nanoseconds.
    pub run_ns: u64,
    /// The number of runs.
    pub runs: u64,
}

/// An interface of the datapath.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct InterfaceEntry {
    /// The interface's name.
    pub name: [u8; 16],
    /// The hook that consumes ACKs, `native` or `tc`; `gone` or `not covered` if it can't be used.
    pub hook: [u8; 16],
}

const _: () = assert!(size_of::<InterfaceEntry>() == 32);

/// A job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct JobEntry {
    /// When it was created, nanoseconds of CLOCK_MONOTONIC; 0: there is none.
    pub created_ns: u64,
    /// The job's id.
    pub id: u32,
    /// The user who created it.
    pub uid: u32,
    /// Sockets registered for sending.
    pub flows: u32,
    /// Not 0 if it ends with its last socket.
    pub ephemeral: u32,
    /// The container of that user; 0 outside of containers.
    pub container: u64,
}

const _: () = assert!(size_of::<JobEntry>() == 32);

/// The names of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct JobIdentity {
    /// [`JobEntry::created_ns`] of the job that this entry describes.
    pub created_ns: u64,
    /// The job's name; empty if it has none.
    pub name: [u8; 64],
    /// The path of its cgroup; empty if it has none.
    pub cgroup: [u8; 4096],
}

const _: () = assert!(size_of::<JobIdentity>() == 4168);

/// A lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneEntry {
    /// When it was opened, nanoseconds of CLOCK_MONOTONIC; 0: there is none.
    pub opened_ns: u64,
    /// The id of its job.
    pub job: u32,
    /// The index of its flow: lanes of one socket share it.
    pub flow: u32,
    /// The lane's group.
    pub group: u32,
    /// The lane's queue at the switches.
    pub queue: u32,
    /// The lane's rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// Smoothed round-trip time, nanoseconds; 0 before the first ACK.
    pub rtt_smoothed_ns: u64,
    /// The RTT's mean deviation, nanoseconds.
    pub rtt_variation_ns: u64,
    /// The least round-trip time, nanoseconds.
    pub rtt_min_ns: u64,
    /// Packets that left; [`LaneEntry::NOT_COUNTED`] if the programs evaluate epochs.
    pub sent_packets: u64,
    /// Their bytes on the wire, or [`LaneEntry::NOT_COUNTED`].
    pub sent_bytes: u64,
    /// Packets dropped because their departure lay too far in the future.
    pub too_far_packets: u64,
    /// Target loss rate, Q16.
    pub tlr_q16: u32,
    /// Loss of the last evaluated epoch, Q16.
    pub loss_q16: u32,
    /// The current epoch.
    pub epoch: u32,
    /// How many epochs were evaluated.
    pub epochs_evaluated: u32,
    /// The DSCP of its packets, or [`LaneControl::DSCP_KEEP`](super::LaneControl::DSCP_KEEP).
    pub dscp: u32,
    /// How many packets may leave together.
    pub burst_packets: u32,
    /// N, as its sender reports it.
    pub messages: u32,
    /// Messages with a receipt, as its sender reports them.
    pub delivered: u32,
    /// Lost messages, as its sender reports them.
    pub lost: u32,
    /// MSR, parts per billion.
    pub msr_parts_per_billion: u32,
    /// The receiver's advice, bytes per second on the wire; 0 if there is none.
    pub advice_bytes_per_s: u64,
    /// One above the user of its job; 0 from a daemon of an earlier version.
    pub job_uid_plus_one: u64,
    /// The container of that user; 0 outside of containers.
    pub job_container: u64,
    /// Zero: room for the flow's coverage.
    pub reserved: [u64; 2],
}

const _: () = assert!(size_of::<LaneEntry>() == 160);

impl LaneEntry {
    /// A count that doesn't exist.
    pub const NOT_COUNTED: u64 = u64::MAX;
}

/// The socket and process of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct LaneIdentity {
    /// [`LaneEntry::opened_ns`] of the lane that this entry describes.
    pub opened_ns: u64,
    /// The local address; IPv4 as `::ffff:a.b.c.d`.
    pub local: [u8; 16],
    /// The destination's address, in the same form.
    pub remote: [u8; 16],
    /// The local port.
    pub local_port: u16,
    /// The destination's port.
    pub remote_port: u16,
    /// The user of the process that opened it.
    pub uid: u32,
    /// That process, in the daemon's PID namespace.
    pub pid: u32,
    /// The interface of link-local addresses; 0 if neither address is one.
    pub scope: u32,
    /// The name of that process.
    pub process: [u8; 16],
}

const _: () = assert!(size_of::<LaneIdentity>() == 72);

/// Where the entries of the page are.
impl SnapshotPage {
    /// The offset of an interface's entry.
    pub const fn interface(index: usize) -> usize {
        offset_of!(Self, interfaces) + index * size_of::<Sequenced<InterfaceEntry>>()
    }

    /// The offset of a job's entry.
    pub const fn job(index: usize) -> usize {
        offset_of!(Self, jobs) + index * size_of::<Sequenced<JobEntry>>()
    }

    /// The offset of a lane's entry.
    pub const fn lane(index: usize) -> usize {
        offset_of!(Self, lanes) + index * size_of::<Sequenced<LaneEntry>>()
    }
}

/// Where the entries of the page are.
impl IdentityPage {
    /// The offset of a job's entry.
    pub const fn job(index: usize) -> usize {
        offset_of!(Self, jobs) + index * size_of::<Sequenced<JobIdentity>>()
    }

    /// The offset of a lane's entry.
    pub const fn lane(index: usize) -> usize {
        offset_of!(Self, lanes) + index * size_of::<Sequenced<LaneIdentity>>()
    }
}

const _: () = assert!(size_of::<SnapshotPage>() == 732_856);
const _: () = assert!(size_of::<IdentityPage>() == 4_603_912);
