//! The userspace side of the datapath: loads and attaches the eBPF programs, and writes their maps.

mod ack_rings;
mod attach;
pub(crate) mod bpf;
pub(crate) mod device;
mod error;
#[cfg(feature = "harness")]
mod harness;
pub(crate) mod interface;
mod lanes;
mod laws;
mod load;
pub(crate) mod mapped;
pub(crate) mod netlink_query;
mod object;
pub mod pacing;
mod progress;
pub mod route;
mod stats;
mod table;

pub use ack_rings::AckRings;
pub use attach::{AttachKind, EGRESS, INGRESS, XDP, XdpMode, has_daemon};
pub use error::DatapathError;
pub use interface::interface_speed;
pub use lanes::Lanes;
pub use laws::Laws;
pub(crate) use load::KERNEL_NEEDED;
pub use object::Object;
pub use pacing::{PacingRequest, own_qdiscs, remove_own_qdisc};
pub use progress::ProgressMap;
pub use stats::ProgramStats;

use atp_common::maps::{Config, Flow, Job, PortEntry};
use attach::Attachment;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray},
    programs::{Program, ProgramError},
};
use laws::LawPrograms;
use mapped::MappedArray;
use pacing::Backend;
use std::{
    collections::BTreeMap,
    mem::offset_of,
    os::fd::AsFd,
    sync::atomic::Ordering::{Relaxed, Release},
};
use table::Table;

/// A lane's new rate, for a backend that doesn't read it from the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// The lane.
    pub lane: u16,
    /// Bytes per second.
    pub rate_bytes_per_s: u64,
}

/// The loaded programs, their maps and their interfaces. Dropping it detaches everything and
/// restores the default qdiscs.
pub struct Datapath {
    // First, so that the programs are detached before the resources that they use are dropped.
    attachments: Vec<Attachment>,
    law_programs: Option<LawPrograms>,
    ebpf: Ebpf,
    backend: Backend,
    guard_ns: u64,
    config: MappedArray,
    ports: Table<u32, PortEntry>,
    flows: Table<u32, Flow>,
    ack_rings: Table<u32, u32>,
    jobs: Table<u32, Job>,
    job_ids: Table<u32, u32>,
    cgroups: Table<u64, u32>,
    lanes: Lanes,
    laws: Laws,
    counters: PerCpuArray<MapData, u64>,
}

impl Datapath {
    /// Loads an object, chooses a backend and writes `config`.
    ///
    /// The datapath sets the backend and the generation in it itself, and replaces a mark of 0 by a
    /// random one.
    pub fn load(
        object: &Object,
        config: Config,
        pacing: PacingRequest,
    ) -> Result<Self, DatapathError> {
        load::load(object.bytes(), config, Backend::choose(pacing)?)
    }

    /// Attaches qdisc and programs to an interface; chooses the hook that consumes ACKs.
    ///
    /// Attach all interfaces before the first lane: a lane gets a class only on interfaces that are
    /// attached when it is added.
    pub fn attach(&mut self, interface: &str) -> Result<AttachKind, DatapathError> {
        self.attach_with(interface, XdpMode::Auto)
    }

    /// Attaches qdisc and programs to an interface.
    pub fn attach_with(
        &mut self,
        interface: &str,
        mode: XdpMode,
    ) -> Result<AttachKind, DatapathError> {
        let attachment =
            Attachment::new(&mut self.ebpf, interface, mode, self.backend, self.guard_ns)?;
        let kind = attachment.kind;
        self.attachments.push(attachment);
        Ok(kind)
    }

    /// The interfaces, and the hook that consumes ACKs on each (`native` or `tc`).
    pub fn interfaces(&self) -> BTreeMap<String, String> {
        let name = |at: &Attachment| (at.interface.clone(), at.kind.name().to_owned());
        self.attachments.iter().map(name).collect()
    }

    /// `fq` or `htb`.
    pub const fn pacing_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Whether packets leave at the time that their lane's clock gives them (fq).
    pub const fn paces_by_departure(&self) -> bool {
        matches!(self.backend, Backend::Fq)
    }

    /// Writes the daemon's heartbeat, in nanoseconds of CLOCK_MONOTONIC. Makes no system call.
    pub fn heartbeat(&self, now_ns: u64) {
        self.config.u64(0, offset_of!(Config, heartbeat_ns)).store(now_ns, Relaxed);
    }

