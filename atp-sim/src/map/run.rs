//! Runs maps.

use super::{Map, Setting};
use crate::{
    engine::US,
    experiment::{Outcome, Point, Scheme},
    figures::{Extent, Metric, OutcomeCache},
    waste::Spent,
};
use serde::Serialize;

/// The two schemes of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The scheme to evaluate.
    pub scheme: Scheme,
    /// The scheme to compare it with.
    pub against: Scheme,
}

/// The result of one scheme in one cell, over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SchemeResult {
    /// The mean completion time of approximate jobs, microseconds; `None` if one never completed.
    pub completion_us: Option<f64>,
    /// The completion time of the slowest approximate job, the mean over the seeds; `None` if one
    /// never completed.
    pub slowest_us: Option<f64>,
    /// The 99th percentile of the times of exact jobs' messages, the mean over the seeds; `None`
    /// without exact messages.
    pub exact_p99_us: Option<f64>,
    /// The use of the data bytes of approximate jobs.
    pub spent: Spent,
    /// The number of approximate jobs.
    pub jobs: usize,
    /// The number of complete approximate jobs.
    pub jobs_complete: usize,
}

/// One cell of a map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The position from left to right.
    pub x: f64,
    /// The position from bottom to top.
    pub y: f64,
    /// The result of the scheme.
    pub scheme: SchemeResult,
    /// The result of the other scheme.
    pub against: SchemeResult,
}

/// A map with its results, row by row from the bottom.
#[derive(Clone, Debug, PartialEq)]
pub struct MapResult {
    /// The map.
    pub map: Map,
    /// The parameters that are not varied.
    pub base: Setting,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// The quantity of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The ratio of mean completion times. Below 1, the scheme is sooner than the other one.
    Completion,
    /// The ratio of the slowest jobs' completion times.
    Slowest,
    /// The ratio of the 99th percentiles of exact messages' times.
    ExactP99,
    /// The share of the scheme's data that was wasted.
    Wasted,
    /// The share of the other scheme's data that was wasted.
    WastedAgainst,
    /// The share of the scheme's data that was dropped after a link between switches.
    DroppedUpstream,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 6] = [
        Self::Completion,
        Self::Slowest,
        Self::ExactP99,
        Self::Wasted,
        Self::WastedAgainst,
        Self::DroppedUpstream,
    ];

    /// Whether the measure is a ratio of two times. Otherwise it is a share.
    pub const fn is_ratio(self) -> bool {
        matches!(self, Self::Completion | Self::Slowest | Self::ExactP99)
    }

    /// The value of a cell; `None` if it does not exist.
    pub fn of(self, cell: &Cell) -> Option<f64> {
        let ratio = |of: fn(&SchemeResult) -> Option<f64>| {
            let (own, other) = of(&cell.scheme).zip(of(&cell.against))?;
            (other > 0.0).then(|| own / other)
        };
        match self {
            Self::Completion => ratio(|side| side.completion_us),
            Self::Slowest => ratio(|side| side.slowest_us),
            Self::ExactP99 => ratio(|side| side.exact_p99_us),
            Self::Wasted => Some(cell.scheme.spent.wasted_share()),
            Self::WastedAgainst => Some(cell.against.spent.wasted_share()),
            Self::DroppedUpstream => Some(cell.scheme.spent.dropped_upstream_share()),
        }
    }
}

/// Runs all `maps` on all cores, with `base` for the parameters that are not varied.
pub fn run(maps: &[Map], pair: Comparison, base: &Setting, extent: Extent) -> Vec<MapResult> {
    let mut cache = OutcomeCache::default();
    let settings = || maps.iter().flat_map(|map| map.settings(base, extent));
    let points: Vec<_> = settings()
        .flat_map(|(_, setting)| points_of(&setting, pair, extent).collect::<Vec<_>>())
        .collect();
    cache.run_missing(points.iter());
    // Every setting has the same number of points, in the same order.
    let mut outcomes = points.iter().map(|point| cache.outcome(point));
    let mut side = || {
        let outcomes: Vec<&Outcome> = outcomes.by_ref().take(seeds(extent).count()).collect();
        SchemeResult::of(&outcomes)
    };
    let mut cell = |((x, y), _)| {
        let (scheme, against) = (side(), side());
        Cell { x, y, scheme, against }
    };
    maps.iter()
        .map(|map| MapResult {
            map: *map,
            base: base.clone(),
            cells: map.settings(base, extent).into_iter().map(&mut cell).collect(),
        })
        .collect()
}

fn seeds(extent: Extent) -> std::ops::RangeInclusive<u64> {
    1..=if extent == Extent::Full { 3 } else { 1 }
}

/// The points of one cell: all seeds of the scheme, then all seeds of the other scheme.
pub(super) fn points_of(
    setting: &Setting,
    pair: Comparison,
    extent: Extent,
) -> impl Iterator<Item = Point> {
    let schemes = [pair.scheme, pair.against].into_iter();
    let runs = schemes.flat_map(move |scheme| seeds(extent).map(move |seed| (scheme, seed)));
    runs.map(move |(scheme, seed)| setting.point(scheme, seed, extent))
}

impl SchemeResult {
    fn of(outcomes: &[&Outcome]) -> Self {
        let of_all = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            let values: Option<Vec<f64>> = outcomes.iter().map(|outcome| of(outcome)).collect();
            let values = values.filter(|values| !values.is_empty())?;
            Some(values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            completion_us: of_all(&|outcome| Metric::CompletionUs.of(outcome)),
            slowest_us: of_all(&|outcome| {
                Metric::CompletionUs.of(outcome)?;
                outcome.completions_us().last().copied()
            }),
            exact_p99_us: of_all(&|outcome| outcome.exact_p99_ps.map(|ps| ps as f64 / US as f64)),
            spent: outcomes.iter().map(|outcome| outcome.spent).sum(),
            jobs: outcomes.iter().map(|outcome| outcome.approximate().count()).sum(),
            jobs_complete: outcomes.iter().map(|outcome| outcome.complete()).sum(),
        }
    }
}
