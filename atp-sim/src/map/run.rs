//! What came of a map's runs.

use super::{Map, Setting};
use crate::{
    engine::US,
    experiment::{Outcome, Point, Scheme},
    figures::{Extent, Known, Metric},
    waste::Spent,
};
use serde::Serialize;

/// Which schemes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Whose map it is.
    pub scheme: Scheme,
    /// What it is held against.
    pub against: Scheme,
}

/// What a scheme made of one place of a map, over its seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// The mean completion time of approximate jobs, microseconds; `None` if some never completed.
    pub completion_us: Option<f64>,
    /// That of the slowest approximate job, the mean over the seeds; `None` if some never completed.
    pub slowest_us: Option<f64>,
    /// The time that one in a hundred messages of exact jobs exceeded, the mean over the seeds; `None`
    /// if there were none.
    pub exact_p99_us: Option<f64>,
    /// What became of the data of approximate jobs.
    pub spent: Spent,
    /// Approximate jobs.
    pub jobs: usize,
    /// Those of them that got what they need.
    pub jobs_complete: usize,
}

/// One place of a map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// From left to right.
    pub x: f64,
    /// From the bottom to the top.
    pub y: f64,
    /// What the scheme made of it.
    pub scheme: Side,
    /// What the other one did.
    pub against: Side,
}

/// A map with its cells, from left to right and then up.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Which one.
    pub map: Map,
    /// What isn't varied.
    pub base: Setting,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// What a panel of a map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Mean completion, as a ratio: below 1, the scheme is done sooner than the other one.
    Completion,
    /// The slowest job's, as a ratio.
    Slowest,
    /// The 99th percentile of exact messages' times, as a ratio.
    ExactP99,
    /// The share of its data that the scheme wasted.
    Wasted,
    /// The share that the other one wasted.
    WastedAgainst,
    /// The share of its data that the scheme lost behind a line between switches.
    DroppedUpstream,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Completion,
        Self::Slowest,
        Self::ExactP99,
        Self::Wasted,
        Self::WastedAgainst,
        Self::DroppedUpstream,
    ];

    /// It is a ratio of two times; else a share.
    pub const fn is_ratio(self) -> bool {
        matches!(self, Self::Completion | Self::Slowest | Self::ExactP99)
    }

    /// Its value, if there is one.
    pub fn of(self, cell: &Cell) -> Option<f64> {
        let ratio = |of: fn(&Side) -> Option<f64>| {
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

/// Runs all of `maps` on all cores: `base` where nothing is varied.
pub fn run(maps: &[Map], pair: Pair, base: &Setting, extent: Extent) -> Vec<Drawn> {
    let mut known = Known::default();
    let settings = || maps.iter().flat_map(|map| map.settings(base, extent));
    let points: Vec<_> = settings()
        .flat_map(|(_, setting)| points_of(&setting, pair, extent).collect::<Vec<_>>())
        .collect();
    known.complete(points.iter());
    // As many points for each setting, in the same order.
    let mut outcomes = points.iter().map(|point| known.outcome(point));
    let mut side = || {
        let outcomes: Vec<&Outcome> = outcomes.by_ref().take(seeds(extent).count()).collect();
        Side::of(&outcomes)
    };
    let mut cell = |((x, y), _)| {
        let (scheme, against) = (side(), side());
        Cell { x, y, scheme, against }
    };
    maps.iter()
        .map(|map| Drawn {
            map: *map,
            base: base.clone(),
            cells: map.settings(base, extent).into_iter().map(&mut cell).collect(),
        })
        .collect()
}

fn seeds(extent: Extent) -> std::ops::RangeInclusive<u64> {
    1..=if extent == Extent::Full { 3 } else { 1 }
}

/// What is run at one place: all seeds of the scheme, then all of the other one.
pub(super) fn points_of(
    setting: &Setting,
    pair: Pair,
    extent: Extent,
) -> impl Iterator<Item = Point> {
    let schemes = [pair.scheme, pair.against].into_iter();
    let runs = schemes.flat_map(move |scheme| seeds(extent).map(move |seed| (scheme, seed)));
    runs.map(move |(scheme, seed)| setting.point(scheme, seed, extent))
}

impl Side {
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
