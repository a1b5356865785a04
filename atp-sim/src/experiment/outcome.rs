//! The outcome of a point.

use crate::{
    engine::US,
    net::{FlowId, HostId},
    simulation::Simulation,
    waste::Spent,
};
use serde::Serialize;

/// A job of the run, which is one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub flow: FlowId,
    pub source: HostId,
    pub destination: HostId,
    pub tenant: u32,
    pub coflow: Option<u32>,
    pub total: u32,
    pub needed: u32,
    pub exact: bool,
}

/// The result of one job. All fields are integers, so that results are the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobOutcome {
    /// The sending host, counted from 0.
    pub source: HostId,
    /// The receiving host.
    pub destination: HostId,
    /// 0 for the point's own jobs, else the number of the tenant, from 1.
    pub tenant: u32,
    /// The number of the job's coflow.
    pub coflow: Option<u32>,
    /// Whether all messages must arrive. If so, the job uses DCTCP under every scheme.
    pub exact: bool,
    /// The number of messages, N.
    pub messages: u32,
    /// The number of messages that must arrive, `ceil(MSR * N)`.
    pub needed: u32,
    /// Messages delivered by the end of the run.
    pub delivered: u32,
    /// The time of the first message, picoseconds.
    pub began_ps: u64,
    /// The time from the first message to the message that completed the job, picoseconds; `None`
    /// if the job never was complete.
    pub completion_ps: Option<u64>,
    /// Packets of the job that were dropped, in both directions.
    pub dropped_packets: u64,
}

/// The outcome of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The result of each job.
    pub jobs: Vec<JobOutcome>,
    /// Whether all senders know that their job is complete. This matters if the receiver tells them
    /// (ATP, MLT).
    pub senders_ended: bool,
    /// Packets that hosts sent.
    pub packets_sent: u64,
    /// Packets that switches dropped.
    pub packets_dropped: u64,
    /// Packets that switches marked.
    pub packets_marked: u64,
    /// Packets that switches trimmed to their header.
    pub packets_trimmed: u64,
    /// The use of the data bytes that approximate jobs sent.
    pub spent: Spent,
    /// The mean time of exact jobs' messages between the two applications, picoseconds; `None`
    /// without exact messages, or if one never arrived.
    pub exact_mean_ps: Option<u64>,
    /// The 99th percentile of these times.
    pub exact_p99_ps: Option<u64>,
    /// Whether the stop rule ended the run, because its jobs made almost no progress
    /// (`experiment/stop_rule.rs`).
    pub is_given_up: bool,
    /// The time from the first message of the point's own jobs until all of them were complete,
    /// picoseconds; `None` if one never was.
    pub all_done_ps: Option<u64>,
    /// Simulated time until the last job was complete, picoseconds.
    pub simulated_ps: u64,
    /// Bytes that waited at a switch port while messages arrived (`Point::busy_ps`), the mean over
    /// time and ports.
    pub queue_mean_bytes: u64,
    /// The mean over time at the port with the highest mean.
    pub queue_worst_bytes: u64,
    /// The maximum at any port from the start of the run to the end of that time.
    pub queue_max_bytes: u64,
    /// Simulated events.
    pub events: u64,
}

/// Queue lengths while messages arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queues {
    mean_bytes: u64,
    worst_bytes: u64,
    max_bytes: u64,
}

/// The bytes that waited at each port, integrated over time.
#[derive(Clone, Debug)]
pub(super) struct Waited {
    at_ps: u64,
    byte_ps: Vec<u128>,
}

impl Waited {
    /// The integral until `at_ps`. The simulation must have run until then.
    pub fn until(simulation: &Simulation, at_ps: u64) -> Self {
        let byte_ps = simulation.ports_at(at_ps).map(|port| port.waiting_byte_ps).collect();
        Self { at_ps, byte_ps }
    }
}

impl Queues {
    /// The queue lengths from `before` to `at_ps`. The simulation must have run until then.
    pub fn since(before: &Waited, simulation: &Simulation, at_ps: u64) -> Self {
        let now = Waited::until(simulation, at_ps);
        let time_ps = u128::from((now.at_ps - before.at_ps).max(1));
        let waited = || now.byte_ps.iter().zip(&before.byte_ps).map(|(now, before)| now - before);
        let number = now.byte_ps.len().max(1) as u128;
        Self {
            mean_bytes: (waited().sum::<u128>() / number / time_ps) as u64,
            worst_bytes: (waited().max().unwrap_or(0) / time_ps) as u64,
            max_bytes: simulation.ports().map(|port| port.waiting_bytes_max).max().unwrap_or(0),
        }
    }
}

