//! The page of resources: each row names tests that exist.

use std::collections::BTreeSet;

use crate::sources::{Source, split_tests};

const PAGE: &str = "docs/src/guide/resources.md";

/// A limit without a test is a guess.
pub fn without_test(sources: &[Source]) -> Vec<String> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![format!("{PAGE} is missing")];
    };
    let tests: BTreeSet<&str> = sources.iter().flat_map(tests).collect();
    let mut is_in_table = false;
    page.complaints(page.text.lines(), |line| {
        let last = last_cell(line);
        let is_row = is_in_table && last.is_some_and(|cell| !cell.starts_with("---"));
        is_in_table = last.is_some_and(|cell| is_in_table || cell == "test");
        match last {
            Some(cell) if is_row => missing(cell, &tests),
            _ => Vec::new(),
        }
    })
}

fn last_cell(line: &str) -> Option<&str> {
    Some(line.strip_prefix('|')?.strip_suffix('|')?.rsplit('|').next()?.trim())
}

/// The complaints about a cell of names in backticks.
fn missing(cell: &str, tests: &BTreeSet<&str>) -> Vec<String> {
    let names: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return vec!["a row without a test".to_owned()];
    }
    let unknown = names.into_iter().filter(|name| !tests.contains(name));
    unknown.map(|name| format!("no test is named {name}")).collect()
}

/// The names of the functions in tests of Rust and Python, and of the tests in tables.
fn tests(source: &Source) -> impl Iterator<Item = &str> {
    let text = match source.is_test() {
        true => &source.text,
        false => split_tests(&source.text).1,
    };
    let keyword = match source.path.rsplit_once('.') {
        Some((_, "rs")) => "fn ",
        Some((_, "py")) => "def ",
        _ => return None.into_iter().flatten(),
    };
    let names = text.lines().filter_map(move |line| {
        let line = line.trim_start();
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix(keyword);
        let function = function.and_then(|rest| rest.split(['(', '<']).next());
        function.or_else(|| trial(line))
    });
    Some(names).into_iter().flatten()
}

/// The name of a test in a table of names and functions.
fn trial(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("(\"")?.split_once("\", ")?;
    name.contains("__").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn without_test__finds_rows_whose_test_is_not_there() {
        let complaints = |row: &str| {
            let page = format!("| a | test |\n|---|---|\n{row}\n\n| b | decides |\n| c | d |\n");
            let rust = "fn helper() {}\n#[cfg(test)]\nmod tests {\n    fn one__of_rust() {}\n}\n";
            without_test(&[
                source(PAGE, &page),
                source("a/src/a.rs", rust),
                source("a/tests/b.py", "def test_of_python() -> None:\n"),
                source("a/tests/main.rs", "    (\"three__in_a_table\", three, &cc),\n"),
            ])
        };
        assert!(complaints("| a | `one__of_rust`, `test_of_python` |").is_empty());
        assert!(complaints("| a | `three__in_a_table` |").is_empty());
        assert_eq!(complaints("| a | `one__of_rust`, `two` |").len(), 1);
        assert_eq!(complaints("| a | `helper` |").len(), 1);
        assert_eq!(complaints("| a | |").len(), 1);
        assert_eq!(without_test(&[]).len(), 1);
    }
}
