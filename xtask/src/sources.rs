//! The tracked files of the repository, as the rules of `tidy` and `book` read them.

mod lines;

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use crate::setup;
pub use lines::Line;

/// A tracked text file.
pub struct Source {
    /// Relative to the workspace.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The code before the test module at the end of the file.
    pub fn code(&self) -> &str {
        split_tests(&self.text).0
    }

    /// A file of tests or a file that only tests include.
    pub fn is_test(&self) -> bool {
        ["/tests/", "/kernel-tests/"].iter().any(|folder| self.path.contains(folder))
            || self.path.ends_with("/tests.rs")
    }

    /// The lines of `text`, which is this file or its beginning.
    pub fn lines<'a>(&self, text: &'a str) -> Vec<Line<'a>> {
        lines::split(&self.path, text)
    }

    /// The complaints of a rule about the first lines of this file, or all.
    pub fn complaints<L, C: IntoIterator<Item = String>>(
        &self,
        lines: impl IntoIterator<Item = L>,
        mut rule: impl FnMut(L) -> C,
    ) -> Vec<String> {
        let mut complaints = Vec::new();
        for (number, line) in (1..).zip(lines) {
            let found = rule(line).into_iter();
            complaints.extend(found.map(|what| format!("{}:{number}: {what}", self.path)));
        }
        complaints
    }
}

/// The complaints of a rule about the lines of `sources`.
pub fn each_line<'a, C: IntoIterator<Item = String>>(
    sources: impl IntoIterator<Item = &'a Source>,
    mut rule: impl FnMut(&Source, &'a str) -> C,
) -> Vec<String> {
    let complaints =
        |source: &'a Source| source.complaints(source.text.lines(), |line| rule(source, line));
    sources.into_iter().flat_map(complaints).collect()
}

/// The part of a file before its test module, and the test module.
pub fn split_tests(text: &str) -> (&str, &str) {
    text.split_at(text.find("#[cfg(test)]\nmod ").unwrap_or(text.len()))
}

/// Every path that git tracks, or would track, and the text files among them.
pub fn read(root: &Path) -> Result<(Vec<String>, Vec<Source>)> {
    let mut list = Command::new("git");
    list.arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = setup::output(&mut list).context("can't list the files that git tracks")?;
    let exists = |path: &&str| !path.is_empty() && root.join(path).exists();
    let paths: Vec<String> = list.split('\0').filter(exists).map(str::to_owned).collect();
    let read = |path: &String| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        Some(Source { path: path.clone(), text })
    };
    let sources = paths.iter().filter_map(read).collect();
    Ok((paths, sources))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn split_tests__ends_the_code_where_the_test_module_begins() {
        let text = "fn a() {}\n#[cfg(test)]\nfn only_for_tests() {}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(split_tests(text).1, "#[cfg(test)]\nmod tests {}\n");
        assert_eq!(split_tests("fn a() {}").1, "");
    }
}
