//! Repeats tests that failed under emulation. A busy machine stops an emulated processor for tens
//! of milliseconds, which makes some tests that measure time fail. Such a test passes when it is
//! repeated alone; a test that found a fault fails again.

use test_report::{Failure, Tally, TestName};

/// The most tests to repeat. If more tests fail, the cause is not the emulation.
const TESTS_MAX: usize = 3;

/// The tests to repeat. None beside a crash or a hang: the run fails anyway.
pub fn candidates(first: &Tally) -> Vec<TestName> {
    let name = |failure: &Failure| match failure {
        Failure::Test(test) => Some(test.clone()),
        Failure::Other(_) => None,
    };
    let names: Option<Vec<TestName>> = first.failures.iter().map(name).collect();
    names.filter(|names| names.len() <= TESTS_MAX).unwrap_or_default()
}

/// The tally of both attempts; `second` has a tally for each of `repeated`.
pub fn combined(mut first: Tally, repeated: &[TestName], second: &[Tally]) -> Tally {
    for (test, alone) in repeated.iter().zip(second) {
        if has_passed(alone) {
            first.failures.retain(|failure| *failure != Failure::Test(test.clone()));
            first.passed += 1;
            first.passed_alone.push(test.clone());
        }
    }
    first
}

/// Whether one test ran and passed, without a skip or a crash.
fn has_passed(alone: &Tally) -> bool {
    alone.passed == 1 && alone.failures.is_empty() && alone.skips.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_report::Skip;

    fn failed(names: &[&str]) -> Vec<Failure> {
        names.iter().map(|name| Failure::Test(TestName::new("netns", name))).collect()
    }

    fn first(failures: Vec<Failure>) -> Tally {
        Tally { passed: 40, failures, ..Tally::default() }
    }

    fn both(names: &[&str], second: &[Tally]) -> Tally {
        let tally = first(failed(names));
        let repeated = candidates(&tally);
        combined(tally, &repeated, second)
    }

    fn passed() -> Tally {
        Tally { passed: 1, ..Tally::default() }
    }

    #[test]
    fn candidates_are_a_few_named_tests() {
        assert!(candidates(&first(Vec::new())).is_empty());
        let three = candidates(&first(failed(&["a", "b", "c"])));
        assert_eq!(three, ["a", "b", "c"].map(|name| TestName::new("netns", name)));
        assert!(candidates(&first(failed(&["a", "b", "c", "d"]))).is_empty());
    }

    #[test]
    fn candidates_are_none_beside_a_crash() {
        for other in ["netns: exit status 139", "netns: a test that it doesn't name"] {
            let mut failures = failed(&["a"]);
            failures.push(Failure::Other(other.to_owned()));
            assert!(candidates(&first(failures)).is_empty(), "{other}");
        }
    }

    #[test]
    fn combined_counts_each_test_once() {
        let again = Tally { failures: failed(&["b"]), ..Tally::default() };
        let tally = both(&["a", "b"], &[passed(), again]);
        assert_eq!((tally.passed, tally.failures), (41, failed(&["b"])));
        assert_eq!(tally.passed_alone, [TestName::new("netns", "a")]);
    }

    #[test]
    fn combined_takes_nothing_but_a_pass_for_one() {
        let skip = Skip::new("netns::a", "needs luck");
        let crash = Failure::Other("netns: exit status 139".into());
        for alone in [
            Tally::default(),
            Tally { skips: vec![skip], ..Tally::default() },
            Tally { failures: failed(&["a"]), ..Tally::default() },
            Tally { failures: vec![crash], ..passed() },
        ] {
            let tally = both(&["a"], &[alone]);
            assert_eq!((tally.passed, tally.failures), (40, failed(&["a"])));
            assert!(tally.passed_alone.is_empty());
        }
    }
}
