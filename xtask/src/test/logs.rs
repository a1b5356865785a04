//! The logs of the programs that a run starts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::setup;
use test_report::Tally;

/// The most lines of a log that are shown after a failure.
const SHOWN_LINES_MAX: usize = 150;

/// The log of that name, in the folder of this run's logs.
pub fn path(name: &str) -> Result<PathBuf> {
    let folder = &setup::paths().test_logs;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't make the folder {}", folder.display()))?;
    // Names of tests have colons.
    let name = name.replace(|c: char| !c.is_alphanumeric() && c != '_', "-");
    Ok(folder.join(format!("{name}.log")))
}

/// Prints the part of a log that explains failures, if there are any.
pub fn show_failures<'a>(tallies: impl IntoIterator<Item = &'a Tally>, log: &Path) {
    if tallies.into_iter().any(|tally| !tally.failures.is_empty()) {
        show(log);
    }
}

/// Prints the part of a log that explains a failure.
pub fn show(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // A line of JSON is for programs.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('{')).collect();
    let explains = |line: &&str| line.starts_with("failures:") || line.starts_with("error");
    let from = lines.iter().position(explains).unwrap_or_else(|| lines.len().saturating_sub(40));
    show_lines(&lines[from..], log);
}

/// Prints the last lines of a log.
pub fn show_end(log: &Path) {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    show_lines(&lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..], log);
}

fn show_lines(lines: &[&str], log: &Path) {
    for line in lines.iter().take(SHOWN_LINES_MAX) {
        atp_output::note!("    {line}");
    }
    atp_output::note!("  full log: {}", log.display());
}
