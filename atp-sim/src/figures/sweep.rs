//! A figure is a sweep: schemes over a range of something, each point with several seeds.

use crate::{
    experiment::{Outcome, Point},
    parallel,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The mean completion time of jobs, microseconds; none where some never completed.
    CompletionUs,
    /// Bytes that wait at the average port.
    QueueBytes,
    /// How long messages of exact jobs take on the average, microseconds.
    ExactUs,
}

impl Metric {
    /// For an axis.
    pub const fn label(self) -> &'static str {
        match self {
            Self::CompletionUs => "mean job completion time [us]",
            Self::QueueBytes => "mean queue at a switch's port [bytes]",
            Self::ExactUs => "mean time of an exact message [us]",
        }
    }

    /// Of one run, if there is such a thing.
    pub fn of(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Self::CompletionUs => {
                let times = outcome.completions_us();
                let is_all = times.len() == outcome.approximate().count() && !times.is_empty();
                is_all.then(|| times.iter().sum::<f64>() / times.len() as f64)
            }
            Self::QueueBytes => Some(outcome.queue_mean_bytes as f64),
            Self::ExactUs => {
                outcome.exact_mean_ps.map(|mean_ps| mean_ps as f64 / crate::engine::US as f64)
            }
        }
    }
}

/// What is run for a figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The paper's number.
    pub number: u32,
    /// What it shows.
    pub title: String,
    /// What the paper says about it.
    pub claim: &'static str,
    /// What lies on the horizontal axis.
    pub axis: &'static str,
    /// What lies on the vertical one.
    pub metric: Metric,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// One point of a figure with one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called: runs of one name are a series.
    pub series: String,
    /// Its place on the horizontal axis.
    pub x: f64,
    /// What is run.
    pub point: Point,
}

impl Run {
    /// Called by its scheme's name.
    pub fn new(x: f64, point: Point) -> Self {
        Self { series: point.scheme.to_string(), x, point }
    }
}

/// One point of a figure, over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The scheme's name.
    pub scheme: String,
    /// Its place on the horizontal axis.
    pub x: f64,
    /// The mean over the seeds; `None` where there is none with one of them.
    pub mean: Option<f64>,
    /// The least and the most of a seed.
    pub least: Option<f64>,
    /// See `least`.
    pub most: Option<f64>,
    /// Seeds.
    pub seeds: usize,
    /// Jobs of all seeds.
    pub jobs: usize,
    /// Those of them that got what they need.
    pub jobs_complete: usize,
    /// The share of messages that were not delivered.
    pub messages_undelivered: f64,
    /// The share of packets that switches dropped.
    pub packets_dropped: f64,
    /// The mean queue at a switch's port, bytes.
    pub queue_mean_bytes: f64,
}

/// The points of one scheme, by place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name.
    pub scheme: String,
    /// Its points.
    pub cells: Vec<Cell>,
}

/// What came of points that were run already: some figures show different sides of the same runs.
#[derive(Debug, Default)]
pub struct Known(BTreeMap<String, Outcome>);

impl Known {
    /// Runs those of `points` that aren't known, on all cores.
    pub(crate) fn complete<'a>(&mut self, points: impl Iterator<Item = &'a Point>) {
        let unknown: BTreeMap<String, &Point> = points
            .map(|point| (key(point), point))
            .filter(|(key, _)| !self.0.contains_key(key))
            .collect();
        let unknown: Vec<(String, &Point)> = unknown.into_iter().collect();
        let outcomes = parallel::map(&unknown, |(_, point), watch| point.run_watched(watch));
        self.0.extend(unknown.into_iter().map(|(key, _)| key).zip(outcomes));
    }

    /// What came of a point that was run.
    pub(crate) fn outcome(&self, point: &Point) -> &Outcome {
        &self.0[&key(point)]
    }
}

/// All that a point says, which is all that its outcome depends on.
fn key(point: &Point) -> String {
    format!("{point:?}")
}

impl Figure {
    /// Runs what isn't known, on all cores.
    pub fn run(&self, known: &mut Known) -> Vec<Series> {
        known.complete(self.runs.iter().map(|run| &run.point));
        let mut series: Vec<Series> = Vec::new();
        let runs: Vec<(&Run, &Outcome)> =
            self.runs.iter().map(|run| (run, known.outcome(&run.point))).collect();
        for (run, _) in &runs {
            let scheme = run.series.clone();
            let known = series.iter().position(|series| series.scheme == scheme);
            let place = known.unwrap_or_else(|| {
                series.push(Series { scheme: scheme.clone(), cells: Vec::new() });
                series.len() - 1
            });
            let cells = &mut series[place].cells;
            if !cells.iter().any(|cell| cell.x == run.x) {
                let of_cell: Vec<&Outcome> = runs
                    .iter()
                    .filter(|(other, _)| other.x == run.x && other.series == run.series)
                    .map(|(_, outcome)| *outcome)
                    .collect();
                cells.push(self.cell(scheme, run.x, &of_cell));
            }
        }
        series
    }

    fn cell(&self, scheme: String, x: f64, outcomes: &[&Outcome]) -> Cell {
        let values: Vec<f64> =
            outcomes.iter().filter_map(|outcome| self.metric.of(outcome)).collect();
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            outcomes.iter().map(|outcome| of(outcome)).sum::<f64>() / outcomes.len() as f64
        };
        Cell {
            scheme,
            x,
            mean: (values.len() == outcomes.len())
                .then(|| values.iter().sum::<f64>() / values.len() as f64),
            least: values.iter().copied().min_by(f64::total_cmp),
            most: values.iter().copied().max_by(f64::total_cmp),
            seeds: outcomes.len(),
            jobs: outcomes.iter().map(|outcome| outcome.approximate().count()).sum(),
            jobs_complete: outcomes.iter().map(|outcome| outcome.complete()).sum(),
            messages_undelivered: mean(&Outcome::undelivered_share),
            packets_dropped: mean(&Outcome::dropped_share),
            queue_mean_bytes: mean(&|outcome| outcome.queue_mean_bytes as f64),
        }
    }
}
