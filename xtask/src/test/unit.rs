//! The first rung: `cargo test` of the default members. It needs stable Rust only.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Rung;
use super::capability::Place;
use super::{kernel, stage};
use crate::{build, setup};
use test_report::{Failure, Reader, Tally};

/// The limit includes a compilation from nothing.
const LIMIT: Duration = Duration::from_secs(25 * 60);
/// A compilation prints little: after so long without output, one of its lines is shown.
const SILENCE_MAX: Duration = Duration::from_secs(20);

pub fn run(filter: Option<&str>) -> Result<Rung> {
    atp_output::note!("unit, property, differential and doc tests");
    for need in setup::TEST_UNIT.iter().filter(|need| setup::obtainable(&[**need]).is_ok()) {
        setup::ensure(&[*need]).unwrap_or_else(|error| atp_output::note!("{error:#}"));
    }
    let mut test = build::cargo("test --no-fail-fast --color=never");
    test.args(["--", "--color=never"]).args(filter);
    let log = stage::log_path("unit")?;
    let mut sections = Sections::default();
    let end = stage::run(test, &log, LIMIT, |line| sections.line(line))?;
    let tally = sections.finish(end.trouble);
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}

/// The binaries that `cargo test` runs one after the other. A line `Running` or `Doc-tests` begins
/// the next one.
#[derive(Default)]
struct Sections {
    current: Option<Reader>,
    total: Tally,
    last_shown: Option<Instant>,
}

impl Sections {
    fn line(&mut self, line: &str) {
        if let Some(name) = section(line) {
            self.close();
            self.current = Some(Reader::new(&name, None));
        } else if let Some(reader) = &mut self.current {
            reader.line(line);
        }
        let last_shown = *self.last_shown.get_or_insert_with(Instant::now);
        if last_shown.elapsed() > SILENCE_MAX {
            self.show(&format!("... {}", line.trim()));
        }
    }

    fn show(&mut self, words: &str) {
        atp_output::note!("  {words}");
        self.last_shown = Some(Instant::now());
    }

    fn close(&mut self) {
        let Some(reader) = self.current.take() else { return };
        let name = reader.binary().to_owned();
        let tally = reader.finish(None);
        if !tally.is_empty() {
            self.show(&format!("{name}: {}", tally.summary()));
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
