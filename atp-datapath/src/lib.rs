//! The userspace side of the datapath: loads and attaches the eBPF programs, and writes their maps.
//!
//! [`Datapath`] is the loaded programs with their maps and interfaces. The control loop over it is
//! in `atp-user`.

#![deny(missing_docs)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod ack_mark;
mod ack_rings;
mod arrivals;
mod attach;
pub mod bpf;
pub mod device;
mod error;
#[cfg(feature = "harness")]
mod harness;
pub mod interface;
mod lanes;
mod laws;
mod load;
mod log;
mod log_limit;
mod log_line;
pub mod mapped;
pub mod netlink_query;
mod network;
mod object;
pub mod pacing;
mod progress;
mod route;
mod stats;
mod table;
mod udp_sockets;

pub use ack_mark::AckMark;
pub use ack_rings::AckRings;
pub use arrivals::{ArrivalCounts, ArrivingMap};
pub use atp_proto::WireBytes;
pub use attach::{AttachKind, EGRESS, INGRESS, XDP, XdpMode, has_daemon};
pub use error::DatapathError;
pub use interface::interface_speed;
pub use lanes::{Lanes, Sent};
pub use laws::{LawInputs, Laws};
pub use load::KERNEL_NEEDED;
pub use log::PacketLog;
pub use log_line::TARGET as LOG_TARGET;
pub use object::Object;
pub use pacing::{PacingRequest, own_qdiscs, remove_own_qdisc};
pub use progress::ProgressMap;
pub use route::names_of_carriers;
pub use route::{Route, RouteQuery};
pub use stats::{Meter, ProgramStats};
pub use udp_sockets::{UdpSocketId, UdpSockets};

