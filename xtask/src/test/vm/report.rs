//! Reads the output of a guest's script (`script`). `== NAME` precedes the output of each binary,
//! and `== NAME ended STATUS` follows it.

use std::time::Instant;

use crate::test::host::show_progress;
use crate::test::kernel::Start;

use test_report::{Failure, Reader, Tally};

/// The status of a test binary that ran to its end with failed tests.
const TESTS_FAILED: &str = "101";
/// The status of `timeout` after it ended the binary.
const OUT_OF_TIME: &str = "124";

pub struct Report<'a> {
    starts: &'a [Start<'a>],
    current: Option<(Reader, Instant)>,
    /// The tallies of the binaries that have ended, in the order of `starts`.
    tallies: Vec<Tally>,
}

impl<'a> Report<'a> {
    pub fn new(starts: &'a [Start<'a>]) -> Report<'a> {
        Report { starts, current: None, tallies: Vec::new() }
    }

    /// Whether a binary has begun and not ended.
    pub fn is_in_the_middle(&self) -> bool {
        self.current.is_some()
    }

    pub fn line(&mut self, line: &str) {
        let Some(mark) = line.strip_prefix("== ") else {
            if let Some((reader, _)) = &mut self.current {
                show_progress(line);
                reader.line(line);
            }
            return;
        };
        match mark.split_once(" ended ") {
            Some((_, "0")) => self.close(None),
            Some((_, TESTS_FAILED)) => self.close(Some(format!("exit status {TESTS_FAILED}"))),
            Some((_, OUT_OF_TIME)) => self.close_crashed("not finished in time"),
            Some((_, status)) => self.close_crashed(&format!("exit status {status}")),
            None => {
                let filter = self.starts.get(self.tallies.len()).and_then(|start| start.filter);
                self.current = Some((Reader::new(mark, filter), Instant::now()));
            }
        }
    }

    fn close(&mut self, ended_badly: Option<String>) {
        let Some((reader, started)) = self.current.take() else { return };
        let name = reader.binary().to_owned();
        let tally = reader.finish(ended_badly);
        atp_output::note!("  {name}: {} in {:.0?}", tally.summary(), started.elapsed());
        self.tallies.push(tally);
    }

    /// Ends the current binary. A crash counts as a failure beside the tests that failed before it.
    fn close_crashed(&mut self, how: &str) {
        let Some((reader, _)) = &self.current else { return };
        let crash = Failure::Other(format!("{}: {how}", reader.binary()));
        self.close(Some(how.to_owned()));
        if let Some(tally) = self.tallies.last_mut()
            && tally.failures.iter().all(|failure| matches!(failure, Failure::Test(_)))
        {
            tally.failures.push(crash);
        }
    }

    /// One tally for each start. A binary that never reported is a failure: the guest died or hung
    /// before.
    pub fn finish(mut self, ended_badly: Option<String>) -> Vec<Tally> {
        let how = ended_badly.unwrap_or_else(|| "the guest ended during the tests".to_owned());
        self.close_crashed(&how);
        for start in self.starts.iter().skip(self.tallies.len()) {
            let what = format!("{}: never ran in the guest: {how}", start.binary.name);
            let failures = vec![Failure::Other(what)];
            self.tallies.push(Tally { failures, ..Tally::default() });
        }
        self.tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::vm::script::every_binary;
    use crate::test::vm::tests::two_binaries;

    const ONE_FAILED: &str =
        "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured";

    fn read(words: &str, ended_badly: Option<&str>) -> Vec<Tally> {
        let tests = two_binaries();
        let starts = every_binary(&tests, None);
        let mut report = Report::new(&starts);
        words.lines().for_each(|line| report.line(line));
        report.finish(ended_badly.map(str::to_owned))
    }

    #[test]
    fn report_blames_a_guest_that_ends_in_the_middle() {
        let tallies = read(
            "== prog_run\ntest result: ok. 4 passed; 0 failed; 0 ignored; 0 measured\n\
             == prog_run ended 0\n== netns\ntest a ... ok\n",
            None,
        );
        assert_eq!((tallies[0].passed, &tallies[0].failures), (4, &vec![]));
        assert_eq!(tallies[1].failures_in_words(), ["netns: the guest ended during the tests"]);
    }

    #[test]
    fn report_blames_a_guest_that_never_started() {
        let tallies = read("", Some("not finished after 9 s"));
        let words: Vec<_> = tallies.iter().map(Tally::failures_in_words).collect();
        assert_eq!(
            words,
            [
                ["prog_run: never ran in the guest: not finished after 9 s"],
                ["netns: never ran in the guest: not finished after 9 s"]
            ]
        );
    }

    #[test]
    fn report_tells_failed_tests_from_a_crash_after_them() {
        let tallies = read(
            &format!(
                "== prog_run\n{ONE_FAILED}\n== prog_run ended 101\n\
                 == netns\n{ONE_FAILED}\n== netns ended 139\n"
            ),
            None,
        );
        assert_eq!(tallies[0].failures_in_words(), ["prog_run::a"]);
        assert_eq!(tallies[1].failures_in_words(), ["netns::a", "netns: exit status 139"]);
    }
}
