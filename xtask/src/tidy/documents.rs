//! Documents: the ones that must be there, and what ARCHITECTURE.md leaves to the results.

use std::collections::BTreeSet;

use crate::sources::{Source, each_line};

const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/src/SUMMARY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
/// Units that mark a measurement. A design page has none.
const UNITS: [&str; 12] =
    ["%", "ms", "us", "ns", "Gbit/s", "Mbit/s", "packets/s", "times", "MB", "GB", "MiB", "GiB"];

pub fn missing(sources: &[Source]) -> Vec<String> {
    let is_there = |name: &str| sources.iter().any(|source| source.path == name);
    let missing = REQUIRED.iter().filter(|name| !is_there(name));
    missing.map(|name| format!("{name} is missing")).collect()
}

/// The map of the code has a row for each crate. It has one for each other folder at the root, or
/// for a folder inside of it.
pub fn folders_without_row(sources: &[Source]) -> Vec<String> {
    let map = sources.iter().find(|source| source.path == "ARCHITECTURE.md");
    let map = map.map_or("", |source| &source.text);
    let crates = sources.iter().filter_map(|source| source.path.strip_suffix("/Cargo.toml"));
    let at_root = sources.iter().filter_map(|source| Some(source.path.split_once('/')?.0));
    let at_root = at_root.filter(|folder| !folder.starts_with('.'));
    let rows = crates.map(|folder| (folder, format!("\n| `{folder}` |")));
    let rows = rows.chain(at_root.map(|folder| (folder, format!("\n| `{folder}"))));
    let missing = rows.filter(|(_, row)| !map.contains(row)).map(|(folder, _)| folder);
    let complain = |folder| format!("ARCHITECTURE.md: no row for the folder {folder}");
    BTreeSet::from_iter(missing).into_iter().map(complain).collect()
}

/// A measurement belongs to the results, with its command and its date.
pub fn measurements(sources: &[Source]) -> Vec<String> {
    let design = sources.iter().filter(|source| source.path == "ARCHITECTURE.md");
    let complain = |found| format!("{found}: belongs to docs/src/results");
    each_line(design, |_, line| measurement(line).map(complain))
}

/// A number with a unit.
fn measurement(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split([' ', ',', ';', '(', ')', '|']).collect();
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    words.windows(2).find_map(|pair| {
        let unit = pair[1].trim_end_matches(['.', ':']);
        (is_number(pair[0]) && UNITS.contains(&unit)).then(|| format!("{} {unit}", pair[0]))
    })
}

/// An ignored test must name a capability: `cargo xtask test` evaluates a skip by its reason.
pub fn ignores_without_reason(sources: &[Source]) -> Vec<String> {
    each_line(sources.iter().filter(|source| source.is_rust()), |_, line| {
        let line = line.trim();
        let is_wrong = line.starts_with("#[ignore") && !line.starts_with("#[ignore = \"needs ");
        is_wrong.then(|| "say why: #[ignore = \"needs CAPABILITY\"]".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn missing__names_each_document() {
        assert_eq!(missing(&[source("README.md", "")]).len(), REQUIRED.len() - 1);
    }

    #[test]
    fn folders_without_row__are_crates_and_folders_at_the_root() {
        let complaints = |path, map: &str| {
            folders_without_row(&[source(path, ""), source("ARCHITECTURE.md", map)]).len()
        };
        assert_eq!(complaints("a/Cargo.toml", "\n| `a` | it |"), 0);
        assert_eq!(complaints("a/b/Cargo.toml", "\n| `a` | both |"), 1);
        assert_eq!(complaints("tools/b/c.py", "\n| `tools/b` | c |"), 0);
        assert_eq!(complaints("tools/b/c.py", "tools"), 1);
        assert_eq!(complaints(".ci/run", ""), 0);
    }

    #[test]
    fn measurements__are_numbers_with_units() {
        let found = |text: &str| measurements(&[source("ARCHITECTURE.md", text)]).len();
        for text in ["lost 3.5 % of them", "within 20 ms.", "takes 1.2 times as long"] {
            assert_eq!(found(text), 1, "{text}");
        }
        for text in ["queue 0", "§4.2, Eq. 1", "8 queues", "three times"] {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn ignores_without_reason__are_found() {
        let found = |text: &str| ignores_without_reason(&[source("a.rs", text)]).len();
        assert_eq!(found("    #[ignore]\n"), 1);
        assert_eq!(found("#[ignore = \"slow\"]"), 1);
        assert_eq!(found("#[ignore = \"needs root\"]"), 0);
    }
}
