//! Reads the programs' counters and the kernel's statistics of them.

use super::{
    DatapathError,
    attach::{EGRESS, INGRESS, XDP},
    error::error_chain,
    table::mismatch,
};
use atp_common::maps::Counter;
use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray},
};
use std::collections::BTreeMap;

/// The kernel's statistics of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramStats {
    /// Its name.
    pub name: String,
    /// Instructions that the verifier processed.
    pub verified_instructions: u32,
    /// Bytes of machine code.
    pub jited_bytes: u32,
    /// The kernel's fingerprint of it, in hexadecimal.
    pub tag: String,
}

pub fn counters(map: &PerCpuArray<MapData, u64>) -> Result<BTreeMap<String, u64>, DatapathError> {
    let mut counters = BTreeMap::new();
    for (counter, name) in Counter::NAMES {
        let per_processor = map
            .get(&(counter as u32), 0)
            .map_err(|error| DatapathError::Load(error.to_string()))?;
        counters.insert(name.to_owned(), per_processor.iter().sum());
    }
    Ok(counters)
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
