//! Reads the output of a guest's script. `== NAME` precedes the output of each binary, and `== NAME
//! ended STATUS` follows it.

use crate::{Failure, Reader, Tally};

/// The status of `timeout` after it ended the binary.
const OUT_OF_TIME: &str = "124";

/// Reads the lines as they come.
#[derive(Debug)]
pub struct GuestReader {
    /// The name and the filter of each binary that the script starts.
    starts: Vec<(String, Option<String>)>,
    current: Option<Reader>,
    /// The tallies of the binaries that have ended, in the order of `starts`.
    tallies: Vec<Tally>,
}

impl GuestReader {
    pub fn new(starts: Vec<(String, Option<String>)>) -> GuestReader {
        GuestReader { starts, current: None, tallies: Vec::new() }
    }

    /// The number of starts whose binaries have ended.
    pub fn ended(&self) -> usize {
        self.tallies.len()
    }

    /// Returns the counts of the binary that the line ends, in words.
    pub fn line(&mut self, line: &str) -> Option<String> {
        let Some(mark) = line.strip_prefix("== ") else {
            self.current.iter_mut().for_each(|reader| reader.line(line));
            return None;
        };
        match mark.split_once(" ended ") {
            Some((_, "0")) => self.close(None),
            Some((_, OUT_OF_TIME)) => self.close(Some("not finished in time".to_owned())),
            Some((_, status)) => self.close(Some(format!("exit status: {status}"))),
            None => {
                let start = self.starts.get(self.tallies.len());
                let filter = start.and_then(|(_, filter)| filter.as_deref());
                self.current = Some(Reader::new(mark, filter));
                None
            }
        }
    }

    fn close(&mut self, ended_badly: Option<String>) -> Option<String> {
        let mut tally = self.current.take()?.finish(ended_badly);
        if tally.is_empty() {
            let binary = tally.binaries.first().map_or("", |(name, _)| name);
            // A start names one test: a name that selects none would be lost.
            tally.failures.push(Failure::Other(format!("{binary}: a start ran no test")));
        }
        self.tallies.push(tally);
        let tally = self.tallies.last()?;
        let (name, took) = tally.binaries.first()?;
        Some(format!("{name}: {} in {took:.0?}", tally.summary()))
    }

    /// One tally for each start. A binary that never reported is a failure: the guest died or hung
    /// before.
    pub fn finish(mut self, ended_badly: Option<String>) -> Vec<Tally> {
        let how = ended_badly.unwrap_or_else(|| "the guest ended during the tests".to_owned());
        self.close(Some(how.clone()));
        for (binary, _) in self.starts.iter().skip(self.tallies.len()) {
            let failures = vec![Failure::Other(format!("{binary}: never ran in the guest: {how}"))];
            self.tallies.push(Tally { failures, ..Tally::default() });
        }
        self.tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_FAILED: &str =
        "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured";

    fn read(words: &str, ended_badly: Option<&str>) -> Vec<Tally> {
        let starts = ["prog_run", "netns"].map(|name| (name.to_owned(), None));
        let mut reader = GuestReader::new(starts.to_vec());
        for line in words.lines() {
            reader.line(line);
        }
        reader.finish(ended_badly.map(str::to_owned))
    }

    #[test]
    fn guest_that_ends_in_the_middle_is_a_failure() {
        let tallies = read(
            "== prog_run\ntest result: ok. 4 passed; 0 failed; 0 ignored; 0 measured\n\
             == prog_run ended 0\n== netns\ntest a ... ok\n",
            None,
        );
        assert_eq!((tallies[0].passed, &tallies[0].failures), (4, &vec![]));
        assert_eq!(tallies[1].failures_in_words(), ["netns: the guest ended during the tests"]);
    }

    #[test]
    fn a_start_that_runs_no_test_is_a_failure() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured";
        let tallies = read(&format!("== prog_run\n{none}\n== prog_run ended 0\n"), None);
        assert_eq!(tallies[0].failures_in_words(), ["prog_run: a start ran no test"]);
    }

    #[test]
    fn guest_that_never_started_is_a_failure() {
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
    fn guest_reader_tells_failed_tests_from_a_crash_after_them() {
        let tallies = read(
            &format!(
                "== prog_run\n{ONE_FAILED}\n== prog_run ended 101\n\
                 == netns\n{ONE_FAILED}\n== netns ended 139\n"
            ),
            None,
        );
        assert_eq!(tallies[0].failures_in_words(), ["prog_run::a"]);
        assert_eq!(tallies[1].failures_in_words(), ["netns::a", "netns: exit status: 139"]);
    }
}
