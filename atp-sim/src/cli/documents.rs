//! The JSON document of `atp-sim run`: the command, the settings and the results.

use super::rows::Row;
use anyhow::Result;
use atp_sim::experiment::Point;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Document<'a> {
    program: &'static str,
    version: &'static str,
    /// The command line, which reproduces the results.
    command: Vec<String>,
    /// The settings that all schemes share, defaults included.
    settings: Value,
    schemes: &'a [Row],
}

/// The document of the rows of one point.
///
/// # Errors
/// Serialization fails only for maps whose keys are not strings, and there are none.
pub fn of_run(point: &Point, rows: &[Row]) -> Result<String> {
    let mut settings = serde_json::to_value(point.settings())?;
    if let Value::Object(settings) = &mut settings {
        // Each row names its own scheme.
        settings.remove("scheme");
    }
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let document = Document {
        program: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        command: std::iter::once(env!("CARGO_PKG_NAME").to_owned()).chain(words).collect(),
        settings,
        schemes: rows,
    };
    Ok(serde_json::to_string_pretty(&document)?)
}
