//! Imports: files don't import each other in a circle, and lower folders don't import higher ones.
//!
//! A module and its own children may name each other: they are one thing in several files. A circle
//! that leaves them and comes back counts. What a test module imports doesn't count.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// Folders of a crate and the modules of the same crate that they may import.
const LAYERS: [(&str, &[&str]); 2] =
    [("atp-sim/src/engine/", &["engine"]), ("atp-sim/src/net/", &["engine", "net"])];

/// Files by their module path: `["atp_sim", "net", "port"]`.
type Modules<'a> = BTreeMap<Vec<&'a str>, &'a Source>;
/// Each file and the files that it imports.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub fn cycles(sources: &[Source]) -> Vec<String> {
    let graph = graph(&modules(sources));
    let mut seen = BTreeSet::new();
    let cycles = graph.keys().filter_map(|start| cycle_through(&graph, start));
    let new = cycles.filter(|cycle| seen.insert(BTreeSet::from_iter(cycle.clone())));
    new.map(|cycle| format!("files import each other: {}", cycle.join(" -> "))).collect()
}

pub fn layers(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (folder, allowed) in LAYERS {
        for source in sources.iter().filter(|source| source.path.starts_with(folder)) {
            for path in imports(&code(source), &[]) {
                let [first, module, ..] = path.as_slice() else { continue };
                if *first == "crate" && is_module(module) && !allowed.contains(module) {
                    let at = &source.path;
                    complaints.push(format!("{at}: {folder} must not import crate::{module}"));
                }
            }
        }
    }
    complaints
}

/// Files of crates, by crate and module. Test files are left out.
fn modules(sources: &[Source]) -> Modules<'_> {
    let mut modules = Modules::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        let Some((krate, inside)) = source.path.split_once("/src/") else { continue };
        let mut path = vec![krate];
        path.extend(inside.trim_end_matches(".rs").split('/'));
        if matches!(path.last(), Some(&"mod" | &"lib" | &"main")) {
            path.pop();
        }
        modules.insert(path, source);
    }
    modules
}

fn graph<'a>(modules: &Modules<'a>) -> Graph<'a> {
    let imported = |(module, source): (&Vec<&'a str>, &&'a Source)| {
        let is_child = |path: &&Vec<&str>| path.split_last().is_some_and(|(_, p)| p == module);
        let children: Vec<_> =
            modules.keys().filter(is_child).map(|path| path[path.len() - 1]).collect();
        let code = code(source);
        let paths = imports(&code, &children).into_iter();
        let targets = paths.filter_map(|path| resolve(modules, module, &path));
        let others = targets.filter(|target| !module.starts_with(target));
        (source.path.as_str(), others.map(|target| modules[&target].path.as_str()).collect())
    };
    modules.iter().map(imported).collect()
}

/// The longest module that `path`, written in `module`, begins with.
fn resolve<'a>(
    modules: &Modules<'a>,
    module: &[&'a str],
    path: &[&'a str],
) -> Option<Vec<&'a str>> {
    let mut absolute: Vec<&str> = match path.first()? {
        &"crate" => module[..1].to_vec(),
        _ => module.to_vec(),
    };
    for word in path {
        match *word {
            "crate" | "self" => {}
            "super" => drop(absolute.pop()),
            word => absolute.push(word),
        }
    }
    let lengths = (1..=absolute.len()).rev();
    lengths.map(|length| absolute[..length].to_vec()).find(|path| modules.contains_key(path))
}

/// The code before the test module, without comments.
fn code(source: &Source) -> String {
    source.lines(source.code()).into_iter().map(|line| line.code + "\n").collect()
}

/// Every path in `code` that begins with `crate::`, `super::`, `self::` or a child, as its words.
/// Groups of `use` are taken apart.
fn imports<'a>(code: &'a str, children: &[&str]) -> Vec<Vec<&'a str>> {
    let starts: Vec<String> =
        ["crate", "super", "self"].iter().chain(children).map(|word| format!("{word}::")).collect();
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = starts.iter().filter_map(|start| rest.find(start)).min() {
        let is_path = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
        let (end, paths) = tree(&rest[at..]);
        if is_path {
            found.extend(paths);
        }
        rest = &rest[at + end..];
    }
    found
}

