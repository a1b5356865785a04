//! The JSON document of `atp-sim run`: the command, the settings and the results.

use super::{rows::Row, seed_rows::SeedRow};
use anyhow::Result;
use atp_sim::experiment::Point;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Document<'a, Scheme> {
    program: &'static str,
    version: &'static str,
    /// The command line, which reproduces the results.
    command: Vec<String>,
    /// The settings that all schemes share, defaults included.
    settings: Value,
    /// The seeds, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    seeds: Vec<u64>,
    schemes: &'a [Scheme],
}

/// The document of the rows of one point.
///
/// # Errors
/// Serialization fails only for maps whose keys are not strings, and there are none.
pub fn of_run(point: &Point, rows: &[Row]) -> Result<String> {
    document(settings(point, &["scheme"])?, Vec::new(), rows)
}

/// The document of the rows of points that differ in their seeds.
///
/// # Errors
/// Like [`of_run`].
pub fn of_seeds(points: &[Point], rows: &[SeedRow]) -> Result<String> {
    let seeds = points.iter().map(|point| point.seed).collect();
    let first = points.first().map(|point| settings(point, &["scheme", "seed"])).transpose()?;
    document(first.unwrap_or_default(), seeds, rows)
}

/// The settings of a point, except those that are elsewhere in the document: each row names its own
/// scheme.
fn settings(point: &Point, elsewhere: &[&str]) -> Result<Value> {
    let mut settings = serde_json::to_value(point.settings())?;
    if let Value::Object(settings) = &mut settings {
        settings.retain(|name, _| !elsewhere.contains(&name.as_str()));
    }
    Ok(settings)
}

fn document<Scheme: Serialize>(
    settings: Value,
    seeds: Vec<u64>,
    schemes: &[Scheme],
) -> Result<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let document = Document {
        program: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        command: std::iter::once(env!("CARGO_PKG_NAME").to_owned()).chain(words).collect(),
        settings,
        seeds,
        schemes,
    };
    Ok(serde_json::to_string_pretty(&document)?)
}
