//! The datapath from the daemon's side: loads the eBPF programs, attaches them, and keeps their maps.

mod ack_rings;
mod attach;
mod bpf;
mod error;
mod interface;
mod lanes;
mod laws;
mod load;
mod mapped;
mod object;
pub mod pacing;
mod progress;
mod stats;
mod table;

pub use ack_rings::AckRings;
pub use attach::{AttachKind, EGRESS, INGRESS, XDP, XdpMode, is_attended};
pub use error::DatapathError;
pub use interface::interface_speed;
pub use lanes::Lanes;
pub use laws::Laws;
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
use load::chain;
use mapped::Mapped;
use pacing::Backend;
use std::{
    collections::BTreeMap,
    mem::offset_of,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::Ordering::{Relaxed, Release},
};
use table::Table;

/// A lane's new rate, for a backend that must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// The lane.
    pub lane: u16,
    /// Bytes per second.
    pub rate_bytes_per_s: u64,
}

/// The loaded programs, their maps and their interfaces. Dropping it detaches everything and brings
/// back the default qdiscs.
pub struct Datapath {
    // First, so that the programs are detached before anything that they use goes.
    attachments: Vec<Attachment>,
    law_programs: Option<LawPrograms>,
    ebpf: Ebpf,
    backend: Backend,
    guard_ns: u64,
    config: Mapped,
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
    /// Loads an object, chooses a backend and tells the programs `config`. Of that, the backend and the
    /// generation are the datapath's own, and a mark of 0 is replaced by a random one.
    pub fn load(
        object: &Object,
        config: Config,
        pacing: PacingRequest,
    ) -> Result<Self, DatapathError> {
        Self::load_for(object, config, Backend::choose(pacing)?)
    }

    /// The same for a backend that is chosen already, whether this kernel has it or not: attaching
    /// fails if it hasn't.
    pub fn load_for(
        object: &Object,
        config: Config,
        backend: Backend,
    ) -> Result<Self, DatapathError> {
        load::load(object.bytes(), config, backend)
    }

    /// Puts qdisc and programs on an interface; ACKs are consumed where it pays. Interfaces come
    /// before lanes: a lane gets its room on those that are there when it is added.
    pub fn attach(&mut self, interface: &str) -> Result<AttachKind, DatapathError> {
        self.attach_with(interface, XdpMode::Auto)
    }

    /// Puts qdisc and programs on an interface.
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

    /// Interfaces, and where ACKs are consumed on each (`native` or `tc`).
    pub fn interfaces(&self) -> BTreeMap<String, String> {
        let name = |at: &Attachment| (at.interface.clone(), at.kind.name().to_owned());
        self.attachments.iter().map(name).collect()
    }

