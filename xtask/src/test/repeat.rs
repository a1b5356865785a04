//! Repeats kernel tests that failed, once and alone, on the same kernel. A busy machine stops a
//! processor for tens of milliseconds, an emulated one for longer, which makes some tests that
//! measure time fail. Such a test passes when it is repeated alone; a test that found a fault fails
//! again. A test that passes only then is listed as unstable, and must be mended: one in a run is
//! let pass, more fail the run (`conclusion`).

use anyhow::Result;

use test_report::{Failure, Tally, TestName};

/// The most tests to repeat. If more tests fail, the cause isn't the machine.
const TESTS_MAX: usize = 3;

/// The tally of a rung after its few failed tests were repeated. `run_alone` returns a tally for
/// each of these tests.
pub fn once_alone(
    first: Tally,
    run_alone: impl FnOnce(&[TestName]) -> Result<Vec<Tally>>,
) -> Tally {
    let repeated = candidates(&first);
    if repeated.is_empty() {
        return first;
    }
    let words: Vec<String> = repeated.iter().map(TestName::to_string).collect();
    atp_output::note!("  repeating each failed test alone: {}", words.join(", "));
    match run_alone(&repeated) {
        Ok(second) => combined(first, &repeated, second),
        Err(error) => {
            atp_output::note!("  failed tests were not repeated: {error:#}");
            first
        }
    }
}

/// The tests to repeat. None beside a crash or a hang: the run fails anyway.
fn candidates(first: &Tally) -> Vec<TestName> {
    let name = |failure: &Failure| match failure {
        Failure::Test(test) => Some(test.clone()),
        Failure::Other(_) => None,
    };
    let names: Option<Vec<TestName>> = first.failures.iter().map(name).collect();
    names.filter(|names| names.len() <= TESTS_MAX).unwrap_or_default()
}

/// The tally of both attempts; `second` has a tally for each of `repeated`.
fn combined(mut first: Tally, repeated: &[TestName], second: Vec<Tally>) -> Tally {
    for (test, alone) in repeated.iter().zip(second) {
        if has_passed(&alone) {
            first.failures.retain(|failure| *failure != Failure::Test(test.clone()));
            first.passed += 1;
            first.passes.push(test.clone());
            first.unstable.push(format!("{test}: passed only when repeated alone"));
        }
        first.times.extend(alone.times);
        first.binaries.extend(alone.binaries);
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

    fn both(names: &[&str], second: Vec<Tally>) -> Tally {
        once_alone(first(failed(names)), |repeated| {
            assert_eq!(repeated.len(), names.len());
            Ok(second)
        })
    }

    fn passed() -> Tally {
        Tally { passed: 1, ..Tally::default() }
    }

    #[test]
    fn candidates__are_a_few_named_tests() {
        assert!(candidates(&first(Vec::new())).is_empty());
        let three = candidates(&first(failed(&["a", "b", "c"])));
        assert_eq!(three, ["a", "b", "c"].map(|name| TestName::new("netns", name)));
        assert!(candidates(&first(failed(&["a", "b", "c", "d"]))).is_empty());
    }

    #[test]
    fn candidates__are_none_beside_a_crash() {
        for other in ["netns: exit status 139", "netns: a test that it doesn't name"] {
            let mut failures = failed(&["a"]);
            failures.push(Failure::Other(other.to_owned()));
            assert!(candidates(&first(failures)).is_empty(), "{other}");
        }
    }

    #[test]
    fn once_alone__counts_each_test_once() {
        let again = Tally { failures: failed(&["b"]), ..Tally::default() };
        let tally = both(&["a", "b"], vec![passed(), again]);
        assert_eq!((tally.passed, tally.failures), (41, failed(&["b"])));
        assert_eq!(tally.unstable, ["netns::a: passed only when repeated alone"]);
    }

    #[test]
    fn once_alone__keeps_the_failures_if_nothing_can_be_repeated() {
        let tally = once_alone(first(failed(&["a"])), |_| anyhow::bail!("no guest"));
        assert_eq!((tally.passed, tally.failures), (40, failed(&["a"])));
        once_alone(first(Vec::new()), |_| unreachable!("nothing failed"));
    }

    #[test]
    fn once_alone__takes_nothing_but_a_pass_for_one() {
        let skip = Skip::new("netns::a", "needs luck");
        let crash = Failure::Other("netns: exit status 139".into());
        for alone in [
            Tally::default(),
            Tally { skips: vec![skip], ..Tally::default() },
            Tally { failures: failed(&["a"]), ..Tally::default() },
            Tally { failures: vec![crash], ..passed() },
        ] {
            let tally = both(&["a"], vec![alone]);
            assert_eq!((tally.passed, tally.failures), (40, failed(&["a"])));
            assert!(tally.unstable.is_empty());
        }
    }
}
