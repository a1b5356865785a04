//! How far a run is, for whoever waits for it.

use super::outcome::Job;
use crate::{engine::US, parallel::Watch, simulation::Simulation};

/// So many times it is said how far a run is, while messages come.
const PARTS: u64 = 1_000;

/// Goes on until `end_ps`, as `Simulation::run_on` does, and says meanwhile how far it is.
pub(super) fn run_on(simulation: &mut Simulation, end_ps: u64, jobs: &[Job], watch: Watch<'_>) {
    let mut until_ps = simulation.now_ps();
    let part_ps = (end_ps.saturating_sub(until_ps) / PARTS).max(US);
    while until_ps < end_ps {
        until_ps = (until_ps + part_ps).min(end_ps);
        simulation.run_on(until_ps);
        watch(&|| share_done(simulation, jobs));
    }
    simulation.run_on(end_ps);
}

/// The share that was delivered of all that jobs need: what a run waits for.
pub(super) fn share_done(simulation: &Simulation, jobs: &[Job]) -> f64 {
    let needed: u64 = jobs.iter().map(|job| u64::from(job.needed)).sum();
    let delivered = |job: &Job| simulation.progress(job.flow).delivered.min(job.needed);
    let done: u64 = jobs.iter().map(delivered).map(u64::from).sum();
    done as f64 / needed.max(1) as f64
}
