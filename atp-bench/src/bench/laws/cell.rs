//! Measures one cell of the grid.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::setting::Setting;
use crate::job::clock;
use crate::job::exact::{self, Latency, Window};
use crate::job::exact_traffic::Traffic;
use crate::job::messages::needed;
use crate::job::progress::Progress;
use crate::job::protocol::{JobSpec, ReceiverReport, SenderReport};
use crate::job::scheme_name::SchemeName;
use crate::job::session::{Crew, START_LEAD_NS, dropped_share};
use crate::machine_state::machine_load;
use testbed::Testbed;

/// The parameters of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub setting: Setting,
    pub msr: f64,
    pub packets: u32,
    /// The MSR of the second job, which begins later.
    pub beside: f64,
}

/// The conditions that all cells share.
pub struct Conditions<'a> {
    pub testbed: &'a Testbed,
    pub progress: &'a Progress,
    pub messages: &'a Path,
    /// The number of messages of `message_bytes` bytes.
    pub count: usize,
    pub message_bytes: usize,
    pub rate_bytes_per_s: u64,
    pub load: f64,
    pub watch: Duration,
    pub seed: u64,
    /// The number of the last job.
    pub jobs: &'a mut u32,
}

/// The results of one measurement of a cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// Completion time of a job alone over the ideal, median of its repetitions.
    pub completion_of_ideal: f64,
    /// Share of the packets of jobs alone that were dropped.
    pub dropped_share: f64,
    /// Latency of exact requests during jobs alone.
    pub exact: Option<Latency>,
    /// Completion time of both jobs over the ideal of both.
    pub both_of_ideal: f64,
    /// Jain's index of the messages that the two jobs delivered while both ran.
    pub jain: f64,
    /// The first job's share of those messages.
    pub first_share: f64,
    /// The machine's load average over the minute before the cell. It includes the testbed's
    /// earlier work.
    pub machine_load: f64,
}

impl Cell {
    pub fn name(&self) -> String {
        let Cell { setting, msr, packets, .. } = self;
        format!("{}, MSR {msr}, {packets} packets a message", setting.name())
    }

    pub fn measure(&self, conditions: &mut Conditions<'_>) -> Result<Run> {
        let machine_load = machine_load()?;
        conditions.progress.begin(&self.name());
        let requests_per_s = exact::requests_per_s(conditions.load, conditions.rate_bytes_per_s);
        let traffic = Traffic::start(conditions.testbed, requests_per_s, conditions.seed)?;
        let mut alone = Vec::new();
        while alone.is_empty() || seconds(&alone) < conditions.watch.as_secs_f64() {
            let sources = conditions.sources();
            alone.push(conditions.jobs(&[(self, self.msr, sources, 0.0)])?.remove(0));
        }
        let (first, second) = self.pair(conditions)?;
        let windows: Vec<Window> = alone.iter().map(|job| job.window).collect();
        let latency = exact::latency(traffic.finish()?.times_ns, &windows)?;
        let ideal_s = conditions.ideal_s(self.msr);
        let median = |value: &dyn Fn(&Job) -> f64| {
            crate::median::median(alone.iter().map(value)).unwrap_or(0.0)
        };
        let both_s = clock::seconds_between(
            first.window.from_ns,
            first.window.to_ns.max(second.window.to_ns),
        );
        let both_ideal_s = conditions.ideal_s(self.msr) + conditions.ideal_s(self.beside);
        let [one, two] = shares(&first, &second);
        Ok(Run {
            completion_of_ideal: median(&|job| job.window.seconds() / ideal_s),
            dropped_share: median(&|job| job.dropped_share),
            exact: latency,
            both_of_ideal: both_s / both_ideal_s,
            jain: jain([one, two]),
            first_share: one / (one + two).max(1.0),
            machine_load,
        })
    }

    /// Runs a job of this cell on half of the hosts. The second job begins on the other half after
    /// half of the first one's ideal completion time.
    fn pair(&self, conditions: &mut Conditions<'_>) -> Result<(Job, Job)> {
        let sources = conditions.sources();
        let (first, second) = sources.split_at(sources.len() / 2);
        let later_s = conditions.ideal_s(self.msr) / 2.0;
        let mut jobs = conditions.jobs(&[
            (self, self.msr, first.to_vec(), 0.0),
            (self, self.beside, second.to_vec(), later_s),
        ])?;
        let second = jobs.pop().context("two jobs")?;
        let first = jobs.pop().context("two jobs")?;
        Ok((first, second))
    }
}

/// Factor over the ideal completion time after which a job counts as stuck.
const STUCK_FACTOR: f64 = 60.0;

/// An ended job.
struct Job {
    window: Window,
    dropped_share: f64,
    timeline: Vec<(u64, usize)>,
}

