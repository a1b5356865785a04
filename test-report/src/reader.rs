//! Reads the output of test binaries: the format of libtest and libtest-mimic, and the project's
//! own lines `skipped: NAME: REASON`, `began NAME` and `took NAME: SECONDS s`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::tally::{Failure, Skip, Tally, TestName};

/// The status of a binary whose tests failed. It says no more than their lines.
pub const TESTS_FAILED: &str = "exit status: 101";

/// Reads one binary's lines as they come.
#[derive(Debug)]
pub struct Reader {
    binary: String,
    started: Instant,
    /// Only tests whose names contain this text were run.
    filter: Option<String>,
    /// The number of result lines (doc tests print one per edition).
    results: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    failed_names: BTreeSet<String>,
    passed_names: BTreeSet<String>,
    times: Vec<(String, Duration)>,
    skips: BTreeMap<String, String>,
    /// Tests that said that they began, or that libtest reported as slow, and that haven't ended.
    running: BTreeSet<String>,
    /// The test whose line has no outcome yet.
    begun: Option<String>,
}

impl Reader {
    /// A binary that was given `filter` may print `skipped:` for tests that the filter excludes.
    pub fn new(binary: &str, filter: Option<&str>) -> Reader {
        Reader {
            binary: binary.to_owned(),
            started: Instant::now(),
            filter: filter.map(str::to_owned),
            results: 0,
            passed: 0,
            failed: 0,
            ignored: 0,
            failed_names: BTreeSet::new(),
            passed_names: BTreeSet::new(),
            times: Vec::new(),
            skips: BTreeMap::new(),
            running: BTreeSet::new(),
            begun: None,
        }
    }

    pub fn binary(&self) -> &str {
        &self.binary
    }