use atp_common::{
    maps::{Config, Flow, Job, PortEntry},
    units::Rate,
};
use attach::Programs;
use aya::{
    Ebpf,
    programs::{Program, ProgramError},
};
use laws::LawPrograms;
use log::LogThread;
use mapped::MappedArray;
use network::Network;
use pacing::Backend;
use stats::CounterMap;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    mem::offset_of,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
};
use table::Table;
use tokio::sync::Notify;

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
    network: Option<Network>,
    // Next: without attached programs no line follows.
    _log: Option<LogThread>,
    law_programs: Option<LawPrograms>,
    programs: Programs,
    backend: Backend,
    guard_ns: u64,
    config: MappedArray,
    ports: Table<u32, PortEntry>,
    flows: Table<u32, Flow>,
    ack_rings: Table<u32, u32>,
    jobs: Table<u32, Job>,
    bound_ids: Table<u32, u32>,
    cgroups: Table<u64, u32>,
    lanes: Lanes,
    laws: Laws,
    arrivals: ArrivalCounts,
    counters: Arc<CounterMap>,
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
        log: PacketLog,
    ) -> Result<Self, DatapathError> {
        load::load(object.bytes(), config, Backend::choose(pacing)?, log)
    }

    /// Attaches qdisc and programs to an interface, and watches it from then on.
    ///
    /// Attach all interfaces before the first lane. This waits for the kernel, for as long as
    /// others hold its lock.
    pub fn attach(&mut self, interface: &str, mode: XdpMode) -> Result<AttachKind, DatapathError> {
        if self.network.is_none() {
            let programs = self.programs.clone();
            self.network = Some(Network::start(programs, self.backend, self.guard_ns)?);
        }
        self.network()?.attach(interface, mode)
    }

    fn network(&mut self) -> Result<&mut Network, DatapathError> {
        let none = || DatapathError::Classes("no interface is attached".into());
        self.network.as_mut().ok_or_else(none)
    }

    /// The interfaces, and the hook that consumes ACKs on each (`native` or `tc`); `gone` or
    /// `not covered` for those that can't be used now.
    pub fn interfaces(&self) -> BTreeMap<String, String> {
        self.network.as_ref().map(Network::interfaces).unwrap_or_default()
    }

    /// The numbers of the interfaces that are there, with programs and qdisc in place. Kept current
    /// by another thread; makes no system call.
    pub fn attached_ifindexes(&self) -> BTreeSet<u32> {
        self.network.as_ref().map(Network::covered_ifindexes).unwrap_or_default()
    }

    /// Notified when the state of an interface changed.
    pub fn interfaces_changed(&self) -> Arc<Notify> {
        self.network.as_ref().map(Network::changed).unwrap_or_default()
    }

    /// The speed of the slowest interface that is there. Makes no system call.
    pub fn speed(&self) -> Option<Rate> {
        self.network.as_ref().and_then(Network::speed)
    }

    /// The speeds that interfaces report, by their numbers: only of those that are there, with
    /// programs and qdisc in place. Makes no system call.
    pub fn reported_speeds(&self) -> BTreeMap<u32, Rate> {
        self.network.as_ref().map(Network::reported_speeds).unwrap_or_default()
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

    /// Adds a job: by index and, if it is bound to a cgroup, by cgroup and by id, which is then
    /// the id of no other job.
    pub fn add_job(&self, index: u32, job: &Job) -> Result<(), DatapathError> {
        self.jobs.set(index, job)?;
        if job.cgroup != 0 {
            self.bound_ids.set(job.id, &index)?;
            self.cgroups.set(job.cgroup, &index)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Removes a job. `cgroup` is 0 if it was bound to none.
    pub fn remove_job(&self, index: u32, id: u32, cgroup: u64) -> Result<(), DatapathError> {
        self.jobs.set(index, &Job::default())?;
        if cgroup != 0 {
            self.bound_ids.remove(id)?;
            self.cgroups.remove(cgroup)?;
            self.bump_generation();
        }
        Ok(())
    }

    /// Adds a lane to every interface's qdisc, if the backend needs it. Another thread does it:
    /// [`Self::settled`] tells when.
    pub fn add_lane(
        &mut self,
        lane: u16,
        rate_bytes_per_s: u64,
        burst_bytes_max: u32,
    ) -> Result<(), DatapathError> {
        if !self.paces_by_departure() {
            self.network()?.add_lane(lane, rate_bytes_per_s, burst_bytes_max.into());
        }
        Ok(())
    }

    /// Removes a lane from every interface's qdisc. Another thread does it.
    pub fn remove_lane(&mut self, lane: u16) -> Result<(), DatapathError> {
        if !self.paces_by_departure() {
            self.network()?.remove_lane(lane);
        }
        Ok(())
    }

    /// Changes the rates in the qdiscs, if the backend needs it. Another thread does it, with the
    /// latest rate of each lane. Returns the error of an earlier change, as long as it persists.
    pub fn change_rates(&mut self, changes: &[RateChange]) -> Result<(), DatapathError> {
        if changes.is_empty() || self.paces_by_departure() {
            return Ok(());
        }
        self.network()?.change_rates(changes)
    }

    /// Waits until the lanes added so far are in the qdiscs. Before that, their packets would leave
    /// unpaced.
    pub fn settled(&self) -> impl Future<Output = Result<(), DatapathError>> + use<> {
        let network = self.network.as_ref().filter(|_| !self.paces_by_departure());
        let settled = network.map(Network::settled);
        async {
            match settled {
                Some(settled) => settled.await,
                None => Ok(()),
            }
        }
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

    /// A new map for the lanes that arrive for a receiver.
    pub fn new_arriving_map(&self) -> Result<ArrivingMap, DatapathError> {
        ArrivingMap::new()
    }

    /// The programs' counts of what arrives.
    pub const fn arrivals(&self) -> &ArrivalCounts {
        &self.arrivals
    }

    /// The lanes' memory, shared with the programs.
    pub const fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The laws' memory, if the programs run the laws.
    pub fn laws(&self) -> Option<&Laws> {
        self.law_programs.as_ref().map(|_| &self.laws)
    }

    /// The reader of counters and run times, for a thread of its own. End it before this value:
    /// it keeps the programs loaded.
    pub fn meter(&self) -> Result<Meter, DatapathError> {
        Meter::new(self.counters.clone(), &self.programs.lock())
    }

    /// The kernel's statistics of each program.
    pub fn program_stats(&self) -> Result<Vec<ProgramStats>, DatapathError> {
        stats::programs(&self.programs.lock())
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
