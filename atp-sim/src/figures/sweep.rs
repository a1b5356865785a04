//! Runs a figure: a sweep of schemes over the values of a parameter, with several seeds per point.
//!
//! Seeds are paired: all schemes of a point run with the same seeds, so they have the same messages
//! and the same paths.

use super::Metric;
use crate::{
    experiment::{Point, Scheme, Summary},
    runs::{Runs, RunsError},
    statistics::Estimate,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// One point of a figure.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name of the series. Runs with the same name belong together.
    pub series: String,
    /// The position on the horizontal axis.
    pub x: f64,
    /// The point to run. The figure replaces its seed.
    pub point: Point,
}

impl Run {
    /// A run in the series of its scheme.
    pub fn new(x: f64, point: Point) -> Self {
        Self { series: point.scheme.to_string(), x, point }
    }

    fn points(&self, seeds: u64) -> impl Iterator<Item = Point> {
        (1..=seeds).map(|seed| Point { seed, ..self.point.clone() })
    }
}

/// One point of a figure, over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The scheme's name.
    pub scheme: String,
    /// The position on the horizontal axis.
    pub x: f64,
    /// The number of seeds.
    pub seeds: usize,
    /// The number of jobs of all seeds.
    pub jobs: usize,
    /// The number of complete jobs of all seeds.
    pub jobs_complete: usize,
    /// Each quantity.
    pub measured: BTreeMap<Metric, Measured>,
}

/// A quantity of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The mean over the seeds; `None` if a seed has no value.
    pub value: Option<Estimate>,
    /// The mean over the seeds of the ratio to [`Figure::reference`].
    pub ratio: Option<Estimate>,
}

impl Measured {
    /// All quantities of the runs of one point, and their ratios to the runs of another point. Both
    /// slices are in the order of the seeds.
    pub fn all(own: &[Summary], against: &[Summary]) -> BTreeMap<Metric, Self> {
        let measured = |metric: Metric| {
            let pairs = own.iter().zip(against);
            let pair = |(own, other)| (metric.of(own), metric.of(other));
            let value = Estimate::of(own.iter().map(|summary| metric.of(summary)));
            (metric, Self { value, ratio: Estimate::of_ratios(pairs.map(pair)) })
        };
        Metric::ALL.into_iter().map(measured).collect()
    }
}

impl Cell {
    /// A quantity of the cell.
    pub fn measured(&self, metric: Metric) -> Measured {
        self.measured.get(&metric).copied().unwrap_or_default()
    }
}

/// The cells of one series, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The scheme's name, or the name of the series.
    pub scheme: String,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// The usual reference of ratios.
pub(super) const USUAL_REFERENCE: &str = "dctcp-es";

impl Figure {
    /// Shows other schemes in the figure. Each gets the positions and settings of the first series.
    pub fn of_schemes(mut self, schemes: &[Scheme]) -> Self {
        let first = self.runs.first().map(|run| run.series.clone());
        let runs = self.runs.into_iter().filter(|run| Some(&run.series) == first.as_ref());
        let of_first: Vec<_> = runs.collect();
        let of_scheme = |scheme: &Scheme| {
            let scheme = *scheme;
            let run = move |run: &Run| Run::new(run.x, Point { scheme, ..run.point.clone() });
            of_first.iter().map(run).collect::<Vec<_>>()
        };
        self.runs = schemes.iter().flat_map(of_scheme).collect();
        self
    }

    /// The points of the figure with all `seeds`.
    pub fn points(&self, seeds: u64) -> Vec<Point> {
        self.runs.iter().flat_map(|run| run.points(seeds)).collect()
    }

    /// The series with which the others are compared: DCTCP with EarlySend, or else the first one.
    pub fn reference(&self) -> Option<&str> {
        let names = || self.runs.iter().map(|run| run.series.as_str());
        names().find(|name| *name == USUAL_REFERENCE).or_else(|| names().next())
    }