/// A path or a tree of paths at the beginning of `text`: its length and the paths.
fn tree(text: &str) -> (usize, Vec<Vec<&str>>) {
    let (mut found, mut path) = (Vec::new(), Vec::new());
    // The lengths of the paths before the groups that are open.
    let mut groups = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
        let word = word.unwrap_or_default();
        at += word.len().max(next.len_utf8());
        match next {
            _ if !word.is_empty() => path.push(word),
            ':' => {}
            '{' => groups.push(path.len()),
            ',' | '}' if !groups.is_empty() => {
                let prefix = groups[groups.len() - 1];
                if path.len() > prefix {
                    found.push(path.clone());
                }
                path.truncate(prefix);
                if next == '}' {
                    groups.pop();
                    // The paths of the inner group are in `found` already.
                    path.truncate(groups.last().copied().unwrap_or(0));
                }
            }
            _ if groups.is_empty() => break,
            _ => {}
        }
    }
    found.extend(Some(path).filter(|path| !path.is_empty()));
    (at, found)
}

/// A shortest path from `start` back to itself.
fn cycle_through<'a>(graph: &Graph<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut paths = std::collections::VecDeque::from([vec![start]]);
    while let Some(path) = paths.pop_front() {
        for &next in graph.get(path[path.len() - 1]).into_iter().flatten() {
            let longer = [path.as_slice(), &[next]].concat();
            if next == start {
                return Some(longer);
            }
            if seen.insert(next) {
                paths.push_back(longer);
            }
        }
    }
    None
}

/// Modules are named in lower case, types and constants aren't.
fn is_module(word: &str) -> bool {
    word.starts_with(|c: char| c.is_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn imports__takes_groups_apart() {
        let code =
            "use crate::{\n    net::{Port, switch},\n    units::Rate,\n};\nlet a = super::b::C;";
        let expected: [&[&str]; 4] = [
            &["crate", "net", "Port"],
            &["crate", "net", "switch"],
            &["crate", "units", "Rate"],
            &["super", "b", "C"],
        ];
        assert_eq!(imports(code, &[]), expected);
        assert!(imports("use other_crate::a; $crate::b", &[]).is_empty());
    }

    #[test]
    fn cycles__are_found_between_siblings() {
        let files = |b: &str| {
            [
                source("x/src/lib.rs", "mod a;\nmod b;\nuse crate::a::A;"),
                source("x/src/a.rs", "use super::b::B;\nuse super::Top;"),
                source("x/src/b.rs", b),
            ]
        };
        assert_eq!(
            cycles(&files("use crate::a::A;")),
            ["files import each other: x/src/a.rs -> x/src/b.rs -> x/src/a.rs"]
        );
        assert!(cycles(&files("use crate::Top;")).is_empty());
        assert!(cycles(&files("#[cfg(test)]\nmod tests { use crate::a::A; }")).is_empty());
    }

    #[test]
    fn cycles__are_found_behind_self_and_not_in_comments() {
        let files = |a: &str| {
            [
                source("x/src/a/mod.rs", a),
                source("x/src/a/child.rs", "use crate::b::B;"),
                source("x/src/b.rs", "use crate::a::A;"),
            ]
        };
        assert_eq!(cycles(&files("pub use self::child::C;")).len(), 1);
        assert_eq!(cycles(&files("use self::{child::C, other::D};")).len(), 1);
        assert!(cycles(&files("mod a {} // see self::child::C")).is_empty());
    }

    #[test]
    fn cycles__are_found_over_three_files() {
        let files = [
            source("x/src/a.rs", "use crate::b::B;"),
            source("x/src/b.rs", "use crate::c::C;"),
            source("x/src/c/mod.rs", "use crate::a::{self, A};"),
            source("x/src/c/d.rs", "use super::C;"),
        ];
        assert_eq!(cycles(&files).len(), 1);
        assert!(cycles(&files[1..]).is_empty());
    }

    #[test]
    fn cycles__are_found_through_a_child() {
        let files = |run| {
            [
                source("x/src/main.rs", "mod bench;\nmod run;\nbench::main();"),
                source("x/src/bench/mod.rs", "mod laws;\nlaws::main();\npub use laws::A;"),
                source("x/src/bench/laws.rs", "use crate::run;\nuse super::table;"),
                source("x/src/run.rs", run),
            ]
        };
        assert_eq!(cycles(&files("use crate::bench::A;")).len(), 1);
        assert!(cycles(&files("")).is_empty());
    }

    #[test]
    fn layers__are_kept() {
        let net = |text| [source("atp-sim/src/net/port.rs", text)];
        assert_eq!(layers(&net("use crate::scheme::Endpoint;")).len(), 1);
        assert!(layers(&net("use crate::{engine::Time, net::Packet};")).is_empty());
    }
}
