//! The resources of a process and a host: descriptors, memory, threads, qdiscs.

use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use testbed::{DEVICE, Host};

use super::change::SECOND;
use crate::process_state::{resident_kib, status_number};

/// The resources of a process: a daemon, or a server.
#[derive(Clone, Copy, Debug)]
pub struct ProcessState {
    descriptors: u64,
    threads: u64,
    resident_kib: u64,
}

impl ProcessState {
    /// The current state.
    pub fn of(process: u32) -> Result<Self> {
        // A daemon opens sockets for a moment, to look at the network. A leak stays.
        let mut descriptors = u64::MAX;
        for _ in 0..20 {
            let now = fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
            descriptors = descriptors.min(now);
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Self {
            descriptors,
            threads: status_number(process, "Threads:")?,
            resident_kib: resident_kib(process)?,
        })
    }

    /// The rows of a table.
    pub fn rows(name: &str, before: &Self, after: &Self) -> [[String; 4]; 3] {
        let row = |what: &str, before: u64, after: u64| {
            [name.to_owned(), what.to_owned(), before.to_string(), after.to_string()]
        };
        [
            row("descriptors", before.descriptors, after.descriptors),
            row("threads", before.threads, after.threads),
            row("resident KiB", before.resident_kib, after.resident_kib),
        ]
    }

    /// The state with this many more descriptors.
    pub const fn with_descriptors(self, more: u64) -> Self {
        Self { descriptors: self.descriptors + more, ..self }
    }

    /// Expects no more descriptors and threads than before, and at most this much more memory.
    pub fn expect_no_more(&self, after: &Self, growth_max_kib: u64) -> Result<()> {
        ensure!(after.descriptors <= self.descriptors, "descriptors leak: {self:?}, {after:?}");
        // Threads of the pool for blocking calls come and go.
        ensure!(after.threads <= self.threads + 8, "threads leak: {self:?}, {after:?}");
        let limit_kib = self.resident_kib + growth_max_kib;
        ensure!(after.resident_kib <= limit_kib, "memory leaks: {self:?}, {after:?}");
        Ok(())
    }
}

/// The qdiscs of a host, without their changing numbers.
pub fn qdiscs(host: &Host) -> Result<Vec<String>> {
    let listed = host.namespace.run("tc qdisc show")?;
    let mut kinds: Vec<String> = listed
        .lines()
        .map(|line| line.split_whitespace().take(5).filter(|word| !word.ends_with(':')))
        .map(|words| words.collect::<Vec<_>>().join(" "))
        .collect();
    kinds.sort();
    Ok(kinds)
}

/// The bytes that a host has sent on both cables. An interface that is gone counts nothing.
pub fn sent_bytes(host: &Host) -> Result<u64> {
    let count = |interface: &str| -> Result<u64> {
        let Ok(text) = host.namespace.run(&format!("ip -s -j link show dev {interface}")) else {
            return Ok(0);
        };
        let links: serde_json::Value = serde_json::from_str(&text)?;
        links[0]["stats64"]["tx"]["bytes"].as_u64().context("no count of sent bytes")
    };
    Ok(count(DEVICE)? + count(SECOND)?)
}
