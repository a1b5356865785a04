//! Small networks of hosts on one machine, and the product's own programs on them: the fixture of
//! the end-to-end tests.
//!
//! A host is a network namespace that has no name: it lives as long as somebody holds it, so nothing
//! is left of it when its test ends, however it ends. Everything else goes when it is dropped.

mod cgroup;
mod daemon;
pub mod faults;
mod host;
mod load;
mod namespace;
mod needs;
mod network;
mod process;
mod snapshot;
mod transfer;
pub mod wire;

pub use cgroup::TestCgroup;
pub use daemon::{Daemon, take_logs};
pub use host::{DEVICE, Host, v4_counter};
pub use load::Load;
pub use namespace::Namespace;
pub use needs::{
    backend, missing, missing_for_cgroups, missing_for_fq, missing_for_netem, object, pacing_only,
    qdisc_exists,
};
pub use network::{Family, Pair, Star};
pub use process::{Finished, Process};
pub use snapshot::Snapshot;
pub use transfer::{PORT, Received, Receiving, Sending, Transfer, check_promise};

use anyhow::{Result, bail};
use approxlib::control::GroupOpen;
use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take that takes a fraction of a second on an idle machine: test machines
/// are slow, busy, or emulated.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives something; `what` is for the error.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {} s in vain for {what}", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a socket of one group asks the daemon for.
pub fn one_group(msr_parts_per_billion: u32, messages: u32) -> [GroupOpen; 1] {
    [GroupOpen { group: 0, msr_parts_per_billion, messages }]
}
