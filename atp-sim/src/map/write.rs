//! Writes a map as JSON, CSV and SVG.

use super::{Cell, Comparison, MapResult, Measure, draw};
use crate::{
    experiment::Point,
    figures::{
        Extent, Metric, WriteError,
        settings::{CellDocument, Settings, beside, common},
    },
    files,
    statistics::Estimate,
};
use serde::Serialize;
use std::{fmt::Write as _, path::Path};

/// The JSON document of a map.
#[derive(Serialize)]
struct Document<'a> {
    map: &'a str,
    scheme: String,
    against: String,
    x_axis: &'a str,
    y_axis: &'a str,
    version: &'a str,
    extent: Extent,
    seeds: Vec<u64>,
    /// The settings that all runs share.
    settings: &'a Settings,
    cells: Vec<CellDocument<'a, Cell>>,
}

/// Writes `map-NAME.json`, `map-NAME.csv` and `map-NAME.svg` into `folder`.
///
/// # Errors
/// If a file cannot be written, or the drawing fails.
pub fn write(
    drawn: &MapResult,
    pair: Comparison,
    extent: Extent,
    seeds: u64,
    folder: &Path,
) -> Result<(), WriteError> {
    let save = |extension: &str, text: &str| {
        let path = folder.join(format!("map-{}.{extension}", drawn.map.name));
        files::replace(&path, text).map_err(|source| WriteError::File { path, source })
    };
    let drawing = |error: String| WriteError::Map(drawn.map.name, error);
    let failed = |error: serde_json::Error| drawing(error.to_string());
    // A cell's points differ only in scheme and seed.
    let settings = drawn.map.settings(&drawn.base, extent);
    let points: Vec<Point> =
        settings.iter().map(|(_, setting)| setting.point(pair.scheme, 1, extent)).collect();
    let mut common = common(points.iter()).map_err(failed)?;
    common.retain(|name, _| !["scheme", "seed"].contains(&name.as_str()));
    // The points are in the order of the cells.
    let cell = |(cell, point)| {
        Ok(CellDocument { cell, settings: beside(point, &common, &["scheme", "seed"])? })
    };
    let cells = drawn.cells.iter().zip(&points).map(cell).collect::<Result<_, _>>();
    let document = Document {
        map: drawn.map.name,
        scheme: pair.scheme.to_string(),
        against: pair.against.to_string(),
        x_axis: drawn.map.x_axis.label(),
        y_axis: drawn.map.y_axis.label(),
        version: env!("CARGO_PKG_VERSION"),
        extent,
        seeds: (1..=seeds).collect(),
        settings: &common,
        cells: cells.map_err(failed)?,
    };
    let json = serde_json::to_string_pretty(&document).map_err(failed)?;
    save("json", &(json + "\n"))?;
    save("csv", &csv(drawn, pair))?;
    save("svg", &draw::svg(drawn, pair, extent, seeds).map_err(drawing)?)
}

/// The quantities of a line, of which each has a column for the mean and one for the interval.
const QUANTITIES: [(&str, Metric); 6] = [
    ("completion_us", Metric::CompletionUs),
    ("completion_p99_us", Metric::CompletionP99Us),
    ("slowest_us", Metric::SlowestUs),
    ("exact_p99_us", Metric::ExactP99Us),
    ("queue_bytes", Metric::QueueBytes),
    ("worst_queue_bytes", Metric::WorstQueueBytes),
];
const RATIOS: [(&str, Measure); 3] = [
    ("completion_ratio", Measure::Completion),
    ("slowest_ratio", Measure::Slowest),
    ("exact_p99_ratio", Measure::ExactP99),
];

/// The CSV text: a line per cell and scheme. Only the evaluated scheme's lines have ratios.
fn csv(drawn: &MapResult, pair: Comparison) -> String {
    let estimated = QUANTITIES.map(|(name, _)| name).into_iter();
    let estimated = estimated.chain(RATIOS.map(|(name, _)| name));
    let columns: Vec<String> =
        estimated.map(|name| format!("{name},{name}_half_width_95")).collect();
    let mut text = format!(
        "x,y,scheme,jobs,jobs_complete,sent_bytes,useful_bytes,dropped_bytes,\
         dropped_upstream_bytes,late_bytes,repeated_bytes,unfinished_bytes,{}\n",
        columns.join(",")
    );
    for cell in &drawn.cells {
        for (scheme, side, is_own) in
            [(pair.scheme, &cell.scheme, true), (pair.against, &cell.against, false)]
        {
            let spent = &side.spent;
            let values = QUANTITIES.map(|(_, metric)| side.value(metric)).into_iter();
            let ratios = RATIOS.map(|(_, measure)| measure.ratio(cell).filter(|_| is_own));
            let estimates: Vec<String> = values.chain(ratios).map(columns_of).collect();
            // Writing to a string doesn't fail.
            let _ = writeln!(
                text,
                "{},{},{scheme},{},{},{},{},{},{},{},{},{},{}",
                cell.x,
                cell.y,
                side.jobs,
                side.jobs_complete,
                spent.sent_bytes,
                spent.useful_bytes,
                spent.dropped_bytes,
                spent.dropped_upstream_bytes,
                spent.late_bytes,
                spent.repeated_bytes,
                spent.unfinished_bytes,
                estimates.join(","),
            );
        }
    }
    text
}

/// The two columns of an estimate, which are empty if it does not exist.
fn columns_of(estimate: Option<Estimate>) -> String {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let half_width = estimate.and_then(|estimate| estimate.half_width_95);
    format!("{},{}", number(estimate.map(|estimate| estimate.mean)), number(half_width))
}
