//! Runs a figure: a sweep of schemes over the values of a parameter, with several seeds per point.

use crate::{
    experiment::{Outcome, Point},
    parallel,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The quantity on the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The mean completion time of jobs, microseconds. It does not exist if a job never completed.
    CompletionUs,
    /// The mean queue of a switch port, bytes.
    QueueBytes,
    /// The mean time of exact jobs' messages, microseconds.
    ExactUs,
}

impl Metric {
    /// The label of the axis.
    pub const fn label(self) -> &'static str {
        match self {
            Self::CompletionUs => "mean job completion time [us]",
            Self::QueueBytes => "mean queue at a switch port [bytes]",
            Self::ExactUs => "mean time of an exact message [us]",
        }
    }

    /// The value of one run; `None` if it does not exist.
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

/// The description of a figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The paper's number.
    pub number: u32,
    /// The title.
    pub title: String,
    /// The paper's statement about this figure.
    pub claim: &'static str,
    /// The label of the horizontal axis.
    pub axis: &'static str,
    /// The quantity on the vertical axis.
    pub metric: Metric,
    /// The runs.
    pub runs: Vec<Run>,
}

/// One point of a figure with one seed.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name of the series. Runs with the same name belong together.
    pub series: String,
    /// The position on the horizontal axis.
    pub x: f64,
    /// The point to run.
    pub point: Point,
}

impl Run {
    /// A run in the series of its scheme.
    pub fn new(x: f64, point: Point) -> Self {
        Self { series: point.scheme.to_string(), x, point }
    }
}

/// One point of a figure, over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The scheme's name.
    pub scheme: String,
    /// The position on the horizontal axis.
    pub x: f64,
    /// The mean over the seeds; `None` if one of them has no value.
    pub mean: Option<f64>,
    /// The minimum over the seeds.
    pub least: Option<f64>,
    /// The maximum over the seeds.
    pub most: Option<f64>,
    /// The number of seeds.
    pub seeds: usize,
    /// The number of jobs of all seeds.
    pub jobs: usize,
    /// The number of complete jobs of all seeds.
    pub jobs_complete: usize,
    /// The share of messages that were not delivered.
    pub messages_undelivered: f64,
    /// The share of packets that switches dropped.
    pub packets_dropped: f64,
    /// The mean queue of a switch port, bytes.
    pub queue_mean_bytes: f64,
}

/// The cells of one series, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The scheme's name, or the name of the series.
    pub scheme: String,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// The outcomes of finished points. Some figures show different quantities of the same runs.
#[derive(Debug, Default)]
pub struct OutcomeCache(BTreeMap<String, Outcome>);

impl OutcomeCache {
    /// Runs the points that are not in the cache, on all cores.
    pub(crate) fn run_missing<'a>(&mut self, points: impl Iterator<Item = &'a Point>) {
        let unknown: BTreeMap<String, &Point> = points
            .map(|point| (key(point), point))
            .filter(|(key, _)| !self.0.contains_key(key))
            .collect();
        let unknown: Vec<(String, &Point)> = unknown.into_iter().collect();
        let outcomes = parallel::map(&unknown, |(_, point), report_progress| {
            point.run_with_progress(report_progress)
        });
        self.0.extend(unknown.into_iter().map(|(key, _)| key).zip(outcomes));
    }

    /// The outcome of a point that has run.
    pub(crate) fn outcome(&self, point: &Point) -> &Outcome {
        &self.0[&key(point)]
    }
}

/// The cache key. The outcome depends only on the fields of the point.
fn key(point: &Point) -> String {
    format!("{point:?}")
}

impl Figure {
    /// Runs the figure on all cores, except for points in the cache.
    pub fn run(&self, cache: &mut OutcomeCache) -> Vec<Series> {
        cache.run_missing(self.runs.iter().map(|run| &run.point));
        let mut series: Vec<Series> = Vec::new();
        let runs: Vec<(&Run, &Outcome)> =
            self.runs.iter().map(|run| (run, cache.outcome(&run.point))).collect();
        for (run, _) in &runs {
            let scheme = run.series.clone();
            let known = series.iter().position(|series| series.scheme == scheme);
            let index = known.unwrap_or_else(|| {
                series.push(Series { scheme: scheme.clone(), cells: Vec::new() });
                series.len() - 1
            });
            let cells = &mut series[index].cells;
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
