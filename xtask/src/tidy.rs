//! `cargo xtask tidy`: rules of the repository that no compiler checks, each a small function
//! over the tracked files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::setup;

const LINES_MAX: usize = 600;
const LAWS: &str = "atp-common/src/laws/";
/// Crates to which time comes in as an argument.
const CLOCKLESS: [&str; 2] = ["atp-common/", "atp-proto/"];
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
/// Which crates of ours each may depend on; a crate that isn't here is an error.
const DEPENDENCIES: [(&str, &[&str]); 13] = [
    ("atp-common", &[]),
    ("atp-ebpf", &["atp-common"]),
    ("atp-proto", &["atp-common"]),
    ("approxlib", &["atp-common", "atp-proto"]),
    ("switch-profiles", &[]),
    ("atp-options", &["atp-common"]),
    ("atp-user", &["atp-common", "atp-options", "approxlib", "switch-profiles"]),
    ("atp-sim", &["atp-common", "atp-proto", "switch-profiles"]),
    ("xtask", &["atp-common", "atp-options", "approxlib", "atp-user", "switch-profiles"]),
    ("atp-tests", &["atp-common", "approxlib", "atp-user"]),
    ("atp-ebpf-faults", &[]),
    ("atp-fuzz-targets", &["atp-common", "atp-proto", "approxlib"]),
    ("atp-fuzz", &["atp-fuzz-targets"]),
];

/// A tracked text file.
struct Source {
    path: String,
    text: String,
}

pub fn main() -> Result<()> {
    let sources = sources()?;
    let mut complaints = Vec::new();
    complaints.extend(long_files(&sources));
    complaints.extend(clocks(&sources));
    complaints.extend(machine_paths(&sources));
    complaints.extend(untested_equations(&sources));
    complaints.extend(ignores_without_reason(&sources));
    complaints.extend(missing_documents(&sources));
    complaints.extend(wrong_dependencies(&dependencies()?));
    if complaints.is_empty() {
        println!("tidy: {} files keep the rules", sources.len());
        return Ok(());
    }
    for complaint in &complaints {
        println!("tidy: {complaint}");
    }
    bail!("{} breaches of the repository's rules", complaints.len())
}

/// A file that holds one thing rarely needs more.
fn long_files(sources: &[Source]) -> Vec<String> {
    let rust = sources.iter().filter(|source| source.is_rust());
    rust.map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(source, lines)| {
            format!("{}: {lines} lines, more than {LINES_MAX}: split it by concept", source.path)
        })
        .collect()
}

/// A law or a state machine that reads a clock can't be replayed.
fn clocks(sources: &[Source]) -> Vec<String> {
    let reads_clock =
        |line: &str| line.contains("Instant::now") || line.contains("SystemTime::now");
    let clockless = |source: &&Source| CLOCKLESS.iter().any(|krate| source.path.starts_with(krate));
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()).filter(clockless) {
        for (number, _) in source.numbered().filter(|(_, line)| reads_clock(line)) {
            complaints.push(format!("{}:{number}: reads a clock: take `now`", source.path));
        }
    }
    complaints
}

/// Paths that exist on one machine only.
fn machine_paths(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for (number, line) in source.numbered() {
            if let Some(path) = machine_path(line) {
                let at = format!("{}:{number}", source.path);
                complaints.push(format!("{at}: {path}... is a path of one machine"));
            }
        }
    }
    complaints
}

fn machine_path(line: &str) -> Option<&'static str> {
    // In pieces, so that this file keeps its own rule.
    const PLACES: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];
    PLACES.into_iter().find(|place| {
        line.match_indices(place).any(|(at, _)| {
            // After a name or a closing brace it is a part of a longer path.
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !(c.is_alphanumeric() || "._-})>*~".contains(c)))
        })
    })
}

/// An equation that a law cites must be cited by a test, too: NetApprox §x, Eq. n.
fn untested_equations(sources: &[Source]) -> Vec<String> {
    let mut cited: BTreeMap<u32, String> = BTreeMap::new();
    let mut tested = BTreeSet::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if source.path.starts_with("atp-common/tests/") {
            tested.extend(equations(&source.text));
        } else if source.path.starts_with(LAWS) {
            let (code, tests) = split_tests(&source.text);
            tested.extend(equations(tests));
            for equation in equations(code) {
                cited.entry(equation).or_insert_with(|| source.path.clone());
            }
        }
    }
    cited
        .iter()
        .filter(|(equation, _)| !tested.contains(equation))
        .map(|(equation, path)| format!("{path}: cites Eq. {equation}, and no test does"))
        .collect()
}

/// What comes before the file's test module, and the module.
fn split_tests(text: &str) -> (&str, &str) {
    text.split_at(text.find("#[cfg(test)]").unwrap_or(text.len()))
}

