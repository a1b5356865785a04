//! Sizes: of files, of crates, of the documents that people read first, and of lines of text.

use crate::sources::Source;

const FILE_LINES_MAX: usize = 600;
/// Room for the packages of the JVM and of two engines, of some 40 files each.
const TRACKED_FILES_MAX: usize = 2_000;
const TEXT_COLUMNS_MAX: usize = 100;
/// Documents and their greatest sizes, bytes.
const DOCUMENTS: [(&str, usize); 2] = [("README.md", 7 * 1024), ("ARCHITECTURE.md", 12 * 1024)];
/// Folders of Rust and their greatest sizes, lines.
const FOLDERS: [(&str, usize); 1] = [("xtask/", 7_500)];

/// A file that holds one thing rarely needs more lines.
pub fn long_files(sources: &[Source]) -> Vec<String> {
    let rust = sources.iter().filter(|source| source.is_rust());
    let complain = |source: &Source| {
        let lines = source.text.lines().count();
        let too_many = over(&source.path, lines, "lines", FILE_LINES_MAX)?;
        Some(too_many + ": split it by concept")
    };
    rust.filter_map(complain).collect()
}

pub fn long_documents(sources: &[Source]) -> Vec<String> {
    let complain = |(path, bytes_max)| {
        let found = sources.iter().find(|source| source.path == path)?;
        Some(over(path, found.text.len(), "bytes", bytes_max)? + ": move, don't add")
    };
    DOCUMENTS.into_iter().filter_map(complain).collect()
}

pub fn large_folders(sources: &[Source]) -> Vec<String> {
    let complain = |(folder, lines_max)| {
        let inside = sources.iter().filter(|s| s.is_rust() && s.path.starts_with(folder));
        let lines = inside.map(|source| source.text.lines().count()).sum();
        over(folder, lines, "lines of Rust", lines_max)
    };
    FOLDERS.into_iter().filter_map(complain).collect()
}

pub fn many_files(paths: &[String]) -> Option<String> {
    Some(over("all", paths.len(), "tracked files", TRACKED_FILES_MAX)? + ": pack what is data")
}

fn over(what: &str, number: usize, unit: &str, most: usize) -> Option<String> {
    (number > most).then(|| format!("{what}: {number} {unit}, more than {most}"))
}

/// Comments and Markdown keep to the columns of the code. Tables, links and the text inside of a
/// code block (command output) don't break.
pub fn long_lines(sources: &[Source]) -> Vec<String> {
    let complaints = |source: &Source| {
        let mut is_in_block = false;
        source.complaints(source.lines(&source.text), |line| {
            let text = line.prose?;
            is_in_block ^= text.trim_start().starts_with("```");
            let may_be_long =
                is_in_block || text.trim_start().starts_with('|') || has_long_word(text);
            let columns = line.text.chars().count();
            let is_wrong = columns > TEXT_COLUMNS_MAX && !may_be_long;
            is_wrong.then(|| format!("{columns} columns of text, {TEXT_COLUMNS_MAX} at most"))
        })
    };
    sources.iter().flat_map(complaints).collect()
}

/// A link or a path that no line break can shorten.
fn has_long_word(text: &str) -> bool {
    text.contains("](") || text.contains("]: ") || text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn long_files__are_found() {
        let lines = |number| "x\n".repeat(number);
        assert_eq!(long_files(&[source("a.rs", &lines(FILE_LINES_MAX + 1))]).len(), 1);
        assert!(long_files(&[source("a.rs", &lines(FILE_LINES_MAX))]).is_empty());
        assert!(long_files(&[source("a.csv", &lines(FILE_LINES_MAX + 1))]).is_empty());
    }

    #[test]
    fn long_documents__are_found() {
        assert_eq!(long_documents(&[source("README.md", &"x".repeat(7_169))]).len(), 1);
        assert!(long_documents(&[source("README.md", &"x".repeat(7_168))]).is_empty());
    }

    #[test]
    fn large_folders__count_rust_only() {
        // Two such files are too many lines, one isn't.
        let text = "x\n".repeat(FOLDERS[0].1 / 2 + 1);
        let two = [source("xtask/src/a.rs", &text), source("xtask/src/b.rs", &text)];
        assert_eq!(large_folders(&two).len(), 1);
        assert!(
            large_folders(&[source("xtask/a.rs", &text), source("xtask/b.py", &text)]).is_empty()
        );
    }

    #[test]
    fn many_files__are_found() {
        let paths = |number| vec!["a".to_owned(); number];
        assert!(many_files(&paths(TRACKED_FILES_MAX + 1)).is_some());
        assert!(many_files(&paths(TRACKED_FILES_MAX)).is_none());
    }

    #[test]
    fn long_lines__are_found_in_comments_and_markdown() {
        let long = "word ".repeat(21);
        let complaints = |path: &str, text: String| long_lines(&[source(path, &text)]).len();
        assert_eq!(complaints("a.rs", format!("    // {long}")), 1);
        assert_eq!(complaints("a.rs", format!("let a = \"{long}\";")), 0);
        assert_eq!(complaints("a.py", format!("\"\"\"a\n{long}\n\"\"\"")), 1);
        assert_eq!(complaints("a.md", long.clone()), 1);
        assert_eq!(complaints("a.md", format!("| {long} |")), 0);
        assert_eq!(complaints("a.md", format!("```text\n{long}\n```")), 0);
        assert_eq!(complaints("a.md", format!("```text\nx\n```\n{long}")), 1);
        assert_eq!(complaints("a.rs", format!("//! | {long} |")), 0);
        assert_eq!(complaints("a.md", format!("[x](y) {long}")), 0);
    }
}