    /// Runs the figure on all cores, except for points whose results are known.
    ///
    /// # Errors
    /// If the results cannot be kept.
    pub fn run(&self, runs: &mut Runs, seeds: u64) -> Result<Vec<Series>, RunsError> {
        runs.run(self.points(seeds).iter())?;
        let summaries = |run: &Run| -> Vec<Summary> {
            run.points(seeds).filter_map(|point| runs.summary(&point).copied()).collect()
        };
        let reference = self.reference();
        let mut series: Vec<Series> = Vec::new();
        for run in &self.runs {
            let is_reference =
                |other: &&Run| other.x == run.x && Some(other.series.as_str()) == reference;
            let against = self.runs.iter().find(is_reference).map(summaries).unwrap_or_default();
            let cell = Cell::of(run, &summaries(run), &against);
            match series.iter_mut().find(|series| series.scheme == run.series) {
                Some(series) => series.cells.push(cell),
                None => series.push(Series { scheme: run.series.clone(), cells: vec![cell] }),
            }
        }
        Ok(series)
    }
}

impl Cell {
    fn of(run: &Run, own: &[Summary], against: &[Summary]) -> Self {
        let completions = || own.iter().map(|summary| &summary.completion);
        Self {
            scheme: run.series.clone(),
            x: run.x,
            seeds: own.len(),
            jobs: completions().map(|times| times.number).sum(),
            jobs_complete: completions().map(|times| times.number - times.never).sum(),
            measured: Measured::all(own, against),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Extent, figure};

    /// The schemes of a point differ in nothing but the scheme, so their seeds are paired.
    #[test]
    fn points__all_schemes_have_the_same_seeds() {
        let figure = figure(9, Extent::Quick).unwrap();
        let of = |name: &str| -> Vec<Point> {
            let points = figure.points(4).into_iter();
            let points = points.filter(|point| point.scheme.to_string() == name);
            points.map(|point| Point { scheme: Default::default(), ..point }).collect()
        };
        let texts = |name: &str| -> Vec<String> {
            of(name).iter().map(|point| format!("{point:?}")).collect()
        };
        assert_eq!(texts("atp:paper").len(), 4 * 5);
        assert_eq!(texts("atp:paper"), texts("dctcp-es"));
        assert_eq!(figure.reference(), Some("dctcp-es"));
    }

    #[test]
    fn of_schemes__keeps_positions_and_settings() {
        let schemes: Vec<Scheme> =
            ["ndp-es", "atp:paper+advice"].iter().map(|name| name.parse().unwrap()).collect();
        let before = figure(13, Extent::Quick).unwrap();
        let of_first = before.runs.iter().take_while(|run| run.series == before.runs[0].series);
        let settings = |run: &Run| {
            let scheme = Scheme::default();
            (run.x.to_bits(), format!("{:?}", Point { scheme, ..run.point.clone() }))
        };
        let expected: Vec<_> = of_first.map(settings).collect();
        let after = before.clone().of_schemes(&schemes);
        let (ndp, atp) = after.runs.split_at(expected.len());
        for (runs, scheme) in [(ndp, "ndp-es"), (atp, "atp:paper+advice")] {
            assert!(runs.iter().all(|run| run.series == scheme));
            assert!(runs.iter().all(|run| run.point.scheme.to_string() == scheme));
            assert_eq!(runs.iter().map(settings).collect::<Vec<_>>(), expected);
        }
    }

    /// A cell's ratio is the mean of the ratios of single seeds. The reference's ratios are 1.
    #[test]
    fn run__ratios_are_of_paired_seeds() {
        let mut figure = figure(9, Extent::Quick).unwrap();
        figure.runs.retain(|run| run.x == 0.8);
        let mut runs = Runs::default();
        let series = figure.run(&mut runs, 2).unwrap();
        let mean_us = |scheme: &str| -> Vec<f64> {
            let run = figure.runs.iter().find(|run| run.series == scheme).unwrap();
            let summaries = run.points(2).map(|point| point.run().summary());
            summaries.map(|summary| summary.completion.mean_us.unwrap()).collect()
        };
        let (own, other) = (mean_us("atp:paper"), mean_us("dctcp-es"));
        let ratio = (own[0] / other[0] + own[1] / other[1]) / 2.0;
        let of = |scheme: &str| {
            let series = series.iter().find(|series| series.scheme == scheme).unwrap();
            series.cells[0].measured(Metric::CompletionUs)
        };
        let got = of("atp:paper");
        assert!((got.ratio.unwrap().mean - ratio).abs() < 1e-12, "{got:?}");
        assert!((got.value.unwrap().mean - (own[0] + own[1]) / 2.0).abs() < 1e-9, "{got:?}");
        let one = Estimate { mean: 1.0, half_width_95: Some(0.0), least: 1.0, most: 1.0 };
        assert_eq!(of("dctcp-es").ratio, Some(one));
    }
}