    pub fn line(&mut self, line: &str) {
        self.begun = match outcome(line) {
            Some((name, outcome)) => self.ended(name.to_owned(), outcome),
            None => self.begun.take().and_then(|name| self.ended(name, line)),
        };
        if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
        } else if let Some(at) = line.find("skipped: ") {
            // With one thread, `test NAME ... ` is before it on the same line.
            self.skipped(&line[at + "skipped: ".len()..]);
        } else if let Some(name) = running(line) {
            self.running.insert(name.to_owned());
        } else if let Some((name, took)) = took(line) {
            self.running.remove(name);
            self.times.push((name.to_owned(), took));
        } else if let Some((name, outcome)) = outcome(line) {
            self.running.remove(name);
            self.outcome(name, outcome);
        } else if let Some(name) = failure_heading(line) {
            self.failed_names.insert(name.to_owned());
        }
    }

    /// The tally of a binary that has ended; `ended_badly` describes a bad end. A binary without a
    /// result line has crashed, and one may crash or hang after that line: each counts as a failure
    /// beside those of its tests.
    pub fn finish(mut self, ended_badly: Option<String>) -> Tally {
        self.running.extend(self.begun.take());
        let binary = &self.binary;
        let named = |name: &String| Failure::Test(TestName::new(binary, name));
        let other = |what: &str| Failure::Other(format!("{binary}: {what}"));
        let mut failures: Vec<Failure> = self.failed_names.iter().map(named).collect();
        while failures.len() < self.failed {
            failures.push(other("a test that it doesn't name"));
        }
        let has_no_result = self.results == 0;
        let how = match ended_badly {
            Some(how) if how == TESTS_FAILED && !has_no_result && !failures.is_empty() => None,
            None if has_no_result => Some("ended without a result".to_owned()),
            how => how,
        };
        failures.extend(how.map(|how| other(&(how + &still_running(&self.running)))));
        let skip =
            |(name, reason): (&String, &String)| Skip::new(&format!("{binary}::{name}"), reason);
        let mut skips: Vec<Skip> = self.skips.iter().map(skip).collect();
        while skips.len() < self.ignored {
            skips.push(Skip::new(&format!("{binary}: a test that it doesn't name"), ""));
        }
        let passes = self.passed_names.iter().map(|name| TestName::new(binary, name)).collect();
        let times = self.times.iter().map(|(name, took)| (TestName::new(binary, name), *took));
        Tally {
            passed: self.passed,
            failures,
            skips,
            passes,
            unstable: Vec::new(),
            deaths: Vec::new(),
            times: times.collect(),
            binaries: vec![(binary.clone(), self.started.elapsed())],
        }
    }

    /// Notes the end of a test, if `said` is its outcome. Returns its name if it goes on.
    fn ended(&mut self, name: String, said: &str) -> Option<String> {
        if !is_outcome(said) {
            return Some(name);
        }
        match said.starts_with("ok") {
            true => drop(self.passed_names.insert(name)),
            // The headings that name failed tests come at the binary's end, which may not come.
            false if said.starts_with("FAILED") => drop(self.failed_names.insert(name)),
            false => {}
        }
        None
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; ...`
    fn result(&mut self, result: &str) {
        let count = |what: &str| {
            let words: Vec<&str> = result.split([' ', ';']).collect();
            let at = words.iter().position(|word| *word == what);
            at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
        };
        self.results += 1;
        self.passed += count("passed");
        self.failed += count("failed");
        self.ignored += count("ignored");
    }

    fn skipped(&mut self, said: &str) {
        let (name, reason) = said.split_once(": ").unwrap_or((said, ""));
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        self.skips.insert(name.trim().to_owned(), reason.trim().to_owned());
    }

    fn outcome(&mut self, name: &str, outcome: &str) {
        if outcome.starts_with("FAILED") {
            self.failed_names.insert(name.to_owned());
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            // libtest: `ignored, REASON`; libtest-mimic: `ignored (REASON)`.
            let reason = reason.trim_start_matches([',', ' ', '(']).trim_end_matches(')');
            self.skips.entry(name.to_owned()).or_insert_with(|| reason.to_owned());
        }
    }
}

/// `test NAME ... OUTCOME`. With one thread, libtest prints the name when the test begins, so that
/// other words may follow, or none.
fn outcome(line: &str) -> Option<(&str, &str)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ...")?;
    Some((name.trim_end(), outcome.trim()))
}

fn is_outcome(text: &str) -> bool {
    let first = text.split([' ', ',', '(']).next();
    first.is_some_and(|first| ["ok", "FAILED", "ignored"].contains(&first))
}

/// `began NAME`, or `test NAME has been running for over 60 seconds`. With one thread, `test NAME
/// ... ` is before it on the same line.
fn running(line: &str) -> Option<&str> {
    if let Some(name) = own_line(line).strip_prefix("began ") {
        return Some(name);
    }
    Some(line.strip_prefix("test ")?.split_once(" has been running for over ")?.0)
}

/// `took NAME: 1.234 s`
fn took(line: &str) -> Option<(&str, Duration)> {
    let (name, took) = own_line(line).strip_prefix("took ")?.rsplit_once(": ")?;
    let seconds = took.strip_suffix(" s")?.parse().ok()?;
    Some((name, Duration::try_from_secs_f64(seconds).ok()?))
}

/// The line without the beginning `test NAME ... `.
fn own_line(line: &str) -> &str {
    outcome(line).map_or(line, |(_, words)| words)
}

fn still_running(running: &BTreeSet<String>) -> String {
    let names: Vec<&str> = running.iter().map(String::as_str).collect();
    if names.is_empty() { String::new() } else { format!(", still running: {}", names.join(", ")) }
}

/// `---- NAME ----` or, from libtest, `---- NAME stdout ----`. It names a test that printed a line
/// of its own, whose outcome then stands on a line without its name.
fn failure_heading(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(name.strip_suffix(" stdout").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, ended_badly: Option<&str>) -> Tally {
        let mut reader = Reader::new("bin", None);
        text.lines().for_each(|line| reader.line(line));
        reader.finish(ended_badly.map(str::to_owned))
    }

    #[test]
    fn reader_counts_and_names_libtest_s_lines() {
        let tally = read(
            "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\n\
             test a::three ... ignored, needs root\n\ntest result: FAILED. 1 passed; 1 failed; \
             1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n",
            Some("exit status: 101"),
        );
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.passes, [TestName::new("bin", "a::one")]);
        assert!(tally.times.is_empty());
        assert_eq!(tally.failures_in_words(), ["bin::a::two"]);
        assert_eq!(tally.skips, [Skip::new("bin::a::three", "needs root")]);
    }

    #[test]
    fn reader_counts_a_crash_beside_failed_tests() {
        let text = "test a ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        for how in ["signal: 11", "hung: in 361 s it printed no line", "exit status: 1"] {
            let failures = read(text, Some(how)).failures_in_words();
            assert_eq!(failures, ["bin::a".to_owned(), format!("bin: {how}")]);
        }
    }

    #[test]
    fn reader_takes_a_skip_in_the_middle_of_mimic_s_line_once() {
        let tally = read(
            "test fq_paces   ... skipped: fq_paces: needs sch_fq: no such qdisc\nignored\n\
             test other ... ignored (needs root)\n\
             test result: ok. 0 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n",
            None,
        );
        assert!(tally.failures.is_empty());
        assert_eq!(
            tally.skips,
            [
                Skip::new("bin::fq_paces", "needs sch_fq: no such qdisc"),
                Skip::new("bin::other", "needs root")
            ]
        );
    }

    #[test]
    fn reader_names_a_failed_test_that_printed_in_the_middle() {
        let tally = read(
            "test a   ... some words\nFAILED\nfailures:\n\n---- a ----\npanicked\n\nfailures:\n    \
             a\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
            Some("exit status: 101"),
        );
        assert_eq!(tally.failures_in_words(), ["bin::a"]);
    }

    #[test]
    fn reader_names_a_failed_test_of_a_binary_that_was_ended() {
        let tally = read(
            "test a   ... began a\ntook a: 1.0 s\nFAILED\ntest b   ... began b\n",
            Some("killed"),
        );
        assert_eq!(tally.failures_in_words(), ["bin::a", "bin: killed, still running: b"]);
    }

    #[test]
    fn reader_takes_the_times_that_tests_print() {
        let at_once = "began a\nbegan b\ntook b: 0.500 s\ntest b ... ok\ntook a: 2.000 s\n\
                       test a ... ok\n";
        let one_by_one = "test b ... began b\ntook b: 0.500 s\nok\ntest a ... words\nbegan a\n\
                          took a: 2.000 s\nok\n";
        for words in [at_once, one_by_one] {
            let tally = read(&format!("{words}test result: ok. 2 passed; 0 failed\n"), None);
            let named = |name| TestName::new("bin", name);
            let times = [("b", 500), ("a", 2_000)];
            assert_eq!(
                tally.times,
                times.map(|(name, ms)| (named(name), Duration::from_millis(ms)))
            );
            assert_eq!(tally.passes, [named("a"), named("b")]);
        }
    }

    #[test]
    fn reader_does_not_lose_an_ignored_test_without_a_name() {
        let tally = read("test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured\n", None);
        assert_eq!(tally.skips.len(), 1);
        assert!(tally.skips[0].reason.is_empty());
    }

    #[test]
    fn reader_counts_a_crash_as_a_failure() {
        let slow = " has been running for over 60 seconds\ntest ";
        let hung = format!("test slow{slow}b{slow}slow ... ok\n");
        for (text, ended_badly, failure) in [
            ("running 2 tests\ntest a ... ok\n", Some("signal: 6"), "signal: 6"),
            (&hung, Some("signal: 15"), "signal: 15, still running: b"),
            (
                "test a  ... some words\nok\ntest b  ... ok\ntest c  ...",
                Some("killed"),
                "killed, still running: c",
            ),
            (
                "test a  ... skipped: a: no fq\nignored\ntest b ... words",
                Some("killed"),
                "killed, still running: b",
            ),
            ("began a\nbegan b\ntook a: 0.1 s\n", Some("124"), "124, still running: b"),
            ("", None, "ended without a result"),
            ("test result: ok. 1 passed; 0 failed; 0 ignored\n", Some("signal: 11"), "signal: 11"),
        ] {
            assert_eq!(read(text, ended_badly).failures_in_words(), [format!("bin: {failure}")]);
        }
    }
}
