//! Test helper: runs a list of jobs on a leaf-spine network of four leaves.

use atp_sim::{
    engine::{MS, US},
    experiment::{NetworkSpec, Point, msr_from_fraction},
    net::{FlowId, PortQueues, Queueing, topology::LeafSpine},
    simulation::{NewFlow, Simulation},
    waste::Spent,
    workload::{Arrivals, Sizes},
};
use std::rc::Rc;

/// A job. Its messages are pairs of time, picoseconds, and size, bytes.
#[derive(Clone, Debug)]
pub struct Job {
    pub source: u32,
    pub destination: u32,
    pub msr: f64,
    pub messages: Vec<(u64, u32)>,
}

impl Job {
    pub fn new(source: u32, destination: u32, msr: f64, messages: Vec<(u64, u32)>) -> Self {
        Self { source, destination, msr, messages }
    }
}

/// The results of all jobs.
#[derive(Debug)]
pub struct Outcome {
    /// By job: the time from its first message to its completion, microseconds. For an incomplete
    /// job, the time to the end of the run.
    pub took_us: Vec<f64>,
    /// By job: the use of its data bytes.
    pub spent: Vec<Spent>,
}

impl Outcome {
    /// The mean time of some jobs, microseconds.
    pub fn mean_us(&self, jobs: std::ops::Range<usize>) -> f64 {
        self.took_us[jobs.clone()].iter().sum::<f64>() / jobs.len() as f64
    }

    /// The use of the data bytes of some jobs.
    pub fn spent(&self, jobs: std::ops::Range<usize>) -> Spent {
        self.spent[jobs].iter().copied().sum()
    }
}

/// A network of four leaves.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    pub hosts_per_leaf: u32,
    pub spines: u32,
    /// The number of packets by which each approximate queue is smaller than in the profile.
    pub fewer_packets: u64,
}

/// The time limit of a run. A job that is incomplete by then never completes.
const TIME_LIMIT_PS: u64 = 200 * MS;

impl Fabric {
    pub fn new(hosts_per_leaf: u32, spines: u32) -> Self {
        Self { hosts_per_leaf, spines, fewer_packets: 0 }
    }

    /// Host `number`, modulo the hosts per leaf, of leaf `leaf`.
    pub fn host(&self, leaf: u32, number: u32) -> u32 {
        leaf * self.hosts_per_leaf + number % self.hosts_per_leaf
    }

    /// Runs until the first `watched` jobs are complete. The seed delays the start of each job by
    /// up to 10 us.
    pub fn run(&self, scheme: &str, jobs: &[Job], watched: usize, seed: u64) -> Outcome {
        let Self { hosts_per_leaf, spines, .. } = *self;
        let network_spec = NetworkSpec::LeafSpine(LeafSpine { leaves: 4, hosts_per_leaf, spines });
        let point =
            Point { network_spec, scheme: scheme.parse().unwrap(), seed, ..Point::default() };
        let mut simulation =
            Simulation::new(&network_spec.topology(point.rate), self.queues(&point));
        let flows: Vec<FlowId> = (0..)
            .zip(jobs)
            .map(|(number, job)| {
                let late_ps = (seed * 613 + number * 7_919) % 1_000 * US / 100;
                add(&mut simulation, &point, job, late_ps)
            })
            .collect();
        let mut left = watched;
        while left > 0 {
            let Some(flow) = simulation.next_done(TIME_LIMIT_PS) else { break };
            left -= usize::from(flows[..watched].contains(&flow));
        }
        let took_us = |flow: &FlowId| {
            let progress = simulation.progress(*flow);
            let end_ps = progress.done_ps.unwrap_or(simulation.now_ps());
            end_ps.saturating_sub(progress.began_ps) as f64 / US as f64
        };
        Outcome {
            took_us: flows.iter().map(took_us).collect(),
            spent: flows.iter().map(|flow| simulation.spent(*flow)).collect(),
        }
    }

    fn queues(&self, point: &Point) -> PortQueues {
        let mut queues = point.port_queues();
        for queueing in [&mut queues.to_hosts, &mut queues.between_switches] {
            let Queueing::Priority(limits) = queueing else { continue };
            for limit in &mut Rc::make_mut(limits).limits[1..] {
                limit.bytes_max -= self.fewer_packets * 1_538;
            }
        }
        queues
    }
}

fn add(simulation: &mut Simulation, point: &Point, job: &Job, late_ps: u64) -> FlowId {
    let msr = msr_from_fraction(job.msr).unwrap();
    let point = Point { msr, ..point.clone() };
    let total = job.messages.len() as u32;
    let began_ps = job.messages[0].0 + late_ps;
    let messages: Vec<_> =
        job.messages.iter().map(|(at_ps, bytes)| (at_ps + late_ps, *bytes)).collect();
    let new = NewFlow::new(
        job.source,
        job.destination,
        Box::new(messages.into_iter()),
        msr.needed(total),
    );
    simulation.add(NewFlow { began_ps, ..new }, |route| {
        point.scheme.ends(route, &point.environment(), total)
    })
}

/// `number` messages at `at_ps`.
pub fn at_once(seed: u64, sizes: &Sizes, number: u32, at_ps: u64) -> Vec<(u64, u32)> {
    Arrivals::at_once(seed, sizes, number, at_ps).collect()
}

/// `windows` times, every `every_ps`, `number` messages at once. In between, a one-packet message
/// every `trickle_ps`.
pub fn stream(
    seed: u64,
    sizes: &Sizes,
    number: u32,
    windows: u64,
    every_ps: u64,
    trickle_ps: u64,
) -> Vec<(u64, u32)> {
    let window = |window: u64| {
        let begin_ps = window * every_ps;
        let burst = at_once(seed * 1_000 + window, sizes, number, begin_ps);
        let trickle = (1..every_ps / trickle_ps).map(move |at| (begin_ps + at * trickle_ps, 1_400));
        burst.into_iter().chain(trickle)
    };
    (0..windows).flat_map(window).collect()
}
