//! Writes a map as JSON, CSV and SVG.

use super::{Cell, Comparison, MapResult, Measure, draw, run::points_of};
use crate::{
    experiment::Point,
    figures::{
        Extent, WriteError,
        settings::{CellDocument, Settings, beside, common, seeds},
    },
    files,
};
use serde::Serialize;
use std::{collections::BTreeSet, fmt::Write as _, path::Path};

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
    seeds: BTreeSet<u64>,
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
    folder: &Path,
) -> Result<(), WriteError> {
    let save = |extension: &str, text: &str| {
        let path = folder.join(format!("map-{}.{extension}", drawn.map.name));
        files::replace(&path, text).map_err(|source| WriteError::File { path, source })
    };
    let drawing = |error: String| WriteError::Map(drawn.map.name, error);
    let failed = |error: serde_json::Error| drawing(error.to_string());
    let points: Vec<Vec<Point>> = drawn
        .map
        .settings(&drawn.base, extent)
        .iter()
        .map(|(_, setting)| points_of(setting, pair, extent).collect())
        .collect();
    let common = common(points.iter().flatten()).map_err(failed)?;
    // The points are in the order of the cells.
    let cell = |(cell, points): (_, &Vec<Point>)| {
        let own = points.first().map(|point| beside(point, &common, &["scheme", "seed"]));
        Ok(CellDocument { cell, settings: own.transpose()?.unwrap_or_default() })
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
        seeds: seeds(points.iter().flatten()),
        settings: &common,
        cells: cells.map_err(failed)?,
    };
    let json = serde_json::to_string_pretty(&document).map_err(failed)?;
    save("json", &(json + "\n"))?;
    save("csv", &csv(drawn, pair))?;
    save("svg", &draw::svg(drawn, pair, extent).map_err(drawing)?)
}

/// The CSV text: a line per cell and scheme. Only the evaluated scheme's lines have ratios.
fn csv(drawn: &MapResult, pair: Comparison) -> String {
    let mut text =
        "x,y,scheme,completion_us,slowest_us,exact_p99_us,jobs,jobs_complete,sent_bytes,\
                    useful_bytes,dropped_bytes,dropped_upstream_bytes,late_bytes,repeated_bytes,\
                    unfinished_bytes,completion_ratio,slowest_ratio,exact_p99_ratio\n"
            .to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for cell in &drawn.cells {
        for (scheme, side, is_own) in
            [(pair.scheme, &cell.scheme, true), (pair.against, &cell.against, false)]
        {
            let spent = &side.spent;
            let ratio = |measure: Measure| number(measure.of(cell).filter(|_| is_own));
            // Writing to a string doesn't fail.
            let _ = writeln!(
                text,
                "{},{},{scheme},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                cell.x,
                cell.y,
                number(side.completion_us),
                number(side.slowest_us),
                number(side.exact_p99_us),
                side.jobs,
                side.jobs_complete,
                spent.sent_bytes,
                spent.useful_bytes,
                spent.dropped_bytes,
                spent.dropped_upstream_bytes,
                spent.late_bytes,
                spent.repeated_bytes,
                spent.unfinished_bytes,
                ratio(Measure::Completion),
                ratio(Measure::Slowest),
                ratio(Measure::ExactP99),
            );
        }
    }
    text
}
