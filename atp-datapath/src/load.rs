//! Loads an eBPF object and its maps.

use super::{
    Datapath,
    arrivals::ArrivalCounts,
    attach::{EGRESS, INGRESS, Programs, XDP},
    error::{DatapathError, error_chain, program_error},
    lanes::Lanes,
    laws::Laws,
    log::{self, LogThread, PacketLog},
    mapped::MappedArray,
    pacing::Backend,
    program,
    stats::CounterMap,
    table::Table,
};
use atp_common::maps::{
    Config,
    arrivals::{ADMITTED, ARRIVALS, NEWCOMERS, lru_elements},
};
use aya::{
    EbpfError, EbpfLoader,
    programs::{SchedClassifier, Xdp},
    util::{KernelVersion, nr_cpus},
};
use std::{error::Error, io, os::fd::AsFd, sync::Arc};

/// The first kernel with TCX, the newest feature that the programs and their links need.
pub const KERNEL_NEEDED: (u8, u8, &str) = (6, 6, "6.6");

pub fn load(
    object: &[u8],
    mut config: Config,
    backend: Backend,
    log: PacketLog,
) -> Result<Datapath, DatapathError> {
    refuse_old_kernel()?;
    config.backend = backend.in_config();
    config.generation = 0;
    while config.ack_mark == 0 {
        config.ack_mark = rand::random();
    }
    let cpus = nr_cpus().map_err(|(file, error)| {
        DatapathError::map(format!("read the number of processors from {file}"), error)
    })?;
    let elements = |number| lru_elements(number, cpus as u32);
    let mut ebpf = EbpfLoader::new()
        .map_max_entries("ARRIVED", elements(ARRIVALS))
        .map_max_entries("NEWCOMERS", elements(NEWCOMERS))
        .map_max_entries("ADMITTED", elements(ADMITTED))
        .map_max_entries("ARRIVED_BYTES", cpus as u32)
        .map_max_entries(log::RING, log.ring_bytes())
        .override_global(log::LEVEL_GLOBAL, log.in_programs(), true)
        .load(object)
        .map_err(load_error)?;
    program::<SchedClassifier>(&mut ebpf, EGRESS)?.load().map_err(|e| program_error(EGRESS, e))?;
    program::<SchedClassifier>(&mut ebpf, INGRESS)?
        .load()
        .map_err(|e| program_error(INGRESS, e))?;
    program::<Xdp>(&mut ebpf, XDP)?.load().map_err(|e| program_error(XDP, e))?;

    let config_table = Table::<u32, Config>::take(&mut ebpf, "CONFIG")?;
    config_table.set(0, &config)?;
    let log = match log {
        PacketLog::Off => None,
        PacketLog::Debug | PacketLog::Trace => Some(LogThread::start(&mut ebpf)?),
    };
    Ok(Datapath {
        network: None,
        _log: log,
        law_programs: None,
        backend,
        guard_ns: config.horizon_ns,
        config: MappedArray::new(config_table.as_fd(), size_of::<Config>(), 1)
            .map_err(|error| DatapathError::map("map the configuration of the programs", error))?,
        ports: Table::take(&mut ebpf, "PORTS")?,
        flows: Table::take(&mut ebpf, "FLOWS")?,
        ack_rings: Table::take(&mut ebpf, "ACK_RINGS")?,
        jobs: Table::take(&mut ebpf, "JOBS")?,
        bound_ids: Table::take(&mut ebpf, "BOUND_IDS")?,
        cgroups: Table::take(&mut ebpf, "CGROUPS")?,
        lanes: Lanes::take(&mut ebpf)?,
        laws: Laws::take(&mut ebpf)?,
        arrivals: ArrivalCounts::take(&mut ebpf, cpus)?,
        counters: Arc::new(CounterMap::take(&mut ebpf)?),
        programs: Programs::new(ebpf),
    })
}

fn refuse_old_kernel() -> Result<(), DatapathError> {
    let (major, minor, needed) = KERNEL_NEEDED;
    // A kernel with an unreadable version passes: loading fails if it lacks something.
    if KernelVersion::current()
        .map_or(true, |current| current >= KernelVersion::new(major, minor, 0))
    {
        return Ok(());
    }
    let running = nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".into(), |name| name.release().to_string_lossy().into_owned());
    Err(DatapathError::KernelTooOld { feature: "TCX links", needed, running })
}

fn load_error(error: EbpfError) -> DatapathError {
    if is_refused(&error) {
        return DatapathError::NotPrivileged { action: "load eBPF programs".into() };
    }
    DatapathError::Load(error_chain(&error))
}

fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    own == Some(libc::EPERM) || error.source().is_some_and(is_refused)
}
