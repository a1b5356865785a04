//! A row of the fault table: the injected fault and the result.

use anyhow::{Context, Result};
use approxlib::Report;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    io::Write,
    time::{Duration, Instant},
};
use testbed::{Load, Received, backend};

/// The file to which rows are added.
const FILE: &str = "ATP_FAULTS_JSON";

/// A row, as `cargo xtask faults-table` reads it.
#[derive(Debug, Serialize)]
pub struct Row {
    case: String,
    kernel: String,
    backend: String,
    /// The injector: `eBPF`, `netem` or `test`.
    pub injector: String,
    /// The injected fault.
    pub injected: String,
    jobs: Vec<Job>,
    counters: BTreeMap<String, u64>,
    /// The error if the test failed.
    failure: Option<String>,
    #[serde(skip)]
    started: Instant,
}

/// A job of the row.
#[derive(Debug, Serialize)]
struct Job {
    name: String,
    /// The number of messages, N.
    messages: u32,
    needed: u32,
    /// The number of complete, distinct messages in the receiver's file.
    delivered: u32,
    /// `complete`, or the sender's error.
    ended: String,
    seconds: f64,
}

impl Row {
    /// Creates an empty row.
    pub fn new(case: &str) -> Self {
        Self {
            case: case.to_owned(),
            kernel: kernel_release(),
            backend: backend().unwrap_or_else(|| "auto".to_owned()),
            injector: "test".to_owned(),
            injected: String::new(),
            jobs: Vec::new(),
            counters: BTreeMap::new(),
            failure: None,
            started: Instant::now(),
        }
    }

    /// Adds a job that was reported complete.
    pub fn complete(&mut self, name: &str, report: &Report, received: &Received) {
        let group =
            |field: fn(&approxlib::GroupReport) -> u32| report.groups.iter().map(field).sum();
        self.jobs.push(Job {
            name: name.to_owned(),
            messages: group(|group| group.messages),
            needed: group(|group| group.needed),
            delivered: received.messages,
            ended: "complete".to_owned(),
            seconds: report.elapsed_s,
        });
        self.count("packets sent", report.packets_sent);
        self.count_if_any("packets retransmitted", report.packets_retransmitted);
    }

    /// Adds a job that ended with an error.
    pub fn ended(
        &mut self,
        name: &str,
        load: Load,
        msr: f64,
        delivered: u32,
        error: &str,
        after: Duration,
    ) {
        self.jobs.push(Job {
            name: name.to_owned(),
            messages: load.messages,
            needed: (msr * f64::from(load.messages)).ceil() as u32,
            delivered,
            ended: error.to_owned(),
            seconds: after.as_secs_f64(),
        });
    }

    /// Adds to a counter. The counters show that the fault was there.
    pub fn count(&mut self, name: &str, count: u64) {
        *self.counters.entry(name.to_owned()).or_default() += count;
    }

    /// As [`Self::count`], but leaves out a count of zero.
    pub fn count_if_any(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.count(name, count);
        }
    }

    /// As [`Self::count`], for several counters.
    pub fn count_all(&mut self, counts: BTreeMap<String, u64>) {
        for (name, count) in counts {
            self.count(&name, count);
        }
    }

    /// A counter's value.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    /// Records the test's outcome.
    pub fn close(&mut self, failure: Option<&anyhow::Error>) {
        self.failure = failure.map(|error| format!("{error:#}"));
    }

    /// Prints the row, and adds it to the file if `ATP_FAULTS_JSON` names one.
    pub fn publish(&self) -> Result<()> {
        println!("{}", self.line());
        let Some(path) = env::var_os(FILE).filter(|path| !path.is_empty()) else { return Ok(()) };
        let mut file = OpenOptions::new().create(true).append(true).open(&path).context(FILE)?;
        Ok(writeln!(file, "{}", serde_json::to_string(self)?)?)
    }

    fn line(&self) -> String {
        let jobs = self.jobs.iter().map(|job| {
            let Job { name, messages, needed, delivered, ended, seconds } = job;
            let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
            format!("{name}{delivered}/{needed} of {messages} in {seconds:.1} s: {ended}")
        });
        let counters = self.counters.iter().map(|(name, count)| format!("{name} {count}"));
        format!(
            "row: {} | {} | {} | {} | {} | {} | {:.1} s in all",
            self.case,
            self.injector,
            self.injected,
            jobs.collect::<Vec<_>>().join("; "),
            counters.collect::<Vec<_>>().join(", "),
            self.failure.as_deref().unwrap_or("kept"),
            self.started.elapsed().as_secs_f64(),
        )
    }
}

fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.release().to_string_lossy().into_owned())
}
