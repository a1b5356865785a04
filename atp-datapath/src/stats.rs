//! Reads the programs' counters and the kernel's statistics of them.

use super::{
    DatapathError,
    attach::{EGRESS, INGRESS, XDP},
    bpf,
    error::error_chain,
    table::mismatch,
};
use atp_common::maps::{
    Counter,
    snapshot::{ProgramEntry, SNAPSHOT_COUNTERS, Telemetry},
};
use aya::{
    Ebpf,
    maps::{Map, MapData},
    programs::ProgramFd,
    util::nr_cpus,
};
use bytemuck::Zeroable;
use std::{fs, os::fd::AsFd, sync::Arc};

/// The programs' event counters, by index.
pub struct CounterMap {
    map: MapData,
    /// The kernel returns a value for each processor that the host could have.
    processors: usize,
}

impl CounterMap {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        Self::take_one(ebpf, "COUNTERS")
    }

    /// Takes the map of counters with this name.
    pub(super) fn take_one(ebpf: &mut Ebpf, name: &'static str) -> Result<Self, DatapathError> {
        let map = match ebpf.take_map(name) {
            Some(Map::PerCpuArray(map)) => map,
            _ => return Err(mismatch(format!("it has no map {name} of counters"))),
        };
        let info = map.info().map_err(|error| DatapathError::Load(error_chain(&error)))?;
        if info.value_size() as usize != size_of::<u64>() {
            return Err(mismatch(format!("the map {name} has other values")));
        }
        let processors = nr_cpus()
            .map_err(|(_, error)| DatapathError::map("count the processors of this host", error))?;
        Ok(Self { map, processors })
    }

    /// A counter, summed over processors.
    fn sum(&self, counter: Counter) -> Result<u64, DatapathError> {
        self.sum_at(counter as u32)
    }

    /// The counter at an index, summed over processors.
    pub(super) fn sum_at(&self, index: u32) -> Result<u64, DatapathError> {
        let mut values = vec![0u64; self.processors];
        bpf::lookup(self.map.fd().as_fd(), &index, &mut values)
            .map_err(|error| DatapathError::map("read the counters of the programs", error))?;
        Ok(values.iter().sum())
    }
}

/// Reads counters and run times, on a thread of its own: every value takes a system call.
pub struct Meter {
    counters: Arc<CounterMap>,
    programs: Vec<(&'static str, ProgramFd)>,
}

const _: () = assert!(Counter::COUNT as usize <= SNAPSHOT_COUNTERS);

impl Meter {
    pub(super) fn new(counters: Arc<CounterMap>, ebpf: &Ebpf) -> Result<Self, DatapathError> {
        let programs = [EGRESS, INGRESS, XDP].into_iter().map(|name| {
            let program =
                ebpf.program(name).ok_or_else(|| mismatch(format!("it has no program {name}")))?;
            let fd = program.fd().map_err(|error| DatapathError::Load(error_chain(&error)))?;
            let fd =
                fd.try_clone().map_err(|error| DatapathError::map("share a program", error))?;
            Ok((name, fd))
        });
        Ok(Self { counters, programs: programs.collect::<Result<_, DatapathError>>()? })
    }

    /// Reads everything. `read_ns` is the current time.
    ///
    /// # Errors
    /// If the kernel refuses a value.
    pub fn read(&self, read_ns: u64) -> Result<Telemetry, DatapathError> {
        let mut telemetry = Telemetry { read_ns, ..Telemetry::zeroed() };
        telemetry.counter_count = Counter::COUNT;
        for (counter, _) in Counter::NAMES {
            telemetry.counters[counter as usize] = self.counters.sum(counter)?;
        }
        telemetry.run_times_on = are_run_times_on().into();
        for (entry, (name, fd)) in telemetry.programs.iter_mut().zip(&self.programs) {
            let (run_ns, runs) = bpf::program_runs(fd.as_fd())
                .map_err(|error| DatapathError::map("read a program's run time", error))?;
            *entry = ProgramEntry { name: [0; 16], run_ns, runs };
            entry.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        Ok(telemetry)
    }
}

/// Whether the kernel measures the run time of programs. A sysctl switches it.
fn are_run_times_on() -> bool {
    let setting = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
    setting.is_ok_and(|text| text.trim() != "0")
}

/// The kernel's statistics of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// The program's name.
    pub name: String,
    /// Instructions that the verifier processed.
    pub verified_instructions: u32,
    /// Bytes of machine code.
    pub jited_bytes: u32,
    /// The kernel's fingerprint of it, in hexadecimal.
    pub tag: String,
}

#[cfg(feature = "harness")]
pub fn counters(
    map: &CounterMap,
) -> Result<std::collections::BTreeMap<String, u64>, DatapathError> {
    let read = |(counter, name): (_, &str)| Ok((name.to_owned(), map.sum(counter)?));
    Counter::NAMES.into_iter().map(read).collect()
}

pub fn programs(ebpf: &Ebpf) -> Result<Vec<ProgramStats>, DatapathError> {
    [EGRESS, INGRESS, XDP].into_iter().map(|name| program(ebpf, name)).collect()
}

fn program(ebpf: &Ebpf, name: &'static str) -> Result<ProgramStats, DatapathError> {
    let program =
        ebpf.program(name).ok_or_else(|| mismatch(format!("it has no program {name}")))?;
    let info = program.info().map_err(|error| DatapathError::Load(error_chain(&error)))?;
    Ok(ProgramStats {
        name: name.into(),
        verified_instructions: info.verified_instruction_count().unwrap_or_default(),
        jited_bytes: info.size_jitted(),
        tag: format!("{:016x}", info.tag()),
    })
}
