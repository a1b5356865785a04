//! Runs an all-reduce: each transfer begins when the transfers it depends on are complete.

use super::{AllReduce, Point, outcome::Job, stop_rule::StopRule};
use crate::{
    net::{FlowId, HostId},
    parallel::ReportProgress,
    simulation::Simulation,
    workload::{TraceJob, Transfer},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A collective operation in progress.
pub(super) struct Collective {
    transfers: Vec<Transfer>,
    /// By transfer: the number of incomplete transfers that it depends on.
    waits_for: Vec<usize>,
    /// By transfer: the transfers that depend on it.
    next: Vec<Vec<usize>>,
    /// The transfers that can begin.
    ready: VecDeque<usize>,
    in_progress: BTreeMap<FlowId, usize>,
    /// By source and destination: the last transfer's flow.
    last: BTreeMap<(HostId, HostId), FlowId>,
    left: usize,
    exact_hosts: BTreeSet<u32>,
}

impl Collective {
    /// Makes a collective before its first transfer.
    pub fn new(point: &Point, all_reduce: &AllReduce) -> Self {
        let hosts = point.network_spec.hosts() as u32;
        let transfers = all_reduce.shape.transfers(hosts, all_reduce.bytes);
        let waits_for: Vec<usize> = transfers.iter().map(|transfer| transfer.after.len()).collect();
        let mut next = vec![Vec::new(); transfers.len()];
        for (at, transfer) in transfers.iter().enumerate() {
            for before in &transfer.after {
                next[*before].push(at);
            }
        }
        let ready = (0..transfers.len()).filter(|at| waits_for[*at] == 0).collect();
        let left = transfers.len();
        let exact_hosts = point.exact_hosts(0..hosts);
        let (in_progress, last) = (BTreeMap::new(), BTreeMap::new());
        Self { transfers, waits_for, next, ready, in_progress, last, left, exact_hosts }
    }

    /// Runs until all transfers are complete or the stop rule ends the run. Returns whether all are
    /// complete. Adds a job for each transfer.
    pub fn run(
        mut self,
        point: &Point,
        simulation: &mut Simulation,
        jobs: &mut Vec<Job>,
        stop_rule: &mut StopRule,
        report_progress: ReportProgress<'_>,
    ) -> bool {
        loop {
            while let Some(at) = self.ready.pop_front() {
                self.begin(at, point, simulation, jobs);
            }
            if self.left == 0 {
                return true;
            }
            let Some(flow) = stop_rule.next_done(simulation) else { return false };
            // The flow may also belong to a tenant.
            if let Some(at) = self.in_progress.remove(&flow) {
                self.complete(at);
                report_progress(&|| 1.0 - self.left as f64 / self.transfers.len() as f64);
            }
        }
    }

    fn begin(
        &mut self,
        at: usize,
        point: &Point,
        simulation: &mut Simulation,
        jobs: &mut Vec<Job>,
    ) {
        let Transfer { source, destination, bytes, .. } = self.transfers[at];
        let at_ps = simulation.now_ps().max(point.begins_ps);
        // A generator per transfer gives the same messages under every scheme, in any order of
        // transfers.
        let mut rng = ChaCha8Rng::seed_from_u64(point.seed);
        rng.set_stream(at as u64);
        let messages = point.sizes.split(bytes, &mut rng);
        let messages = messages.into_iter().map(|bytes| (at_ps, bytes)).collect();
        let messages = TraceJob { source, destination, coflow: None, messages }.messages();
        let is_exact = self.exact_hosts.contains(&source);
        let earlier = self.last.get(&(source, destination)).copied();
        let job = point.add_job(simulation, source, destination, is_exact, messages, earlier);
        self.last.insert((source, destination), job.flow);
        jobs.push(job);
        if job.needed == 0 {
            self.complete(at);
        } else {
            self.in_progress.insert(job.flow, at);
        }
    }

    fn complete(&mut self, at: usize) {
        self.left -= 1;
        for next in &self.next[at] {
            self.waits_for[*next] -= 1;
            if self.waits_for[*next] == 0 {
                self.ready.push_back(*next);
            }
        }
    }
}
