//! The coverage of a row, its bounds, and its line in the book's table.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{Binomial, DiscreteCDF};

use crate::job::Answered;
use crate::rows::Row;

/// The least share of intervals that contain the truth.
const COVERED_MIN: f64 = 0.93;
/// The least share of misses with a warning, where fewer intervals contain the truth.
const WARNED_MIN: f64 = 0.95;
/// The largest share of jobs with a warning, of fair samples without heavy tails.
const FALSE_ALARMS_MAX: f64 = 0.05;
/// A row that has these shares fails its test with this probability.
const FALSE_ALARM: f64 = 1e-6;

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Covers,
    Warns,
    FallsShort,
}

/// Jobs and misses, and those with a warning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub jobs: u64,
    pub warned: u64,
    pub misses: u64,
    pub warned_misses: u64,
}

/// The counts of a row.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    jobs: u64,
    covered: u64,
    missed_with_warning: u64,
    /// Jobs with a warning, by the warning's name.
    warned: BTreeMap<String, u64>,
    /// Jobs with any warning.
    warned_jobs: u64,
    /// Misses with a warning, by the warning's name.
    warned_misses: BTreeMap<String, u64>,
    errors: Vec<f64>,
    half_widths: Vec<f64>,
    arrived: f64,
}

impl Coverage {
    pub fn add(&mut self, answered: &Answered) {
        self.jobs += 1;
        self.arrived += answered.arrived;
        let mut names: BTreeSet<String> = answered.warnings.iter().map(name).collect();
        let is_covered = match &answered.answer {
            Ok(estimate) => {
                self.errors.push(estimate.value - answered.truth);
                self.half_widths.push(estimate.half_width());
                estimate.contains(answered.truth)
            }
            // It says that there is no answer.
            Err(_) => {
                names.insert("no answer".to_owned());
                false
            }
        };
        self.covered += u64::from(is_covered);
        self.missed_with_warning += u64::from(!is_covered && !names.is_empty());
        self.warned_jobs += u64::from(!names.is_empty());
        for name in names {
            *self.warned_misses.entry(name.clone()).or_default() += u64::from(!is_covered);
            *self.warned.entry(name).or_default() += 1;
        }
    }

    /// The jobs, those with this warning, and the same of misses. `None` stands for any warning.
    pub fn counts_of(&self, warning: Option<&str>) -> Counts {
        let of = |by_name: &BTreeMap<String, u64>, any| match warning {
            Some(name) => by_name.get(name).copied().unwrap_or(0),
            None => any,
        };
        Counts {
            jobs: self.jobs,
            warned: of(&self.warned, self.warned_jobs),
            misses: self.missed(),
            warned_misses: of(&self.warned_misses, self.missed_with_warning),
        }
    }

    /// The names of the warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.warned.keys().map(String::as_str)
    }

    /// Whether at most 5 % of the jobs warn, unless a false alarm of this test says otherwise.
    pub fn may_be_quiet(&self) -> bool {
        let quiet = self.jobs - self.warned_jobs;
        quiet >= least(self.jobs, 1.0 - FALSE_ALARMS_MAX)
    }

    fn missed(&self) -> u64 {
        self.jobs - self.covered
    }

    /// Whether the row covers or warns, unless a false alarm says otherwise.
    pub fn may_hold(&self) -> bool {
        self.covered >= least(self.jobs, COVERED_MIN)
            || self.missed_with_warning >= least(self.missed(), WARNED_MIN)
    }

    /// Whether these jobs covered, or warned of their misses.
    pub fn verdict(&self) -> Verdict {
        if self.covered as f64 >= COVERED_MIN * self.jobs as f64 {
            Verdict::Covers
        } else if self.missed_with_warning as f64 >= WARNED_MIN * self.missed() as f64 {
            Verdict::Warns
        } else {
            Verdict::FallsShort
        }
    }

    /// The mean half-width, as a share of the one that would cover 95 % of the errors.
    fn relative_width(&self) -> f64 {
        let jobs = self.errors.len().max(2) as f64;
        let mean = self.errors.iter().sum::<f64>() / jobs;
        let squares: f64 = self.errors.iter().map(|error| (error - mean).powi(2)).sum();
        let needed = 1.96 * (squares / (jobs - 1.0)).sqrt();
        self.half_widths.iter().sum::<f64>() / jobs / needed
    }

    /// The mean error, as a share of the mean half-width.
    fn bias(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.half_widths.iter().sum::<f64>()
    }

    /// The head of the table.
    pub const HEAD: &str = "| row | verdict | fair | arrived | coverage | half-width over the \
                            needed one | bias over half-width | misses with a warning | jobs with \
                            a warning |\n|---|---|---|---|---|---|---|---|---|";

    /// The row's line in the table.
    pub fn line(&self, row: &Row) -> String {
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let missed_with_warning = match self.missed() {
            0 => "no miss".to_owned(),
            missed => format!("{:.0} %", percent(self.missed_with_warning, missed)),
        };
        let warned =
            |(name, jobs): (&String, &u64)| format!("{name} {:.1} %", percent(*jobs, self.jobs));
        let warned: Vec<String> = self.warned.iter().map(warned).collect();
        format!(
            "| {} | {} | {} | {:.0} % | {:.1} % | {:.2} | {:+.2} | {missed_with_warning} | {} |",
            row.name,
            match self.verdict() {
                Verdict::Covers => "covers",
                Verdict::Warns => "warns",
                Verdict::FallsShort => "falls short",
            },
            if row.is_fair() { "yes" } else { "no" },
            100.0 * self.arrived / self.jobs.max(1) as f64,
            percent(self.covered, self.jobs),
            self.relative_width(),
            self.bias(),
            if warned.is_empty() { "none".to_owned() } else { warned.join(", ") },
        )
    }
}

/// The least number of `trials` that succeed, each with the probability `share`, except for false
/// alarms.
fn least(trials: u64, share: f64) -> u64 {
    Binomial::new(share, trials).expect("a probability").inverse_cdf(FALSE_ALARM)
}

/// The name of a warning's kind.
fn name(warning: &approx_answers::Warning) -> String {
    let text = format!("{warning:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}