    /// `fq` or `htb`.
    pub const fn pacing_name(&self) -> &'static str {
        self.backend.name()
    }

    /// Whether a lane's clock says when its packets leave.
    pub const fn paces_by_departure(&self) -> bool {
        matches!(self.backend, Backend::Fq)
    }

    /// Changes what the programs need to know of the daemon, field by field; each is seen whole. The
    /// backend is fixed when the object is loaded, and the generation is the datapath's own.
    pub fn set_config(&self, config: &Config) {
        let word = |offset, value| self.config.u64(0, offset).store(value, Relaxed);
        word(offset_of!(Config, heartbeat_ns_max), config.heartbeat_ns_max);
        word(offset_of!(Config, safe_rate_bytes_per_s), config.safe_rate_bytes_per_s);
        word(offset_of!(Config, horizon_ns), config.horizon_ns);
        self.config.u32(0, offset_of!(Config, ack_mark)).store(config.ack_mark, Relaxed);
        word(offset_of!(Config, heartbeat_ns), config.heartbeat_ns);
    }

    /// The daemon lives. Nanoseconds of CLOCK_MONOTONIC; no system call.
    pub fn heartbeat(&self, now_ns: u64) {
        self.config.u64(0, offset_of!(Config, heartbeat_ns)).store(now_ns, Relaxed);
    }

    /// What sockets remember of cgroups is looked up again from now on. Zero means that no cgroup was
    /// ever bound, and sockets aren't asked; it never comes back.
    pub fn bump_generation(&self) {
        let generation = self.config.u32(0, offset_of!(Config, generation));
        let next = generation.load(Relaxed).wrapping_add(1).max(1);
        generation.store(next, Release);
    }

    /// What a local UDP port is; `PortEntry::default()` for nothing.
    pub fn set_port(&self, port: u16, entry: PortEntry) -> Result<(), DatapathError> {
        self.ports.set(u32::from(port), &entry)
    }

    /// Writes a flow. Its port must not be registered while it changes.
    pub fn set_flow(&self, index: u32, flow: &Flow) -> Result<(), DatapathError> {
        self.flows.set(index, flow)
    }

    /// Makes a job known: by index, by id and, if it has one, by cgroup.
    pub fn add_job(&self, index: u32, job: &Job) -> Result<(), DatapathError> {
        self.jobs.set(index, job)?;
        self.job_ids.set(job.id, &index)?;
        if job.cgroup != 0 {
            self.cgroups.set(job.cgroup, &index)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Forgets a job. `cgroup` is 0 if it was bound to none.
    pub fn remove_job(&self, index: u32, id: u32, cgroup: u64) -> Result<(), DatapathError> {
        self.jobs.set(index, &Job::default())?;
        self.job_ids.remove(id)?;
        if cgroup != 0 {
            self.cgroups.remove(cgroup)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Makes room for a lane in every interface's qdisc.
    pub fn add_lane(&mut self, lane: u16, rate_bytes_per_s: u64) -> Result<(), DatapathError> {
        for attachment in &mut self.attachments {
            attachment.pacer.add_lane(lane, rate_bytes_per_s)?;
        }
        Ok(())
    }

    /// Gives up a lane's room; all interfaces are tried, the first error is returned.
    pub fn remove_lane(&mut self, lane: u16) -> Result<(), DatapathError> {
        let mut outcome = Ok(());
        for attachment in &mut self.attachments {
            outcome = outcome.and(attachment.pacer.remove_lane(lane));
        }
        outcome.map_err(DatapathError::from)
    }

    /// Tells the qdiscs the new rates, if they are what paces; all interfaces are told, the first
    /// error is returned.
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

    /// A new ring for a flow; see [`AckRings::renew`], also for how long it takes.
    pub fn new_ack_ring(&self, flow: u32) -> Result<OwnedFd, DatapathError> {
        self.ack_rings()?.renew(flow)
    }

    /// The flows' rings, to be used from a thread that can wait.
    pub fn ack_rings(&self) -> Result<AckRings, DatapathError> {
        let map = self.ack_rings.as_fd().try_clone_to_owned();
        map.map(AckRings).map_err(|error| DatapathError::map("share the ACK rings", error))
    }

    /// Takes a flow's ring away; ACKs for it are unknown from now on. Takes as long as a new one.
    pub fn remove_ack_ring(&self, flow: u32) -> Result<(), DatapathError> {
        self.ack_rings.remove(flow)
    }

    /// A new map for a client to tell its progress in.
    pub fn new_progress_map(&self) -> Result<ProgressMap, DatapathError> {
        ProgressMap::new()
    }

    /// The lanes' memory.
    pub const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The memory of the lanes' laws, if the programs run them.
    pub fn laws(&self) -> Option<&Laws> {
        self.law_programs.as_ref().map(|_| &self.laws)
    }

    /// Event counters, summed over processors, by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>, DatapathError> {
        stats::counters(&self.counters)
    }

    /// What the kernel says of each program.
    pub fn program_stats(&self) -> Result<Vec<ProgramStats>, DatapathError> {
        stats::programs(&self.ebpf)
    }

    /// The object's programs, for tests and benchmarks that run them without an interface.
    pub const fn ebpf(&self) -> &Ebpf {
        &self.ebpf
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
