//! Runs maps.

use super::{Map, Setting};
use crate::{
    experiment::{Point, Scheme, Summary},
    figures::{Extent, Measured, Metric},
    runs::{Runs, RunsError},
    statistics::Estimate,
    waste::Spent,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The two schemes of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The scheme to evaluate.
    pub scheme: Scheme,
    /// The scheme to compare it with.
    pub against: Scheme,
}

/// The result of one scheme in one cell, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeResult {
    /// Each quantity, and its ratio to the other scheme.
    pub measured: BTreeMap<Metric, Measured>,
    /// The use of the data bytes of approximate jobs.
    pub spent: Spent,
    /// The number of approximate jobs.
    pub jobs: usize,
    /// The number of complete approximate jobs.
    pub jobs_complete: usize,
}

/// One cell of a map.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// The ratio of mean completion times. Below 1, the scheme is faster than the other one.
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

    /// The value of a cell; `None` if it does not exist. A ratio is the mean over the seeds.
    pub fn of(self, cell: &Cell) -> Option<f64> {
        match self {
            Self::Completion | Self::Slowest | Self::ExactP99 => {
                self.ratio(cell).map(|ratio| ratio.mean)
            }
            Self::Wasted => Some(cell.scheme.spent.wasted_share()),
            Self::WastedAgainst => Some(cell.against.spent.wasted_share()),
            Self::DroppedUpstream => Some(cell.scheme.spent.dropped_upstream_share()),
        }
    }

    /// The ratio of a cell with its interval, which is of the ratios of single seeds; `None` if it
    /// does not exist, or the measure is a share.
    pub fn ratio(self, cell: &Cell) -> Option<Estimate> {
        let metric = match self {
            Self::Completion => Metric::CompletionUs,
            Self::Slowest => Metric::SlowestUs,
            Self::ExactP99 => Metric::ExactP99Us,
            _ => return None,
        };
        cell.scheme.measured.get(&metric)?.ratio
    }
}

/// The points of all `maps`, with `seeds` seeds each.
pub fn points(
    maps: &[Map],
    pair: Comparison,
    base: &Setting,
    extent: Extent,
    seeds: u64,
) -> Vec<Point> {
    let settings = maps.iter().flat_map(|map| map.settings(base, extent));
    settings
        .flat_map(|(_, setting)| {
            let of = |scheme| points_of(&setting, scheme, extent, seeds).collect::<Vec<_>>();
            [of(pair.scheme), of(pair.against)].concat()
        })
        .collect()
}

/// Runs all `maps` on all cores, with `base` for the parameters that are not varied, except for
/// points whose results are known.
///
/// # Errors
/// If the results cannot be kept.
pub fn run(
    maps: &[Map],
    pair: Comparison,
    base: &Setting,
    extent: Extent,
    seeds: u64,
    runs: &mut Runs,
) -> Result<Vec<MapResult>, RunsError> {
    runs.run(points(maps, pair, base, extent, seeds).iter())?;
    let cell = |((x, y), setting): ((f64, f64), Setting)| {
        let of = |scheme| -> Vec<Summary> {
            let points = points_of(&setting, scheme, extent, seeds);
            points.filter_map(|point| runs.summary(&point).copied()).collect()
        };
        let (scheme, against) = (of(pair.scheme), of(pair.against));
        Cell {
            x,
            y,
            scheme: SchemeResult::of(&scheme, &against),
            against: SchemeResult::of(&against, &against),
        }
    };
    let result = |map: &Map| MapResult {
        map: *map,
        base: base.clone(),
        cells: map.settings(base, extent).into_iter().map(cell).collect(),
    };
    Ok(maps.iter().map(result).collect())
}

/// The points of one cell and scheme, in the order of the seeds. Seeds are paired: all schemes have
/// the same ones.
pub(super) fn points_of(
    setting: &Setting,
    scheme: Scheme,
    extent: Extent,
    seeds: u64,
) -> impl Iterator<Item = Point> {
    (1..=seeds).map(move |seed| setting.point(scheme, seed, extent))
}

impl SchemeResult {
    fn of(own: &[Summary], against: &[Summary]) -> Self {
        let completions = || own.iter().map(|summary| &summary.completion);
        Self {
            measured: Measured::all(own, against),
            spent: own.iter().map(|summary| summary.spent).sum(),
            jobs: completions().map(|times| times.number).sum(),
            jobs_complete: completions().map(|times| times.number - times.never).sum(),
        }
    }

    /// A quantity, without its ratio.
    pub fn value(&self, metric: Metric) -> Option<Estimate> {
        self.measured.get(&metric)?.value
    }
}
