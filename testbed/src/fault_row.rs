//! A row of the fault table: the fault tests write it, `cargo xtask faults-table` reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A fault test: the injected fault and its result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FaultRow {
    /// The test's name.
    pub case: String,
    /// The kernel's release.
    pub kernel: String,
    /// The pacing backend.
    pub backend: String,
    /// The injector: `eBPF`, `netem` or `test`.
    pub injector: String,
    /// The injected fault.
    pub injected: String,
    /// The jobs that ran under the fault.
    pub jobs: Vec<FaultJob>,
    /// Counters, which show that the fault was there.
    pub counters: BTreeMap<String, u64>,
    /// The error if the test failed.
    pub failure: Option<String>,
}

/// A job of a fault test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FaultJob {
    /// The job's name; empty if the test has one job.
    pub name: String,
    /// The number of messages, N.
    pub messages: u32,
    /// The number of messages that the MSR requires.
    pub needed: u32,
    /// The number of complete, distinct messages in the receiver's file.
    pub delivered: u32,
    /// `complete`, or the sender's error.
    pub ended: String,
    /// The time until the job ended.
    pub seconds: f64,
}