impl Outcome {
    pub(super) fn of(
        simulation: &Simulation,
        of: &[Job],
        queues: Queues,
        simulated_ps: u64,
        is_given_up: bool,
    ) -> Self {
        let outcome = |job: &Job| {
            let progress = simulation.progress(job.flow);
            JobOutcome {
                source: job.source,
                destination: job.destination,
                tenant: job.tenant,
                coflow: job.coflow,
                exact: job.exact,
                messages: job.total,
                needed: job.needed,
                delivered: progress.delivered,
                began_ps: progress.began_ps,
                completion_ps: match job.needed {
                    0 => Some(0),
                    _ => progress.done_ps.map(|done_ps| done_ps - progress.began_ps),
                },
                dropped_packets: simulation.dropped(job.flow),
            }
        };
        let ports: Vec<_> = simulation.ports().collect();
        let mut times: Vec<u64> =
            of.iter().flat_map(|job| simulation.times_ps(job.flow)).copied().collect();
        let sum: u128 = times.iter().map(|ps| u128::from(*ps)).sum();
        let jobs: Vec<_> = of.iter().map(outcome).collect();
        // A message that never arrived would be the slowest one, so there is no percentile.
        let all_came = jobs.iter().all(|job| !job.exact || job.delivered == job.messages);
        let p99 = times.len() * 99 / 100;
        let exact_p99_ps =
            (all_came && !times.is_empty()).then(|| *times.select_nth_unstable(p99).1);
        Self {
            exact_mean_ps: exact_p99_ps.map(|_| (sum / times.len() as u128) as u64),
            exact_p99_ps,
            senders_ended: of
                .iter()
                .all(|job| job.exact || simulation.sender(job.flow).has_ended()),
            all_done_ps: all_done_ps(simulation, of),
            spent: of.iter().filter(|job| !job.exact).map(|job| simulation.spent(job.flow)).sum(),
            jobs,
            is_given_up,
            packets_sent: simulation.packets_sent(),
            packets_dropped: ports.iter().map(|port| port.dropped_packets).sum(),
            packets_trimmed: ports.iter().map(|port| port.trimmed_packets).sum(),
            packets_marked: ports.iter().map(|port| port.marked_packets).sum(),
            simulated_ps,
            queue_mean_bytes: queues.mean_bytes,
            queue_worst_bytes: queues.worst_bytes,
            queue_max_bytes: queues.max_bytes,
            events: simulation.events(),
        }
    }

    /// The point's own approximate jobs. A host without messages has no job.
    pub fn approximate(&self) -> impl Iterator<Item = &JobOutcome> {
        self.jobs.iter().filter(|job| !job.exact && job.tenant == 0 && job.messages > 0)
    }

    /// The number of complete approximate jobs.
    pub fn complete(&self) -> usize {
        self.approximate().filter(|job| job.completion_ps.is_some()).count()
    }

    /// The completion times of approximate jobs, sorted, microseconds.
    pub fn completions_us(&self) -> Vec<f64> {
        let times = self.approximate().filter_map(|job| job.completion_ps);
        let mut times: Vec<f64> = times.map(|ps| ps as f64 / US as f64).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// The share of approximate jobs' messages that were not delivered. Most of them were not
    /// needed.
    pub fn undelivered_share(&self) -> f64 {
        let messages: u64 = self.approximate().map(|job| u64::from(job.messages)).sum();
        let delivered: u64 = self.approximate().map(|job| u64::from(job.delivered)).sum();
        if messages == 0 { 0.0 } else { 1.0 - delivered as f64 / messages as f64 }
    }

    /// The share of packets that switches dropped.
    pub fn dropped_share(&self) -> f64 {
        if self.packets_sent == 0 {
            0.0
        } else {
            self.packets_dropped as f64 / self.packets_sent as f64
        }
    }
}

fn all_done_ps(simulation: &Simulation, jobs: &[Job]) -> Option<u64> {
    let own = || jobs.iter().filter(|job| job.tenant == 0 && job.needed > 0);
    let done = own().map(|job| simulation.progress(job.flow).done_ps);
    let last_ps = done.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    let began_ps = own().map(|job| simulation.progress(job.flow).began_ps).min()?;
    Some(last_ps - began_ps)
}
