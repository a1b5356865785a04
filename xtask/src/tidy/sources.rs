//! The tracked text files of the repository, as the rules read them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::setup;

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

    /// Lines with their numbers, which begin with 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The code before the test module at the end of the file.
    pub fn code(&self) -> &str {
        split_tests(&self.text).0
    }

    /// A file of tests or a file that only tests include.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/") || name == "tests.rs"
    }
}

/// The part of a file before its test module, and the test module.
pub fn split_tests(text: &str) -> (&str, &str) {
    text.split_at(text.find("#[cfg(test)]\nmod ").unwrap_or(text.len()))
}

/// Every path that git tracks, or would track.
pub fn paths(root: &Path) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.arg("-C").arg(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = setup::output(&mut list).context("tidy reads the files that git tracks")?;
    Ok(list.lines().filter(|path| root.join(path).exists()).map(str::to_owned).collect())
}

/// The text files among `paths`.
pub fn read(root: &Path, paths: &[String]) -> Vec<Source> {
    let read = |path: &String| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        Some(Source { path: path.clone(), text })
    };
    paths.iter().filter_map(read).collect()
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