impl Conditions<'_> {
    /// The ideal completion time of a job of this MSR: its needed bytes over the rate left by the
    /// exact traffic.
    fn ideal_s(&self, msr: f64) -> f64 {
        let bytes = needed(msr, self.count) * self.message_bytes;
        bytes as f64 / (self.rate_bytes_per_s as f64 * (1.0 - self.load))
    }

    fn sources(&self) -> Vec<Ipv4Addr> {
        self.testbed.senders().iter().map(|host| host.ipv4).collect()
    }

    /// Runs concurrent jobs of (cell, MSR, hosts, seconds after the first) to their end.
    fn jobs(&mut self, jobs: &[(&Cell, f64, Vec<Ipv4Addr>, f64)]) -> Result<Vec<Job>> {
        let mut crews = Vec::new();
        for (cell, msr, sources, later_s) in jobs {
            *self.jobs += 1;
            let job = JobSpec {
                scheme: SchemeName::Atp,
                number: *self.jobs,
                seed: self.seed,
                msr: *msr,
                emax: None,
                confidence: 0.95,
                sources: sources.clone(),
                messages: self.messages.to_owned(),
                queries: Vec::new(),
                rate_bytes_per_s: self.rate_bytes_per_s,
                law: cell.setting.options(),
            };
            crews.push((Crew::assemble(self.testbed, &job)?, *msr, (later_s * 1e9) as u64));
        }
        let start_ns = clock::now_ns() + START_LEAD_NS;
        for (crew, _, later_ns) in &mut crews {
            crew.start(start_ns + *later_ns)?;
        }
        let ideal_s: f64 = crews.iter().map(|(_, msr, _)| self.ideal_s(*msr)).sum();
        let deadline = Instant::now() + Duration::from_secs_f64(10.0 + STUCK_FACTOR * ideal_s);
        let mut ended = Vec::new();
        for (crew, msr, later_ns) in &mut crews {
            let (received, sent) = crew.results(deadline, |_| {})?;
            ensure!(
                received.delivered >= needed(*msr, self.count),
                "{} of {} messages were delivered",
                received.delivered,
                self.count
            );
            ended.push(Job::new(start_ns + *later_ns, received, &sent)?);
        }
        Ok(ended)
    }
}

impl Job {
    fn new(from_ns: u64, received: ReceiverReport, sent: &[SenderReport]) -> Result<Job> {
        let userspace = sent.iter().any(|sender| sender.datapath.as_deref() != Some("ebpf"));
        ensure!(!userspace, "a sender ran without its host's daemon");
        Ok(Job {
            window: Window { from_ns, to_ns: received.ended_ns },
            dropped_share: dropped_share(&received, sent)?,
            timeline: received.timeline,
        })
    }

    /// The number of messages delivered by `at_ns`.
    fn delivered_by(&self, at_ns: u64) -> f64 {
        let after = self.timeline.partition_point(|(sample_ns, _)| *sample_ns <= at_ns);
        after.checked_sub(1).map_or(0.0, |last| self.timeline[last].1 as f64)
    }
}

fn seconds(jobs: &[Job]) -> f64 {
    jobs.iter().map(|job| job.window.seconds()).sum()
}

/// The number of messages that each job delivered while both ran.
fn shares(first: &Job, second: &Job) -> [f64; 2] {
    let from_ns = second.window.from_ns;
    let to_ns = first.window.to_ns.min(second.window.to_ns);
    [first, second].map(|job| job.delivered_by(to_ns) - job.delivered_by(from_ns))
}

/// Jain's index: 1 for equal shares, 1/N if one job has everything.
fn jain<const N: usize>(shares: [f64; N]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 { sum * sum / (N as f64 * squares) } else { 0.0 }
}

impl Run {
    pub fn describe(&self) -> String {
        let p99 = self.exact.map_or_else(String::new, |exact| format!("{:.2} ms", exact.p99_ms));
        format!(
            "{:.2} of ideal, {:.1} % dropped, exact p99 {p99}, two jobs {:.2} of ideal, Jain {:.2}",
            self.completion_of_ideal,
            100.0 * self.dropped_share,
            self.both_of_ideal,
            self.jain
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain__one_for_equals_half_for_one_of_two() {
        assert_eq!(jain([3.0, 3.0]), 1.0);
        assert_eq!(jain([3.0, 0.0]), 0.5);
        assert_eq!(jain([0.0, 0.0]), 0.0);
    }

    #[test]
    fn shares__what_each_got_while_both_ran() {
        let job = |from_ns, to_ns, timeline| Job {
            window: Window { from_ns, to_ns },
            dropped_share: 0.0,
            timeline,
        };
        let first = job(0, 100, vec![(10, 10), (50, 50), (90, 60)]);
        let second = job(50, 200, vec![(60, 5), (100, 30), (200, 90)]);
        assert_eq!(shares(&first, &second), [10.0, 30.0]);
        let early = job(0, 40, vec![(10, 10)]);
        assert_eq!(shares(&early, &second), [0.0, 0.0]);
    }
}
