//! Results of tests: how many passed, which failed, which were skipped and why.

use std::fmt;
use std::time::Duration;

/// The results of one or more test binaries.
#[derive(Debug, Default)]
pub struct Tally {
    pub passed: usize,
    pub failures: Vec<Failure>,
    pub skips: Vec<Skip>,
    /// The tests among `passed` that the binaries named.
    pub passes: Vec<TestName>,
    /// What went wrong before it was repeated, in words that begin with its name.
    pub unstable: Vec<String>,
    /// The tests during which a guest died by a fault of its emulator. They ran again.
    pub deaths: Vec<String>,
    /// How long tests took, as they printed it.
    pub times: Vec<(TestName, Duration)>,
    /// How long each binary took.
    pub binaries: Vec<(String, Duration)>,
}

/// A failure. Its text begins with the binary's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A test that reported it.
    Test(TestName),
    /// A failure of no single test: a binary crashed or hung, or a guest never ran it.
    Other(String),
}

/// A test and its binary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestName {
    pub binary: String,
    pub name: String,
}

/// A test that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub name: String,
    pub reason: String,
    /// The whole rung can't run here, so the reason isn't the test's own.
    pub whole_rung: bool,
}

impl Skip {
    /// A test's own skip.
    pub fn new(name: &str, reason: &str) -> Skip {
        Skip { name: name.to_owned(), reason: reason.to_owned(), whole_rung: false }
    }
}

impl TestName {
    pub fn new(binary: &str, name: &str) -> TestName {
        TestName { binary: binary.to_owned(), name: name.to_owned() }
    }
}

impl Tally {
    /// Adds the results of other binaries.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.passes.extend(other.passes);
        self.unstable.extend(other.unstable);
        self.deaths.extend(other.deaths);
        self.times.extend(other.times);
        self.binaries.extend(other.binaries);
    }

    pub fn is_empty(&self) -> bool {
        self.passed == 0 && self.failures.is_empty() && self.skips.is_empty()
    }

    /// `57 passed, 1 failed, 2 skipped`, without the zeros.
    pub fn summary(&self) -> String {
        let mut words = vec![format!("{} passed", self.passed)];
        for (count, what) in [(self.failures.len(), "failed"), (self.skips.len(), "skipped")] {
            if count > 0 {
                words.push(format!("{count} {what}"));
            }
        }
        words.join(", ")
    }

    /// Each failure as a clause that begins with the binary's name.
    pub fn failures_in_words(&self) -> Vec<String> {
        self.failures.iter().map(Failure::to_string).collect()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Test(test) => test.fmt(f),
            Failure::Other(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.binary, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_leaves_out_what_is_zero() {
        let mut tally = Tally { passed: 3, ..Tally::default() };
        assert_eq!(tally.summary(), "3 passed");
        tally.add(Tally { failures: vec![Failure::Other("a: hung".into())], ..Tally::default() });
        assert_eq!(tally.summary(), "3 passed, 1 failed");
    }
}
