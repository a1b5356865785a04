//! Words: names that were replaced by the field's terms don't come back, sentences name their
//! subject, and nothing names a path of one machine.

use crate::sources::{Line, Source, each_line};

/// Words that were replaced: a row each, which the file explains.
const OLD: &str = include_str!("old-words.txt");
/// Beginnings of a comment's or a paragraph's first sentence that hide its subject.
const HIDDEN_SUBJECTS: [&str; 4] = ["Whoever ", "Whatever ", "Nobody ", "That which "];
/// Beginnings of a doc comment's paragraph that do, too.
const HIDDEN_IN_DOCS: [&str; 5] = ["Its ", "Those ", "Theirs ", "The same ", "Of "];
/// The folder of the simulated network and the schemes that it must not name.
const NETWORK: &str = "atp-sim/src/net/";
const SCHEMES: [&str; 7] = ["aeolus", "expresspass", "dctcp", "mlt", "ndp", "pfabric", "udp"];
/// Files that quote the old names.
const EXEMPT: [&str; 2] = ["CHANGELOG.md", "xtask/src/tidy/words.rs"];

pub fn old_names(sources: &[Source]) -> Vec<String> {
    let complaints = |source: &Source| {
        let (names, phrases) = (replaced("name", source), replaced("phrase", source));
        source.complaints(source.lines(&source.text), |Line { code, .. }| {
            let named = |word| names.iter().find(|row| row.old == word);
            let names = identifiers(&code).flat_map(words).filter_map(named);
            let phrases = phrases.iter().filter(|row| code.contains(row.old));
            let complain = |row: &Replaced| format!("an old name, {}: write {}", row.old, row.new);
            names.chain(phrases).map(complain).collect::<Vec<_>>()
        })
    };
    checked(sources).flat_map(complaints).collect()
}

pub fn old_words(sources: &[Source]) -> Vec<String> {
    let complaints = |source: &Source| {
        let rows = replaced("prose", source);
        let mut before = "";
        source.complaints(source.lines(&source.text), |line| {
            let text = line.prose.unwrap_or_default().trim_start();
            let is_doc = !source.is_markdown()
                && !["// ", "# "].iter().any(|mark| line.text.trim_start().starts_with(mark));
            let in_docs = HIDDEN_IN_DOCS.iter().filter(|_| is_doc && before.is_empty());
            before = text;
            let lower = text.to_lowercase();
            let old = rows.iter().filter(|row| lower.contains(row.old));
            let mut starts = HIDDEN_SUBJECTS.iter().chain(in_docs);
            let hidden = starts.find(|start| text.starts_with(**start));
            old.map(|row| format!("{}: write {}", row.old, row.new))
                .chain(hidden.map(|start| format!("{start}...: name the subject")))
                .collect::<Vec<_>>()
        })
    };
    checked(sources).flat_map(complaints).collect()
}

/// A row of the file of old words.
struct Replaced {
    old: &'static str,
    new: &'static str,
}

/// The rows that hold in a file.
fn replaced(kind: &str, source: &Source) -> Vec<Replaced> {
    let rows = OLD.lines().filter(|line| !line.starts_with('#'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let of_kind = cells.filter_map(|cells| match *cells {
        [found, folder, old, new] => {
            let holds = found == kind && source.path.starts_with(folder);
            holds.then_some(Replaced { old, new })
        }
        _ => None,
    });
    of_kind.collect()
}

/// The simulated network serves every scheme, so it names none.
pub fn scheme_names(sources: &[Source]) -> Vec<String> {
    let rule = |line: Line| {
        let mut words = identifiers(&line.code).flat_map(words);
        let scheme = words.find(|word| SCHEMES.contains(&word.as_str()))?;
        Some(format!("names the scheme {scheme}"))
    };
    let network = sources.iter().filter(|source| source.path.starts_with(NETWORK));
    network.flat_map(|source| source.complaints(source.lines(source.code()), rule)).collect()
}

/// Paths that exist on one machine only.
pub fn machine_paths(sources: &[Source]) -> Vec<String> {
    let complain = |path| format!("{path}... is a path of one machine");
    each_line(sources, |_, line| machine_path(line).map(complain))
}

fn machine_path(line: &str) -> Option<&'static str> {
    // In pieces, so that this file keeps its own rule.
    const ROOTS: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];
    ROOTS.into_iter().find(|root| {
        line.match_indices(root).any(|(at, _)| {
            // After a name or a closing brace it is a part of a longer path.
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !(c.is_alphanumeric() || "._-})>*~".contains(c)))
        })
    })
}