/// The numbers in `Eq. 1`, `Eq. 2 and 3`, `Eq. 2, 3`; other documents than the paper don't count.
fn equations(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.contains("RFC")) {
        for citation in line.split("Eq. ").skip(1) {
            let words = citation.split([' ', ',', ')', ':', '.', ';']).filter(|w| !w.is_empty());
            let numbers = words.take_while(|word| *word == "and" || word.parse::<u32>().is_ok());
            found.extend(numbers.filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    found
}

/// `cargo xtask test` evaluates a skip by its reason.
fn ignores_without_reason(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (number, _) in source.numbered().filter(|(_, line)| line.trim() == "#[ignore]") {
            let at = format!("{}:{number}", source.path);
            complaints.push(format!("{at}: say why: #[ignore = \"needs CAPABILITY\"]"));
        }
    }
    complaints
}

fn missing_documents(sources: &[Source]) -> Vec<String> {
    let is_there = |name: &str| sources.iter().any(|source| source.path == name);
    let missing = DOCUMENTS.iter().filter(|name| !is_there(name));
    missing.map(|name| format!("{name} is missing")).collect()
}

/// Dependencies point one way: the laws know nobody, the tools know everybody.
fn wrong_dependencies(crates: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = crates.iter().map(|package| package.name.as_str()).collect();
    let mut complaints = Vec::new();
    for package in crates {
        let Some((_, allowed)) = DEPENDENCIES.iter().find(|(name, _)| *name == package.name) else {
            complaints.push(format!("{}: not in tidy's table of dependencies", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if ours.contains(name) && !allowed.contains(&name) {
                complaints.push(format!("{} must not depend on {name}", package.name));
            }
        }
    }
    complaints
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

/// The crates of the workspace and of those that have their own.
fn dependencies() -> Result<Vec<Package>> {
    let mut crates = Vec::new();
    let workspaces =
        ["Cargo.toml", "atp-ebpf/Cargo.toml", "fuzz/Cargo.toml", "tests/ebpf-faults/Cargo.toml"];
    for manifest in workspaces {
        let mut metadata = setup::cargo();
        metadata.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
        metadata.arg("--manifest-path").arg(setup::paths().workspace.join(manifest));
        let json = setup::output(&mut metadata)?;
        let found: Metadata = serde_json::from_str(&json).context("odd `cargo metadata`")?;
        crates.extend(found.packages);
    }
    Ok(crates)
}

/// Every text file that git tracks or would track.
fn sources() -> Result<Vec<Source>> {
    let root = &setup::paths().workspace;
    let mut list = Command::new("git");
    list.arg("-C").arg(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = setup::output(&mut list).context("tidy reads the files that git tracks")?;
    Ok(list.lines().filter_map(|path| read_source(root, path)).collect())
}

/// `None` for what isn't text, and for a file that was deleted but not yet committed so.
fn read_source(root: &Path, path: &str) -> Option<Source> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    Some(Source { path: path.to_owned(), text })
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Vec<Source> {
        vec![Source { path: path.to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(long_files(&source("a.rs", &"x\n".repeat(LINES_MAX + 1))).len(), 1);
        assert!(long_files(&source("a.rs", &"x\n".repeat(LINES_MAX))).is_empty());
        assert!(long_files(&source("a.csv", &"x\n".repeat(LINES_MAX + 1))).is_empty());
    }

    #[test]
    fn clocks_are_found_where_time_is_an_argument() {
        let text = "let now = Instant::now();";
        assert_eq!(clocks(&source("atp-proto/src/a.rs", text)).len(), 1);
        assert!(clocks(&source("approxlib/src/a.rs", text)).is_empty());
    }

    #[test]
    fn machine_paths_are_told_from_parts_of_longer_ones() {
        let home = ["see /", "home/someone/x"].concat();
        assert_eq!(machine_paths(&source("README.md", &home)).len(), 1);
        assert!(machine_paths(&source("README.md", "target/vm/root/boot")).is_empty());
    }

    #[test]
    fn equations_are_read_in_all_their_forms() {
        let text = "(NetApprox §4.2, Eq. 2 and 3)\n// Eq. 1, against\n// RFC 1624, Eq. 9";
        assert_eq!(equations(text), BTreeSet::from([1, 2, 3]));
    }

    #[test]
    fn untested_equations_are_found_across_files() {
        let law = "//! NetApprox §4.2, Eq. 4\n#[cfg(test)]\nmod tests { // Eq. 1\n}";
        let mut sources = source("atp-common/src/laws/rate.rs", law);
        assert_eq!(untested_equations(&sources).len(), 1);
        sources.extend(source("atp-common/tests/laws.rs", "// NetApprox §4.2, Eq. 4"));
        assert!(untested_equations(&sources).is_empty());
    }

    #[test]
    fn wrong_dependencies_are_found() {
        let package = |name: &str, dependencies: &[&str]| Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|d| Dependency { name: (*d).into() }).collect(),
        };
        let mut crates = vec![package("atp-common", &["bytemuck"]), package("atp-proto", &[])];
        assert!(wrong_dependencies(&crates).is_empty());
        crates[0] = package("atp-common", &["atp-proto"]);
        assert_eq!(wrong_dependencies(&crates).len(), 1);
        crates.push(package("atp-quic", &[]));
        assert_eq!(wrong_dependencies(&crates).len(), 2);
    }

    #[test]
    fn ignores_without_reason_are_found() {
        assert_eq!(ignores_without_reason(&source("a.rs", "    #[ignore]\n")).len(), 1);
        assert!(ignores_without_reason(&source("a.rs", "#[ignore = \"needs root\"]")).is_empty());
    }
}
