//! The answers of the schemes as text tables.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};

use super::scheme_report::{IntervalReport, JobReport, SchemeReport, in_percent};
use crate::median::{median, median_count};

/// The measurements of each scheme, by name: one for each run.
type Schemes<'a> = BTreeMap<&'a str, Vec<&'a SchemeReport>>;

fn table(header: impl IntoIterator<Item = String>, words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn jobs<'a>(scheme: &'a [&SchemeReport]) -> impl Iterator<Item = &'a JobReport> {
    scheme.iter().flat_map(|run| &run.jobs)
}

/// Each answer of the full table, and that of each scheme's first job with its interval. Answers
/// over all keys come first; the others follow by key.
pub fn each(schemes: &Schemes<'_>) -> Table {
    let mut rows = BTreeMap::<(usize, Option<&str>), (&str, Vec<Option<&IntervalReport>>)>::new();
    for (column, runs) in schemes.values().enumerate() {
        let answers = jobs(runs).next().map_or(&[][..], |job| &job.answers);
        for (query, answer) in answers.iter().enumerate() {
            for interval in &answer.intervals {
                let key = (query, interval.interval.key.as_deref());
                let row = rows
                    .entry(key)
                    .or_insert_with(|| (answer.query.as_str(), vec![None; schemes.len()]));
                row.1[column] = Some(interval);
            }
        }
    }
    let header = ["answer", "of", "full table"].map(str::to_owned);
    let names = schemes.keys().map(|name| (*name).to_owned());
    let mut table = table(header.into_iter().chain(names), 2);
    let mut last = None;
    for ((own, key), (query, cells)) in rows {
        let full = cells.iter().flatten().find_map(|interval| interval.full);
        let query = if last.replace(own) == Some(own) { "" } else { query };
        let head =
            [query.to_owned(), key.unwrap_or("all").to_owned(), full.map_or("".into(), number)];
        table.add_row(head.into_iter().chain(cells.into_iter().map(cell)));
    }
    table
}

/// Such as `12.05 ± 2.6 %`.
fn cell(interval: Option<&IntervalReport>) -> String {
    let Some(report) = interval else { return String::new() };
    let width = match report.interval.half_width_share() {
        Some(share) => format!("± {:.1} %", 100.0 * share),
        None => "without bounds".to_owned(),
    };
    let misses = if report.contains_full { "" } else { ", misses" };
    let doubt = if report.interval.warnings.is_empty() { "" } else { " *" };
    format!("{} {width}{misses}{doubt}", number(report.interval.value))
}

/// Four digits, or all that stand before the point.
fn number(value: f64) -> String {
    let places = if value.abs() >= 1_000.0 { 0 } else { 2 };
    format!("{value:.places$}")
}

/// How many intervals of each scheme and query contain the answer of the full table.
pub fn coverage(schemes: &Schemes<'_>) -> Table {
    let header = ["scheme", "answer", "intervals with the full answer", "half-width"];
    let mut table = table(header.map(str::to_owned), 2);
    for (name, runs) in schemes {
        let queries = jobs(runs).next().map_or(0, |job| job.answers.len());
        for query in 0..queries {
            let answers = || jobs(runs).map(|job| &job.answers[query]);
            let containing: usize = answers().map(|answer| answer.coverage.containing).sum();
            let all: usize = answers().map(|answer| answer.coverage.intervals).sum();
            let widths = answers().map(|answer| answer.coverage.half_width_share);
            table.add_row([
                (*name).to_owned(),
                answers().next().map_or(String::new(), |answer| answer.query.clone()),
                format!("{containing} of {all}"),
                format!("{:.1} %", 100.0 * median(widths).unwrap_or(0.0)),
            ]);
        }
    }
    table
}

/// The cost of the accepted error under each scheme: medians over all jobs.
pub fn accepted(schemes: &Schemes<'_>, messages: usize) -> Table {
    let header = ["scheme", "jobs that met it", "error reached", "looks", "MSR", "messages"];
    let mut table = table(header.map(str::to_owned), 1);
    for (name, runs) in schemes {
        let all: Vec<&JobReport> = jobs(runs).collect();
        let outcomes = || all.iter().filter_map(|job| job.accepted.as_ref());
        let asks = outcomes().next().is_some();
        let met = outcomes().filter(|outcome| outcome.is_met).count();
        let reached = median(all.iter().map(|job| reached(job))).unwrap_or(0.0);
        let looks = median(outcomes().map(|outcome| f64::from(outcome.looks))).unwrap_or(0.0);
        let msr = if asks {
            median(outcomes().map(|outcome| outcome.msr))
        } else {
            median(runs.iter().filter_map(|run| run.msr))
        };
        let delivered = median_count(all.iter().map(|job| job.delivered).collect());
        let or_not = |text: String| if asks { text } else { "not asked".to_owned() };
        table.add_row([
            (*name).to_owned(),
            or_not(format!("{met} of {}", all.len())),
            if reached < f64::MAX { format!("{:.2} %", 100.0 * reached) } else { "none".into() },
            or_not(format!("{looks}")),
            msr.map_or("none".to_owned(), |msr| format!("{msr:.3}")),
            format!("{delivered} ({:.1} %)", 100.0 * delivered as f64 / messages.max(1) as f64),
        ]);
    }
    table
}

/// How far the intervals of the answers that the accepted error is of reach at most.
fn reached(job: &JobReport) -> f64 {
    if let Some(accepted) = &job.accepted {
        return accepted.reached;
    }
    let intervals = job.answers.iter().flat_map(|answer| &answer.intervals);
    let reaches = intervals
        .filter(|interval| interval.is_of_emax)
        .map(|interval| interval.interval.reach_share().unwrap_or(f64::MAX));
    reaches.reduce(f64::max).unwrap_or(f64::MAX)
}

/// How each scheme was run, in words.
pub fn accepted_caption(error: f64, level: f64, share: f64, schemes: &Schemes<'_>) -> String {
    let (error, level) = (in_percent(error), in_percent(level));
    let asked = schemes.values().flatten().flat_map(|run| &run.jobs).any(|j| j.accepted.is_some());
    let others = if asked {
        format!("TCP schemes can't be asked: their MSR is the share that ATP needed, {share:.3}.")
    } else {
        format!("TCP schemes can't be asked, and no ATP job was run: their MSR is {share:.3}.")
    };
    format!(
        "Accepted: intervals of {level} % that reach at most {error} % from each average over all \
         keys and from each count. ATP's receiver asks the senders for as much as that needs, and \
         ends the job; MSR is what they agreed last. {others} UDP sends every message once. The \
         error reached is the farthest of these ends."
    )
}
