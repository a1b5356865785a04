//! Sizes: of files, of crates, of the documents that people read first, and of lines of text.

use super::sources::Source;

const FILE_LINES_MAX: usize = 600;
const TRACKED_FILES_MAX: usize = 700;
const TEXT_COLUMNS_MAX: usize = 100;
/// Documents and their most bytes.
const DOCUMENTS: [(&str, usize); 2] = [("README.md", 7 * 1024), ("ARCHITECTURE.md", 12 * 1024)];
/// Folders of Rust and their most lines.
const FOLDERS: [(&str, usize); 1] = [("xtask/", 5_000)];

/// A file that holds one thing rarely needs more lines.
pub fn long_files(sources: &[Source]) -> Vec<String> {
    let rust = sources.iter().filter(|source| source.is_rust());
    rust.map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(source, lines)| {
            let path = &source.path;
            format!("{path}: {lines} lines, more than {FILE_LINES_MAX}: split it by concept")
        })
        .collect()
}

pub fn long_documents(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, bytes_max) in DOCUMENTS {
        let found = sources.iter().find(|source| source.path == path);
        let bytes = found.map_or(0, |source| source.text.len());
        if bytes > bytes_max {
            complaints
                .push(format!("{path}: {bytes} bytes, more than {bytes_max}: move, don't add"));
        }
    }
    complaints
}

pub fn large_folders(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (folder, lines_max) in FOLDERS {
        let inside = sources.iter().filter(|s| s.is_rust() && s.path.starts_with(folder));
        let lines: usize = inside.map(|source| source.text.lines().count()).sum();
        if lines > lines_max {
            complaints.push(format!("{folder}: {lines} lines of Rust, more than {lines_max}"));
        }
    }
    complaints
}

pub fn many_files(paths: &[String]) -> Vec<String> {
    let number = paths.len();
    let complaint =
        format!("{number} tracked files, {TRACKED_FILES_MAX} at most: pack what is data");
    if number < TRACKED_FILES_MAX { Vec::new() } else { vec![complaint] }
}

/// Comments and Markdown keep to the columns of the code. Tables, links and the text inside of a
/// code block (command output) don't break.
pub fn long_lines(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        let mut is_in_block = false;
        for (number, line) in source.numbered() {
            let text = if source.is_markdown() {
                Some(line)
            } else if source.is_rust() {
                comment(line)
            } else {
                None
            };
            let Some(text) = text else { continue };
            is_in_block ^= text.trim_start().starts_with("```");
            let may_be_long = is_in_block || is_table(text) || has_long_word(text);
            let columns = line.chars().count();
            if columns > TEXT_COLUMNS_MAX && !may_be_long {
                let path = &source.path;
                complaints.push(format!("{path}:{number}: {columns} columns of text, 100 at most"));
            }
        }
    }
    complaints
}

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']))
}

fn is_table(text: &str) -> bool {
    text.trim_start().starts_with('|')
}

/// A link or a path that no line break can shorten.
fn has_long_word(text: &str) -> bool {
    text.contains("](") || text.contains("]: ") || text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::super::sources::tests::source;
    use super::*;

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
        let text = "x\n".repeat(3_000);
        let two = [source("xtask/src/a.rs", &text), source("xtask/src/b.rs", &text)];
        assert_eq!(large_folders(&two).len(), 1);
        assert!(
            large_folders(&[source("xtask/a.rs", &text), source("xtask/b.py", &text)]).is_empty()
        );
    }

    #[test]
    fn many_files__are_found() {
        let paths = |number| vec!["a".to_owned(); number];
        assert_eq!(many_files(&paths(TRACKED_FILES_MAX)).len(), 1);
        assert!(many_files(&paths(TRACKED_FILES_MAX - 1)).is_empty());
    }

    #[test]
    fn long_lines__are_found_in_comments_and_markdown() {
        let long = "word ".repeat(21);
        let complaints = |path: &str, text: String| long_lines(&[source(path, &text)]).len();
        assert_eq!(complaints("a.rs", format!("    // {long}")), 1);
        assert_eq!(complaints("a.rs", format!("let a = \"{long}\";")), 0);
        assert_eq!(complaints("a.md", long.clone()), 1);
        assert_eq!(complaints("a.md", format!("| {long} |")), 0);
        assert_eq!(complaints("a.md", format!("```text\n{long}\n```")), 0);
        assert_eq!(complaints("a.md", format!("```text\nx\n```\n{long}")), 1);
        assert_eq!(complaints("a.rs", format!("//! | {long} |")), 0);
        assert_eq!(complaints("a.md", format!("[x](y) {long}")), 0);
    }
}
