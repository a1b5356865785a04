//! An all-reduce on a network: transfers that begin when those before them have enough.

use super::{AllReduce, Point, outcome::Job, patience::Patience};
use crate::{
    net::FlowId,
    parallel::Watch,
    simulation::Simulation,
    workload::{TraceJob, Transfer},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A collective operation that is under way.
pub(super) struct Collective {
    transfers: Vec<Transfer>,
    /// By transfer: how many it still waits for.
    waits_for: Vec<usize>,
    /// By transfer: who waits for it.
    next: Vec<Vec<usize>>,
    /// Those that can begin.
    ready: VecDeque<usize>,
    under_way: BTreeMap<FlowId, usize>,
    left: usize,
    exact_hosts: BTreeSet<u32>,
}

impl Collective {
    /// Nothing of it has begun.
    pub fn new(point: &Point, all_reduce: &AllReduce) -> Self {
        let hosts = point.place.hosts() as u32;
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
        Self { transfers, waits_for, next, ready, under_way: BTreeMap::new(), left, exact_hosts }
    }

    /// Goes on until all transfers have enough, or patience is at its end. Returns whether they have; each
    /// is a job more.
    pub fn run(
        mut self,
        point: &Point,
        simulation: &mut Simulation,
        jobs: &mut Vec<Job>,
        patience: &mut Patience,
        watch: Watch<'_>,
    ) -> bool {
        loop {
            while let Some(at) = self.ready.pop_front() {
                self.begin(at, point, simulation, jobs);
            }
            if self.left == 0 {
                return true;
            }
            let Some(flow) = patience.next_done(simulation) else { return false };
            // Tenants' jobs are done as well.
            if let Some(at) = self.under_way.remove(&flow) {
                self.has_enough(at);
                watch(&|| 1.0 - self.left as f64 / self.transfers.len() as f64);
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
        // The same messages under every scheme, whichever transfer comes first.
        let mut rng = ChaCha8Rng::seed_from_u64(point.seed);
        rng.set_stream(at as u64);
        let messages = point.sizes.cut(bytes, &mut rng);
        let messages = messages.into_iter().map(|bytes| (at_ps, bytes)).collect();
        let messages = TraceJob { source, destination, coflow: None, messages }.messages();
        let is_exact = self.exact_hosts.contains(&source);
        let job = point.add_job(simulation, source, destination, is_exact, messages);
        jobs.push(job);
        if job.needed == 0 {
            self.has_enough(at);
        } else {
            self.under_way.insert(job.flow, at);
        }
    }

    fn has_enough(&mut self, at: usize) {
        self.left -= 1;
        for next in &self.next[at] {
            self.waits_for[*next] -= 1;
            if self.waits_for[*next] == 0 {
                self.ready.push_back(*next);
            }
        }
    }
}
