//! From an object to running programs, and the kernel's refusals in words.

use super::{
    Datapath, DatapathError, EGRESS, INGRESS, Lanes, Laws, XDP,
    mapped::Mapped,
    pacing::Backend,
    program,
    table::{Table, mismatch},
};
use atp_common::maps::Config;
use aya::{
    EbpfError, EbpfLoader,
    maps::PerCpuArray,
    programs::{ProgramError, SchedClassifier, Xdp},
    util::KernelVersion,
};
use std::{error::Error, io, os::fd::AsFd};

/// The first kernel with everything that the programs and their links need: TCX.
const KERNEL_NEEDED: (u8, u8, &str) = (6, 6, "6.6");

pub fn load(
    object: &[u8],
    mut config: Config,
    backend: Backend,
) -> Result<Datapath, DatapathError> {
    refuse_old_kernel()?;
    config.backend = backend.in_config();
    config.generation = 0;
    while config.ack_mark == 0 {
        config.ack_mark = rand::random();
    }
    let mut ebpf = EbpfLoader::new().load(object).map_err(load_error)?;
    program::<SchedClassifier>(&mut ebpf, EGRESS)?.load().map_err(|e| program_error(EGRESS, e))?;
    program::<SchedClassifier>(&mut ebpf, INGRESS)?
        .load()
        .map_err(|e| program_error(INGRESS, e))?;
    program::<Xdp>(&mut ebpf, XDP)?.load().map_err(|e| program_error(XDP, e))?;

    let config_table = Table::<u32, Config>::take(&mut ebpf, "CONFIG")?;
    config_table.set(0, &config)?;
    let counters =
        ebpf.take_map("COUNTERS").ok_or_else(|| mismatch("it has no map COUNTERS".into()))?;
    Ok(Datapath {
        attachments: Vec::new(),
        law_programs: None,
        backend,
        guard_ns: config.horizon_ns,
        config: Mapped::new(config_table.as_fd(), size_of::<Config>(), 1)
            .map_err(|error| DatapathError::map("map the programs' settings", error))?,
        ports: Table::take(&mut ebpf, "PORTS")?,
        flows: Table::take(&mut ebpf, "FLOWS")?,
        ack_rings: Table::take(&mut ebpf, "ACK_RINGS")?,
        jobs: Table::take(&mut ebpf, "JOBS")?,
        job_ids: Table::take(&mut ebpf, "JOB_IDS")?,
        cgroups: Table::take(&mut ebpf, "CGROUPS")?,
        lanes: Lanes::take(&mut ebpf)?,
        laws: Laws::take(&mut ebpf)?,
        counters: PerCpuArray::try_from(counters)
            .map_err(|_| mismatch("the map COUNTERS has another type".into()))?,
        ebpf,
    })
}

fn refuse_old_kernel() -> Result<(), DatapathError> {
    let (major, minor, needed) = KERNEL_NEEDED;
    // A kernel that hides its version is taken at its deeds.
    if KernelVersion::current()
        .map_or(true, |current| current >= KernelVersion::new(major, minor, 0))
    {
        return Ok(());
    }
    let running = nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".into(), |name| name.release().to_string_lossy().into_owned());
    Err(DatapathError::KernelTooOld {
        feature: "attaching tc programs by TCX link",
        needed,
        running,
    })
}

fn load_error(error: EbpfError) -> DatapathError {
    if is_refused(&error) {
        return DatapathError::NotPrivileged { action: "load eBPF programs".into() };
    }
    DatapathError::Load(chain(&error))
}

pub(super) fn program_error(program: &'static str, error: ProgramError) -> DatapathError {
    match error {
        ProgramError::LoadError { io_error, .. }
            if io_error.raw_os_error() == Some(libc::EPERM) =>
        {
            DatapathError::NotPrivileged { action: format!("load the program {program}") }
        }
        ProgramError::LoadError { io_error, verifier_log } => DatapathError::Refused {
            program,
            reason: last_words(&verifier_log.to_string(), &io_error),
        },
        error => DatapathError::Load(chain(&error)),
    }
}

/// What the verifier says last is why; the rest is how it got there.
fn last_words(log: &str, error: &io::Error) -> String {
    tracing::debug!(log, "verifier");
    const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];
    let is_statistic = |line: &str| STATISTICS.iter().any(|words| line.starts_with(words));
    let mut lines = log.lines().rev().filter(|line| !line.is_empty() && !is_statistic(line));
    lines.next().map_or_else(|| error.to_string(), |line| format!("{line} ({error})"))
}

fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    own == Some(libc::EPERM) || error.source().is_some_and(is_refused)
}

/// An error with its causes, in one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.ends_with(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}
