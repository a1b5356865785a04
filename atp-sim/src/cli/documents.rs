//! The JSON of `atp-sim run`: how it was made, and what came of it.

use super::run::Row;
use anyhow::Result;
use atp_sim::experiment::Point;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct Document<'a> {
    program: &'static str,
    version: &'static str,
    /// What was typed: the same words make the same results again.
    command: Vec<String>,
    /// Of all schemes, defaults included.
    settings: Value,
    schemes: &'a [Row],
}

/// Of `rows`, whose point had one scheme after the other.
///
/// # Errors
/// None that can be thought of: serialising fails only with maps of odd keys.
pub fn of_run(point: &Point, rows: &[Row]) -> Result<String> {
    let mut settings = serde_json::to_value(point.settings())?;
    if let Value::Object(settings) = &mut settings {
        // Each row has its own.
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