    /// Makes sockets look up their cgroup's job again. Generation 0 means that no cgroup was ever
    /// bound, so that programs skip the lookup; it never returns.
    pub fn bump_generation(&self) {
        let generation = self.config.u32(0, offset_of!(Config, generation));
        let next = generation.load(Relaxed).wrapping_add(1).max(1);
        generation.store(next, Release);
    }

    /// Sets the role of a local UDP port; `PortEntry::default()` for none.
    pub fn set_port(&self, port: u16, entry: PortEntry) -> Result<(), DatapathError> {
        self.ports.set(u32::from(port), &entry)
    }

    /// Writes a flow. Its port must not be registered while it changes.
    pub fn set_flow(&self, index: u32, flow: &Flow) -> Result<(), DatapathError> {
        self.flows.set(index, flow)
    }

    /// Adds a job: by index, by id and, if it has one, by cgroup.
    pub fn add_job(&self, index: u32, job: &Job) -> Result<(), DatapathError> {
        self.jobs.set(index, job)?;
        self.job_ids.set(job.id, &index)?;
        if job.cgroup != 0 {
            self.cgroups.set(job.cgroup, &index)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Removes a job. `cgroup` is 0 if it was bound to none.
    pub fn remove_job(&self, index: u32, id: u32, cgroup: u64) -> Result<(), DatapathError> {
        self.jobs.set(index, &Job::default())?;
        self.job_ids.remove(id)?;
        if cgroup != 0 {
            self.cgroups.remove(cgroup)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Adds a lane to every interface's qdisc.
    pub fn add_lane(&mut self, lane: u16, rate_bytes_per_s: u64) -> Result<(), DatapathError> {
        for attachment in &mut self.attachments {
            attachment.pacer.add_lane(lane, rate_bytes_per_s)?;
        }
        Ok(())
    }

    /// Removes a lane from every interface's qdisc. Tries all of them and returns the first error.
    pub fn remove_lane(&mut self, lane: u16) -> Result<(), DatapathError> {
        let mut outcome = Ok(());
        for attachment in &mut self.attachments {
            outcome = outcome.and(attachment.pacer.remove_lane(lane));
        }
        outcome.map_err(DatapathError::from)
    }

    /// Writes the new rates to the qdiscs, if the backend needs it. Tries all interfaces and
    /// returns the first error.
    pub fn change_rates(&mut self, changes: &[RateChange]) -> Result<(), DatapathError> {
        if changes.is_empty() || self.paces_by_departure() {
            return Ok(());
        }
        let rates: Vec<_> = changes.iter().map(|to| (to.lane, to.rate_bytes_per_s)).collect();
        let mut outcome = Ok(());
        for attachment in &mut self.attachments {
            outcome = outcome.and(attachment.pacer.set_rates(&rates));
        }
        outcome.map_err(DatapathError::from)
    }

    /// The map of the flows' ACK rings, for a thread that may block.
    pub fn ack_rings(&self) -> Result<AckRings, DatapathError> {
        let map = self.ack_rings.as_fd().try_clone_to_owned();
        map.map(AckRings).map_err(|error| DatapathError::map("share the map of ACK rings", error))
    }

    /// A new map for a client's progress.
    pub fn new_progress_map(&self) -> Result<ProgressMap, DatapathError> {
        ProgressMap::new()
    }

    /// The lanes' memory, shared with the programs.
    pub const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The laws' memory, if the programs run the laws.
    pub fn laws(&self) -> Option<&Laws> {
        self.law_programs.as_ref().map(|_| &self.laws)
    }

    /// Event counters, summed over processors, by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>, DatapathError> {
        stats::counters(&self.counters)
    }

    /// The kernel's statistics of each program.
    pub fn program_stats(&self) -> Result<Vec<ProgramStats>, DatapathError> {
        stats::programs(&self.ebpf)
    }
}

/// A program of the object, by name and type.
fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, DatapathError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    ebpf.program_mut(name)
        .ok_or_else(|| table::mismatch(format!("it has no program {name}")))?
        .try_into()
        .map_err(|_| table::mismatch(format!("the program {name} has another type")))
}
