//! The options of `figure` and `map` that choose the seeds, and whether to reuse results.

use super::values::whole_number;
use anyhow::Result;
use atp_sim::{experiment::Point, figures::Extent, runs::Runs};
use clap::Args;
use std::{collections::BTreeSet, path::Path};

/// The folder of the results of single runs, in the folder of figures or maps.
const RUNS: &str = "runs";

#[derive(Debug, Args)]
pub struct RepeatOptions {
    /// The number of seeds, 1 to 10,000: every scheme runs with the seeds from 1 to this number.
    /// Tables show the mean over the seeds and its 95 % interval (Student's t)
    /// [default: 3, with --quick 1]
    #[arg(long, value_name = "NUMBER", value_parser = whole_number(1, 10_000))]
    seeds: Option<u64>,
    /// Run everything again. Without this, the command continues where an interrupted one stopped:
    /// it reuses each run of the same program that has a line in the folder runs
    #[arg(long)]
    fresh: bool,
}

impl RepeatOptions {
    pub fn seeds(&self, extent: Extent) -> u64 {
        self.seeds.unwrap_or_else(|| extent.default_seeds())
    }

    /// The results of earlier runs in the folder of the output.
    pub fn runs(&self, out: &Path) -> Result<Runs> {
        Ok(Runs::open(&out.join(RUNS), self.fresh)?)
    }

    /// Describes the number of runs, for the line before them.
    pub fn description(&self, runs: &Runs, points: &[Point], extent: Extent) -> String {
        let number = points.iter().map(|point| format!("{point:?}")).collect::<BTreeSet<_>>().len();
        let known = number - runs.missing(points.iter());
        let of_seeds = match self.seeds(extent) {
            1 => "one seed".to_owned(),
            seeds => format!("{seeds} seeds"),
        };
        match known {
            0 => format!("{number} runs, {of_seeds}"),
            _ => format!("{number} runs, {of_seeds}, {known} runs known already"),
        }
    }
}
