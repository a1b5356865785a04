//! Reports the progress of a run.

use super::outcome::Job;
use crate::{engine::US, parallel::ReportProgress, simulation::Simulation};

/// The number of reports while messages arrive.
const REPORTS: u64 = 1_000;

/// Runs until `end_ps`, as `Simulation::run_on` does, and reports progress.
pub(super) fn run_on(
    simulation: &mut Simulation,
    end_ps: u64,
    jobs: &[Job],
    report_progress: ReportProgress<'_>,
) {
    let mut until_ps = simulation.now_ps();
    let part_ps = (end_ps.saturating_sub(until_ps) / REPORTS).max(US);
    while until_ps < end_ps {
        until_ps = (until_ps + part_ps).min(end_ps);
        simulation.run_on(until_ps);
        report_progress(&|| share_done(simulation, jobs));
    }
    simulation.run_on(end_ps);
}

/// The share of all needed messages that was delivered.
pub(super) fn share_done(simulation: &Simulation, jobs: &[Job]) -> f64 {
    let needed: u64 = jobs.iter().map(|job| u64::from(job.needed)).sum();
    let delivered = |job: &Job| simulation.progress(job.flow).delivered.min(job.needed);
    let done: u64 = jobs.iter().map(delivered).map(u64::from).sum();
    done as f64 / needed.max(1) as f64
}
