//! Checks that the programs still print the messages that the troubleshooting page lists.

use std::path::Path;

use anyhow::{Context, Result};

const PAGE: &str = "docs/src/guide/troubleshooting.md";
/// Shorter pieces of a message occur by chance.
const PIECE_CHARS_MIN: usize = 10;

/// Messages of the page that no program prints, as `FILE:LINE: reason`.
pub fn complaints(root: &Path, tracked: &[String]) -> Result<Vec<String>> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("can't read {path}"))
    };
    let is_program = |path: &&String| path.ends_with(".rs") && !path.contains("/tests/");
    let mut sources = String::new();
    for path in tracked.iter().filter(is_program) {
        sources.push_str(&as_printed(&read(path)?));
    }
    Ok(unprinted(&read(PAGE)?, &sources))
}

fn unprinted(page: &str, sources: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, row) in (1..).zip(page.lines()) {
        let Some(message) = message(row) else { continue };
        for piece in pieces(message).filter(|piece| !sources.contains(piece)) {
            complaints.push(format!("{PAGE}:{line}: no program prints \"{piece}\""));
        }
    }
    complaints
}

/// The message in the first cell of a table's row: a code span, of one tick or two.
fn message(row: &str) -> Option<&str> {
    let cell = row.strip_prefix("| `")?.split(" | ").next()?;
    Some(cell.trim_matches(['`', ' ']))
}

/// What stands between the parts of a message that differ from case to case.
fn pieces(message: &str) -> impl Iterator<Item = &str> {
    let pieces = message.split("...").map(|piece| piece.trim_matches(['"', ' ', '(', ')']));
    pieces.filter(|piece| piece.chars().count() >= PIECE_CHARS_MIN)
}

/// String literals as the compiler reads them: without breaks in the middle of a line.
fn as_printed(source: &str) -> String {
    let mut printed = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("\\\n") {
        printed.push_str(&rest[..at]);
        rest = rest[at + 2..].trim_start();
    }
    printed + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "#[error(\n  \"the peer {0} did not \\\n   answer for {1} s: call `help`\")]";

    fn check(row: &str) -> Vec<String> {
        unprinted(row, &as_printed(SOURCE))
    }

    #[test]
    fn unprinted__finds_a_message_across_lines() {
        assert!(check("| `the peer ... did not answer for ... s` | cause |").is_empty());
        assert!(check("| ``did not answer for ... s: call `help` `` | cause |").is_empty());
        assert!(check("| message | cause |").is_empty());
    }

    #[test]
    fn unprinted__names_what_no_program_prints() {
        let complaints = check("| `the peer ... has not answered` | cause |");
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("has not answered"), "{complaints:?}");
    }
}
