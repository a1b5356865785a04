//! Checks that the programs still print the messages that the troubleshooting page lists.

use crate::sources::{Source, each_line};

const PAGE: &str = "docs/src/guide/troubleshooting.md";
/// The least length of a checked piece. Shorter pieces of a message occur by chance.
const PIECE_CHARS_MIN: usize = 10;

/// Messages of the page that no program prints.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let is_program =
        |source: &&Source| (source.is_rust() || source.path.ends_with(".py")) && !source.is_test();
    let programs = sources.iter().filter(is_program);
    let programs: String = programs.map(|source| as_printed(&source.text)).collect();
    let page = sources.iter().filter(|source| source.path == PAGE);
    each_line(page, |_, row| {
        let pieces = message(row).into_iter().flat_map(pieces);
        let unprinted = pieces.filter(|piece| !programs.contains(piece));
        unprinted.map(|piece| format!("no program prints \"{piece}\"")).collect::<Vec<_>>()
    })
}

/// The message in the first cell of a table's row: a code span, of one tick or two.
fn message(row: &str) -> Option<&str> {
    let cell = row.strip_prefix("| `")?.split(" | ").next()?;
    Some(cell.trim_matches(['`', ' ']))
}

/// The fixed parts of a message, between the parts that differ from case to case.
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
    use crate::sources::tests::source;

    const SOURCE: &str =
        "#[error(\n  \"the peer {0} did not \\\n   answer for {1} s: call `help`\")]";

    fn check(row: &str) -> Vec<String> {
        let python = "raise E(f\"{rank} hasn't joined\")";
        let test = source("b/tests/c.py", "\"is only in a test\"");
        complaints(&[source(PAGE, row), source("a.rs", SOURCE), source("b/c.py", python), test])
    }

    #[test]
    fn unprinted__finds_a_message_across_lines() {
        assert!(check("| `the peer ... did not answer for ... s` | cause |").is_empty());
        assert!(check("| ``did not answer for ... s: call `help` `` | cause |").is_empty());
        assert!(check("| `... hasn't joined` | cause |").is_empty());
        assert!(check("| message | cause |").is_empty());
    }

    #[test]
    fn unprinted__names_what_no_program_prints() {
        let complaints = check("| `the peer ... has not answered` | cause |");
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("has not answered"), "{complaints:?}");
        assert_eq!(check("| `is only in a test` | cause |").len(), 1);
    }
}
