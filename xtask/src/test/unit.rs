//! The first rung: `cargo test` of the default members. It needs stable Rust only.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::capability::Place;
use super::times::Times;
use super::{Choice, Rung};
use super::{kernel, stage};
use crate::{build, setup};
use test_report::{Failure, Reader, Tally};

/// A compilation from nothing takes six minutes on two idle cores, and others may use them.
const BUILD_LIMIT: Duration = Duration::from_secs(45 * 60);
const LIMIT: Duration = Duration::from_secs(25 * 60);
/// A program that prints much without a result shows one of its lines this often.
const SHOW_INTERVAL: Duration = Duration::from_secs(20);

/// Builds the tests, or returns the failure to do so.
pub fn build(times: &mut Times) -> Result<Option<Rung>> {
    atp_output::note!("building the unit, property and differential tests");
    for need in setup::TEST_UNIT.iter().filter(|need| setup::obtainable(&[**need]).is_ok()) {
        setup::ensure(&[*need]).unwrap_or_else(|error| atp_output::note!("{error:#}"));
    }
    let log = stage::log_path("unit-build")?;
    let mut progress = Progress::default();
    let build = build::cargo("test --no-run --color=never");
    let end = times.measure("build of the unit tests", || {
        stage::build(build, &log, BUILD_LIMIT, |line| progress.line(line))
    })?;
    Ok(end.trouble.map(|how| {
        let failures = vec![Failure::Other(format!("cargo test --no-run: {how}"))];
        let tally = Tally { failures, ..Tally::default() };
        kernel::show_failures([&tally], &log);
        Rung { place: Place::host(), tally }
    }))
}

/// Runs the tests, which have been built.
pub fn run(choice: &Choice, times: &mut Times) -> Result<Rung> {
    atp_output::note!("unit, property, differential and doc tests");
    let mut test = build::cargo("test --no-fail-fast --color=never");
    test.args(["--", "--color=never"]).args(choice.filter);
    let log = stage::log_path("unit")?;
    let mut sections = Sections::default();
    let end = times
        .measure("unit tests", || stage::run(test, &log, LIMIT, |line| sections.line(line)))?;
    let tally = sections.finish(end.trouble);
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}

/// Shows a line now and then, so that people see what runs.
struct Progress {
    last_shown: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { last_shown: Instant::now() }
    }
}

impl Progress {
    fn line(&mut self, line: &str) {
        if !line.is_empty() && self.last_shown.elapsed() > SHOW_INTERVAL {
            self.show(&format!("... {}", line.trim()));
        }
    }

    fn show(&mut self, words: &str) {
        atp_output::note!("  {words}");
        self.last_shown = Instant::now();
    }
}

/// The binaries that `cargo test` runs one after the other. A line `Running` or `Doc-tests` begins
/// the next one.
#[derive(Default)]
struct Sections {
    current: Option<Reader>,
    total: Tally,
    progress: Progress,
}

impl Sections {
    fn line(&mut self, line: &str) {
        if let Some(name) = section(line) {
            self.close();
            self.current = Some(Reader::new(&name, None));
        } else if let Some(reader) = &mut self.current {
            reader.line(line);
        }
        self.progress.line(line);
    }

    fn close(&mut self) {
        let Some(reader) = self.current.take() else { return };
        let name = reader.binary().to_owned();
        let tally = reader.finish(None);
        if !tally.is_empty() {
            self.progress.show(&format!("{name}: {}", tally.summary()));
        }
        self.total.add(tally);
    }

    fn finish(mut self, ended_badly: Option<String>) -> Tally {
        self.close();
        let how = ended_badly.filter(|_| self.total.failures.is_empty());
        let failure = how.map(|how| Failure::Other(format!("cargo test: {how}")));
        self.total.failures.extend(failure);
        self.total
    }
}

/// `     Running unittests src/lib.rs (target/debug/deps/atp_common-3f1c)` -> `atp_common`
fn section(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (doc)"));
    }
    let path = line.strip_prefix("Running ")?.rsplit_once('(')?.1.trim_end_matches(')');
    let file = path.rsplit('/').next()?;
    Some(file.rsplit_once('-').map_or(file, |(name, _hash)| name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_add_up_binary_by_binary() {
        let mut sections = Sections::default();
        for line in [
            "   Compiling atp-common v0.1.0",
            "     Running unittests src/lib.rs (target/debug/deps/atp_common-3f1c2d)",
            "test a ... ok",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "   Doc-tests atp_common",
            "test src/lib.rs - x (line 3) ... FAILED",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ] {
            sections.line(line);
        }
        let tally = sections.finish(Some("exit status: 101".to_owned()));
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failures_in_words(), ["atp_common (doc)::src/lib.rs - x (line 3)"]);
    }

    #[test]
    fn sections_that_never_came_are_a_failure() {
        let mut sections = Sections::default();
        sections.line("error[E0308]: mismatched types");
        let tally = sections.finish(Some("exit status: 101".to_owned()));
        assert_eq!(tally.failures_in_words(), ["cargo test: exit status: 101"]);
    }
}
