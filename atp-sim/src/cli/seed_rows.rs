//! The results of `atp-sim run` with several seeds: one row per scheme, with means and intervals.

use super::rows::Row;
use atp_sim::{
    experiment::{Point, Scheme, Summary, fraction_from_msr},
    figures::{Measured, Metric},
};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of one scheme over all seeds.
#[derive(Debug, Serialize)]
pub struct SeedRow {
    scheme: String,
    /// The number of jobs of all seeds.
    jobs: usize,
    /// The number of complete jobs of all seeds.
    jobs_complete: usize,
    /// Each quantity, and its ratio to the reference.
    measured: BTreeMap<Metric, Measured>,
}

/// The scheme that ratios are relative to: DCTCP with EarlySend, or else the first one.
fn reference(schemes: &[Scheme]) -> Option<String> {
    let names = || schemes.iter().map(Scheme::to_string);
    names().find(|name| name == "dctcp-es").or_else(|| names().next())
}

/// The results of all schemes, from rows with each seed. Seeds are paired: all schemes have the
/// same ones, in the same order.
pub fn of(rows: &[Row], schemes: &[Scheme]) -> Vec<SeedRow> {
    let summaries = |scheme: &str| -> Vec<Summary> {
        rows.iter().filter(|row| row.scheme == scheme).map(|row| row.summary).collect()
    };
    let against = reference(schemes).map(|name| summaries(&name)).unwrap_or_default();
    let row = |scheme: &Scheme| {
        let own = summaries(&scheme.to_string());
        let completions = || own.iter().map(|summary| &summary.completion);
        SeedRow {
            scheme: scheme.to_string(),
            jobs: completions().map(|times| times.number).sum(),
            jobs_complete: completions().map(|times| times.number - times.never).sum(),
            measured: Measured::all(&own, &against),
        }
    };
    schemes.iter().map(row).collect()
}

/// A column: its header, which may have several lines, and its quantity.
type Column = (&'static str, Metric);

const COLUMNS: [Column; 5] = [
    ("JCT us\nmean", Metric::CompletionUs),
    ("\np99", Metric::CompletionP99Us),
    ("\nslowest", Metric::SlowestUs),
    ("\nall", Metric::AllDoneUs),
    ("dropped\n%", Metric::DroppedShare),
];
const QUEUE_COLUMNS: [Column; 2] =
    [("queue B\nmean", Metric::QueueBytes), ("\nworst", Metric::WorstQueueBytes)];
const EXACT_COLUMNS: [Column; 2] =
    [("exact messages us\nmean", Metric::ExactUs), ("\np99", Metric::ExactP99Us)];

/// The tables, one row per scheme: jobs, queues, and exact jobs' message times if there are exact
/// messages. Each ends with the ratios of its first quantity. One table would be too wide.
pub fn tables(rows: &[SeedRow]) -> Vec<Table> {
    let has_exact = rows.iter().any(|row| row.measured(Metric::ExactUs).value.is_some());
    let exact = has_exact.then(|| table(rows, &EXACT_COLUMNS));
    [table(rows, &COLUMNS), table(rows, &QUEUE_COLUMNS)].into_iter().chain(exact).collect()
}

fn table(rows: &[SeedRow], columns: &[Column]) -> Table {
    let mut header = vec!["scheme", "jobs\ndone"];
    header.extend(columns.iter().map(|(header, _)| header));
    header.push("ratio\nof means");
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header);
    for row in rows {
        let text = |(_, metric): &Column| {
            row.measured(*metric).value.map_or("never".to_owned(), |value| metric.text(&value))
        };
        let mut cells = vec![row.scheme.clone(), format!("{}/{}", row.jobs_complete, row.jobs)];
        cells.extend(columns.iter().map(text));
        let ratio = columns.first().and_then(|(_, metric)| row.measured(*metric).ratio);
        cells.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

impl SeedRow {
    fn measured(&self, metric: Metric) -> Measured {
        self.measured.get(&metric).copied().unwrap_or_default()
    }
}

/// The caption: the settings of the runs, and the meaning of the columns.
pub fn caption(points: &[Point], schemes: &[Scheme], traffic: &str) -> String {
    let Some((first, last)) = points.first().zip(points.last()) else { return String::new() };
    format!(
        "{} ({} hosts), {traffic}, MSR {}, seeds {} to {}\n\
         Means over the seeds, ± half of the 95 % interval. JCT is the completion time of approximate\n\
         jobs; never: a seed has a job or message that never completed.\n\
         all: from the first message of any job until the last job is complete.\n\
         queue: bytes at a switch port while messages arrive: the mean over time and ports, and the mean over\n\
         time at the port where it is the longest.\n\
         ratio: of the first column to that of {}, the mean of the ratios of single seeds.",
        first.network_spec,
        first.network_spec.hosts(),
        fraction_from_msr(first.msr),
        first.seed,
        last.seed,
        reference(schemes).unwrap_or_default(),
    )
}