fn checked(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| !EXEMPT.contains(&source.path.as_str()))
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// `LaneLosses_ns` -> `lane`, `losses`, `ns`
fn words(identifier: &str) -> Vec<String> {
    let mut spaced = String::new();
    for c in identifier.chars() {
        if c.is_uppercase() && spaced.ends_with(|c: char| c.is_lowercase() || c.is_numeric()) {
            spaced.push('_');
        }
        spaced.push(c);
    }
    spaced.to_lowercase().split('_').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::source;

    #[test]
    fn old_names__are_found_in_identifiers_and_options() {
        let found = |text: &str| old_names(&[source("approxlib/src/a.rs", text)]).len();
        for old in ["struct Farewell;", "let asked_question = 1;", "PROBED", "fn keep_house() {}"] {
            assert_eq!(found(old), 1, "{old}");
        }
        assert_eq!(found("arguments.push(\"--lateness-us\");"), 2);
        assert_eq!(found("// the judge"), 0);
        assert_eq!(found("let placement = in_place(); // judge"), 0);
    }

    #[test]
    fn old_names__are_found_in_python_and_c() {
        let found = |path: &str, text: &str| old_names(&[source(path, text)]).len();
        for old in ["class Meeting:", "def is_farewell(self):", "patience_s = 1", "AllReduce()"] {
            assert_eq!(found("integrations/a.py", old), 1, "{old}");
        }
        assert_eq!(found("bindings/c/include/atp.h", "int patience_ms; /* patience */"), 1);
        assert_eq!(found("atp-sim/src/a.rs", "AllReduce, Meeting"), 0);
        assert_eq!(found("integrations/a.py", "wait()  # in a meeting"), 0);
    }

    #[test]
    fn old_names__hold_where_they_are_old() {
        assert_eq!(old_names(&[source("atp-sim/src/a.rs", "struct Place;")]).len(), 1);
        assert!(old_names(&[source("xtask/src/a.rs", "struct Place;")]).is_empty());
    }

    #[test]
    fn old_words__are_found_in_prose() {
        assert_eq!(old_words(&[source("a.md", "after a Time-out")]).len(), 1);
        assert_eq!(old_words(&[source("a.rs", "    /// Whoever asks gets it.")]).len(), 1);
        assert!(old_words(&[source("a.rs", "let a = 1;")]).is_empty());
        let meeting = "\"\"\"A greeting.\n\nNobody has patience.\n\"\"\"\n";
        assert_eq!(old_words(&[source("a.py", meeting)]).len(), 3);
        assert_eq!(old_words(&[source("a.h", "/* Whatever it\n * has patience for */")]).len(), 2);
    }

    #[test]
    fn old_words__name_the_subject_of_a_doc_comment() {
        let found = |path: &str, text: &str| old_words(&[source(path, text)]).len();
        assert_eq!(found("a.rs", "/// Its id.\n///\n/// Those of jobs.\n/// Of lanes."), 2);
        assert_eq!(found("a.py", "\"\"\"The same in ms.\"\"\"\n# Of all."), 1);
        assert_eq!(found("a.h", "/**\n * Of all lanes.\n */"), 1);
        assert_eq!(found("a.md", "Of all lanes") + found("a.rs", "// Its id.\n/// Often."), 0);
    }

    #[test]
    fn scheme_names__are_found_in_the_network() {
        let text = "struct NdpHeader;";
        assert_eq!(scheme_names(&[source("atp-sim/src/net/a.rs", text)]).len(), 1);
        assert!(scheme_names(&[source("atp-sim/src/scheme/ndp/a.rs", text)]).is_empty());
    }

    #[test]
    fn machine_paths__are_told_from_parts_of_longer_ones() {
        let home = ["see /", "home/someone/x"].concat();
        assert_eq!(machine_paths(&[source("README.md", &home)]).len(), 1);
        assert!(machine_paths(&[source("README.md", "target/vm/root/boot")]).is_empty());
    }

    #[test]
    fn words__splits_all_cases() {
        assert_eq!(words("LaneLosses_ns"), ["lane", "losses", "ns"]);
        assert_eq!(words("NO_ACK"), ["no", "ack"]);
    }
}
