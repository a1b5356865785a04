//! What came of a point.

use crate::{
    engine::US,
    net::{FlowId, HostId},
    simulation::Simulation,
    waste::Spent,
};
use serde::Serialize;

/// A job that was run: one flow.
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

/// One job's result. Integers only: the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobOutcome {
    /// The host that sends, counted from 0.
    pub source: HostId,
    /// The host that it sends to.
    pub destination: HostId,
    /// 0: the point's own; else whose it is of its tenants, counted from 1.
    pub tenant: u32,
    /// The number of the coflow that it belongs to.
    pub coflow: Option<u32>,
    /// All of it must arrive, over DCTCP, whatever the others run.
    pub exact: bool,
    /// N.
    pub messages: u32,
    /// `ceil(MSR * N)`.
    pub needed: u32,
    /// Messages that were delivered until everything ended.
    pub delivered: u32,
    /// When its first message came, picoseconds.
    pub began_ps: u64,
    /// From then to the message that made it complete, picoseconds; `None` if it never was.
    pub completion_ps: Option<u64>,
    /// Its packets that were dropped, in either direction.
    pub dropped_packets: u64,
}

/// What came of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// By job.
    pub jobs: Vec<JobOutcome>,
    /// Every sender that has to find out for itself that its job has what it needs knows it (ATP's).
    pub senders_ended: bool,
    /// Packets that hosts put on their lines.
    pub packets_sent: u64,
    /// Packets that switches dropped.
    pub packets_dropped: u64,
    /// Packets that switches marked.
    pub packets_marked: u64,
    /// Packets whose payload switches cut off.
    pub packets_trimmed: u64,
    /// What became of the data that senders of approximate jobs put on their lines.
    pub spent: Spent,
    /// How long messages of exact jobs took, from their sender's application to the receiver's: the
    /// mean, picoseconds; `None` if there is none, or one of them never came.
    pub exact_mean_ps: Option<u64>,
    /// The time that one in a hundred of them exceeded.
    pub exact_p99_ps: Option<u64>,
    /// Jobs got on so little that the run was ended (`experiment/patience.rs` says when).
    pub is_given_up: bool,
    /// From the first message of the point's own jobs to the time when all of them were complete,
    /// picoseconds; `None` if one never was.
    pub all_done_ps: Option<u64>,
    /// Simulated time until the last job was complete.
    pub simulated_ps: u64,
    /// Bytes that waited at a switch's port while messages came (`Point::busy_ps`), on the average over
    /// time and over all ports.
    pub queue_mean_bytes: u64,
    /// The same at the port where most waited.
    pub queue_worst_bytes: u64,
    /// The most that ever waited at one until the end of that time.
    pub queue_max_bytes: u64,
    /// Events.
    pub events: u64,
}

/// How long queues were while messages came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queues {
    mean_bytes: u64,
    worst_bytes: u64,
    max_bytes: u64,
}

/// What waited at all ports from the beginning to some time: bytes, times picoseconds.
#[derive(Clone, Debug)]
pub(super) struct Waited {
    at_ps: u64,
    byte_ps: Vec<u128>,
}

impl Waited {
    /// Until `at_ps`, up to which everything has happened and nothing more.
    pub fn until(simulation: &Simulation, at_ps: u64) -> Self {
        let byte_ps = simulation.ports_at(at_ps).map(|port| port.waiting_byte_ps).collect();
        Self { at_ps, byte_ps }
    }
}

impl Queues {
    /// From `before` on until `at_ps`, up to which everything has happened and nothing more.
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
        // What never came would be the longest.
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

    /// The point's own jobs that can do with less. Hosts that drew no message have none.
    pub fn approximate(&self) -> impl Iterator<Item = &JobOutcome> {
        self.jobs.iter().filter(|job| !job.exact && job.tenant == 0 && job.messages > 0)
    }

    /// Those of them that got what they need.
    pub fn complete(&self) -> usize {
        self.approximate().filter(|job| job.completion_ps.is_some()).count()
    }

    /// Completion times of those, sorted, microseconds.
    pub fn completions_us(&self) -> Vec<f64> {
        let times = self.approximate().filter_map(|job| job.completion_ps);
        let mut times: Vec<f64> = times.map(|ps| ps as f64 / US as f64).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// The mean completion time of tenant `number`'s jobs, picoseconds; `None` if one was never complete,
    /// or it has none. Hosts that drew no message have none.
    pub fn tenant_mean_ps(&self, number: u32) -> Option<u64> {
        let theirs = self.jobs.iter().filter(|job| job.tenant == number && job.messages > 0);
        let times: Vec<u64> = theirs.map(|job| job.completion_ps).collect::<Option<_>>()?;
        let sum: u128 = times.iter().map(|ps| u128::from(*ps)).sum();
        Some(sum.checked_div(times.len() as u128)? as u64)
    }

    /// The share of approximate jobs' messages that were not delivered, most of them since nobody needed
    /// them.
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
