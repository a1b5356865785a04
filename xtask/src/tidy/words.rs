//! Words: names that were replaced by the field's terms don't come back, sentences name their
//! subject, and nothing names a path of one machine.

use crate::sources::{Source, each_line};

/// Words of identifiers and options that have a standard name, the folder that the rule holds for,
/// and the name.
const OLD_NAMES: [(&str, &str, &str); 18] = [
    ("yesno", "", "PodBool"),
    ("farewell", "", "Tombstone"),
    ("evidence", "", "EpochSample"),
    ("lateness", "", "timer_granularity"),
    ("superpacket", "", "GSO or GRO buffer"),
    ("superpackets", "", "GSO or GRO buffers"),
    ("youngest", "", "largest or latest"),
    ("housekeeper", "", "housekeeping"),
    ("judge", "", "evaluate"),
    ("judged", "", "evaluated"),
    ("rescue", "", "starvation_recovery"),
    ("question", "atp-proto/", "probe"),
    ("question", "approxlib/", "probe"),
    ("question", "tests/", "probe"),
    ("patience", "", "stop_rule or a timeout"),
    ("chase", "atp-sim/", "adaptive_background"),
    ("place", "atp-sim/", "network_spec"),
    ("refusal", "atp-ebpf/", "Verdict"),
];
/// The same for what no single word of an identifier shows.
const OLD_PHRASES: [(&str, &str); 7] = [
    ("is_probed", "is_no_ack"),
    ("PROBED", "NO_ACK"),
    ("keep_house", "housekeeping"),
    ("time_out", "timeout"),
    ("--lateness", "--timer-granularity"),
    ("judge-late", "evaluate-late"),
    ("YesNo", "PodBool"),
];
/// Words that documents and comments don't use, and the field's.
const OLD_WORDS: [(&str, &str); 5] = [
    ("time-out", "timeout"),
    ("superpacket", "GSO or GRO buffer"),
    ("farewell", "tombstone"),
    ("lateness", "timer granularity"),
    ("keep house", "housekeeping"),
];
/// Beginnings of a comment's or a paragraph's first sentence that hide its subject.
const HIDDEN_SUBJECTS: [&str; 4] = ["Whoever ", "Whatever ", "Nobody ", "That which "];
/// The folder of the simulated network and the schemes that it must not name.
const NETWORK: &str = "atp-sim/src/net/";
const SCHEMES: [&str; 7] = ["aeolus", "expresspass", "dctcp", "mlt", "ndp", "pfabric", "udp"];
/// Files that list the old names.
const EXEMPT: [&str; 2] = ["CHANGELOG.md", "xtask/src/tidy/words.rs"];

pub fn old_names(sources: &[Source]) -> Vec<String> {
    let rust = checked(sources).filter(|source| source.is_rust());
    each_line(rust, |source, line| {
        let code = code_of(line);
        let words = identifiers(code).flat_map(words);
        let names = words.filter_map(|word| old_name(&word, &source.path));
        let phrases = OLD_PHRASES.into_iter().filter(|(old, _)| code.contains(old));
        let complain = |(old, new)| format!("an old name, {old}: write {new}");
        names.chain(phrases).map(complain).collect::<Vec<_>>()
    })
}

pub fn old_words(sources: &[Source]) -> Vec<String> {
    each_line(checked(sources), |source, line| {
        let text = source.prose(line).unwrap_or_default();
        let lower = text.to_lowercase();
        let old = OLD_WORDS.into_iter().filter(move |(old, _)| lower.contains(old));
        let hidden = HIDDEN_SUBJECTS.iter().find(|start| text.trim_start().starts_with(**start));
        old.map(|(old, new)| format!("{old}: write {new}"))
            .chain(hidden.map(|start| format!("{start}...: name the subject")))
    })
}

/// The simulated network serves every scheme, so it names none.
pub fn scheme_names(sources: &[Source]) -> Vec<String> {
    let rule = |line| {
        let mut words = identifiers(code_of(line)).flat_map(words);
        let scheme = words.find(|word| SCHEMES.contains(&word.as_str()))?;
        Some(format!("names the scheme {scheme}"))
    };
    let network = sources.iter().filter(|source| source.path.starts_with(NETWORK));
    network.flat_map(|source| source.complaints(source.code(), rule)).collect()
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

/// A line without its comment.
fn code_of(line: &str) -> &str {
    if line.trim_start().starts_with("//") {
        return "";
    }
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// `LaneLosses_ns` -> `lane`, `losses`, `ns`
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if c != '_' {
            words.last_mut().expect("it has one word from the start").extend(c.to_lowercase());
        }
    }
    words
}

fn old_name(word: &str, path: &str) -> Option<(&'static str, &'static str)> {
    let holds = |folder: &str| path.starts_with(folder);
    let found = OLD_NAMES.iter().find(|(old, folder, _)| *old == word && holds(folder));
    found.map(|(old, _, new)| (*old, *new))
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
    fn old_names__hold_where_they_are_old() {
        assert_eq!(old_names(&[source("atp-sim/src/a.rs", "struct Place;")]).len(), 1);
        assert!(old_names(&[source("xtask/src/a.rs", "struct Place;")]).is_empty());
    }

    #[test]
    fn old_words__are_found_in_prose() {
        assert_eq!(old_words(&[source("a.md", "after a Time-out")]).len(), 1);
        assert_eq!(old_words(&[source("a.rs", "    /// Whoever asks gets it.")]).len(), 1);
        assert!(old_words(&[source("a.rs", "let a = 1;")]).is_empty());
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
