//! Reads the output of `cargo test`.

use crate::{Failure, Reader, TESTS_FAILED, Tally};

/// The binaries that `cargo test` runs one after the other. A line `Running` or `Doc-tests` begins
/// the next one.
#[derive(Debug, Default)]
pub struct CargoReader {
    current: Option<Reader>,
    total: Tally,
}

impl CargoReader {
    /// Returns the counts of the binary that the line ends, in words, unless it has no test.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if let Some(name) = section(line) {
            let ended = self.close();
            self.current = Some(Reader::new(&name, None));
            return ended;
        }
        self.current.iter_mut().for_each(|reader| reader.line(line));
        None
    }

    fn close(&mut self) -> Option<String> {
        let reader = self.current.take()?;
        let name = reader.binary().to_owned();
        let tally = reader.finish(None);
        let words = (!tally.is_empty()).then(|| format!("{name}: {}", tally.summary()));
        self.total.add(tally);
        words
    }

    /// The tally of all binaries; `ended_badly` describes a bad end of `cargo test`.
    pub fn finish(mut self, ended_badly: Option<String>) -> Tally {
        self.close();
        let how = ended_badly.filter(|how| how != TESTS_FAILED || self.total.failures.is_empty());
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

    fn read(lines: &[&str], ended_badly: &str) -> (Vec<String>, Tally) {
        let mut reader = CargoReader::default();
        let words = lines.iter().filter_map(|line| reader.line(line)).collect();
        (words, reader.finish(Some(ended_badly.to_owned())))
    }

    #[test]
    fn cargo_reader_adds_up_binary_by_binary() {
        let lines = [
            "   Compiling atp-common v0.1.0",
            "     Running unittests src/lib.rs (target/debug/deps/atp_common-3f1c2d)",
            "test a ... ok",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
            "   Doc-tests atp_common",
            "test src/lib.rs - x (line 3) ... FAILED",
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        let (words, tally) = read(&lines, TESTS_FAILED);
        assert_eq!(words, ["atp_common: 1 passed"]);
        assert_eq!(tally.passed, 1);
        assert_eq!(tally.failures_in_words(), ["atp_common (doc)::src/lib.rs - x (line 3)"]);
    }

    #[test]
    fn cargo_reader_says_that_a_test_hung() {
        let lines = ["Running tests/a.rs (target/debug/deps/a-3f1c2d)", "began b"];
        let (_, tally) = read(&lines, "hung: no line");
        let result = "a: ended without a result, still running: b";
        assert_eq!(tally.failures_in_words(), [result, "cargo test: hung: no line"]);
    }

    #[test]
    fn cargo_reader_counts_a_failed_build() {
        let (_, tally) = read(&["error[E0308]: mismatched types"], TESTS_FAILED);
        assert_eq!(tally.failures_in_words(), ["cargo test: exit status: 101"]);
    }
}
