//! A row of the fault table: the injected fault and the result.

use anyhow::{Context, Result};
use approxlib::Report;
use std::{
    collections::BTreeMap,
    env,
    fs::OpenOptions,
    io::Write,
    time::{Duration, Instant},
};
use testbed::{FaultJob, FaultRow, Load, Received, backend};

/// The file to which rows are added.
const FILE: &str = "ATP_FAULTS_JSON";

/// A row, and the start of its test.
#[derive(Debug)]
pub struct Row {
    row: FaultRow,
    started: Instant,
}

impl Row {
    /// Creates an empty row.
    pub fn new(case: &str) -> Self {
        let row = FaultRow {
            case: case.to_owned(),
            kernel: kernel_release(),
            backend: backend().unwrap_or_else(|| "auto".to_owned()),
            injector: "test".to_owned(),
            ..FaultRow::default()
        };
        Self { row, started: Instant::now() }
    }

    /// Sets the injector: `eBPF` or `netem`, and `test` without this call.
    pub fn set_injector(&mut self, injector: &str) {
        injector.clone_into(&mut self.row.injector);
    }

    /// Sets the description of the injected fault.
    pub fn set_injected(&mut self, injected: impl Into<String>) {
        self.row.injected = injected.into();
    }

    /// Adds a job that was reported complete.
    pub fn complete(&mut self, name: &str, report: &Report, received: &Received) {
        let group =
            |field: fn(&approxlib::GroupReport) -> u32| report.groups.iter().map(field).sum();
        self.row.jobs.push(FaultJob {
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
        self.row.jobs.push(FaultJob {
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
        *self.row.counters.entry(name.to_owned()).or_default() += count;
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
        self.row.counters.get(name).copied().unwrap_or_default()
    }

    /// Records the test's outcome.
    pub fn close(&mut self, failure: Option<&anyhow::Error>) {
        self.row.failure = failure.map(|error| format!("{error:#}"));
    }

    /// Prints the row, and adds it to the file if `ATP_FAULTS_JSON` names one.
    pub fn publish(&self) -> Result<()> {
        println!("{}", self.line());
        let Some(path) = env::var_os(FILE).filter(|path| !path.is_empty()) else { return Ok(()) };
        let mut file = OpenOptions::new().create(true).append(true).open(&path).context(FILE)?;
        Ok(writeln!(file, "{}", serde_json::to_string(&self.row)?)?)
    }

    fn line(&self) -> String {
        let jobs = self.row.jobs.iter().map(|job| {
            let FaultJob { name, messages, needed, delivered, ended, seconds } = job;
            let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
            format!("{name}{delivered}/{needed} of {messages} in {seconds:.1} s: {ended}")
        });
        let counters = self.row.counters.iter().map(|(name, count)| format!("{name} {count}"));
        format!(
            "row: {} | {} | {} | {} | {} | {} | {:.1} s in all",
            self.row.case,
            self.row.injector,
            self.row.injected,
            jobs.collect::<Vec<_>>().join("; "),
            counters.collect::<Vec<_>>().join(", "),
            self.row.failure.as_deref().unwrap_or("kept"),
            self.started.elapsed().as_secs_f64(),
        )
    }
}

fn kernel_release() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| "unknown".to_owned(), |name| name.release().to_string_lossy().into_owned())
}
