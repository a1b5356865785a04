//! The results of `atp-sim run`: one row per scheme.

use atp_sim::{
    experiment::{CoflowOutcome, Outcome, Point, Scheme, Summary},
    parallel,
};
use serde::Serialize;
use std::time::Instant;

/// The result of one scheme.
#[derive(Debug, Serialize)]
pub struct Row {
    pub scheme: String,
    pub summary: Summary,
    coflows: Vec<CoflowOutcome>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The run time on this machine, seconds. It differs from run to run.
    pub wall_s: f64,
}

/// Runs every scheme on the same points, on all cores. The rows are in the order of the points, and
/// then of the schemes.
pub fn run_all(points: &[Point], schemes: &[Scheme]) -> Vec<Row> {
    let of_point = |point| schemes.iter().map(move |scheme| (point, *scheme));
    let runs: Vec<(&Point, Scheme)> = points.iter().flat_map(of_point).collect();
    parallel::map(&runs, |&(point, scheme), report_progress| {
        let started = Instant::now();
        let outcome = Point { scheme, ..point.clone() }.run_with_progress(report_progress);
        Row {
            scheme: scheme.to_string(),
            summary: outcome.summary(),
            coflows: outcome.coflows(),
            outcome,
            wall_s: started.elapsed().as_secs_f64(),
        }
    })
}
