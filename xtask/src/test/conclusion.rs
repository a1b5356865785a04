//! The end of a run's output: skips, failures and counts.

use std::path::Path;

use super::Rung;
use test_report::Skip;

/// The most tests of a run that may pass only when they are repeated alone. Each is a defect of a
/// test: a second one is no accident of the machine. A guest that died for a reason
/// that isn't known counts as one.
const UNSTABLE_MAX: usize = 1;

pub struct Conclusion {
    /// The last line holds the counts alone.
    pub lines: Vec<String>,
    /// No test failed or was skipped without need, and at most one was unstable.
    pub is_good: bool,
}

/// `left`: the tests that the run leaves out.
pub fn of(rungs: &[Rung], left: &str, logs: &Path) -> Conclusion {
    let (mut lines, mut unstable, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Rung { place, tally } in rungs {
        let at = place.describe();
        passed += tally.passed;
        failed += tally.failures.len();
        let failures = tally.failures_in_words();
        wrong.extend(failures.iter().map(|failure| format!("failed: {failure} ({at})")));
        for Skip { name, reason, whole_rung } in &tally.skips {
            skipped += 1;
            lines.push(format!("skipped: {name} ({at}): {reason}"));
            if !whole_rung && let Err(why) = place.excuses(reason) {
                wrong.push(format!("skipped without need: {name}: {why}"));
            }
        }
        let deaths = tally.deaths.iter();
        lines.extend(deaths.map(|test| format!("the emulator ended its guest in {test} ({at})")));
        unstable.extend(tally.unstable.iter().map(|what| format!("unstable: {what} ({at})")));
    }
    if unstable.len() > UNSTABLE_MAX {
        let count = unstable.len();
        wrong.push(format!("{count} results are unstable, and {UNSTABLE_MAX} may be: mend them"));
    }
    lines.extend(unstable);
    if passed + failed + skipped == 0 {
        wrong.push("no test ran: does a test's name contain the text of --filter?".to_owned());
    }
    lines.push(left.to_owned());
    let is_good = wrong.is_empty();
    lines.extend(wrong);
    lines.push(format!("full logs and times in {}", logs.display()));
    lines.push(counts(passed, failed, skipped));
    Conclusion { lines, is_good }
}

/// The last line of the output.
pub fn counts(passed: usize, failed: usize, skipped: usize) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::test::capability::Place;
    use test_report::{Failure, Tally, TestName};

    const LEFT: &str = "left to --full: the soak test";

    fn rungs(failures: Vec<Failure>, unstable: &[&str]) -> Vec<Rung> {
        let release = "6.12".to_owned();
        let guest = Place::Guest { release, modules: PathBuf::new(), emulated: true };
        let skips = vec![Skip::new("netns::c", "needs kernel_6.13")];
        let unstable = unstable.iter().map(|name| format!("netns::{name}: failed once")).collect();
        let in_guest = Tally { passed: 2, failures, skips, unstable, ..Tally::default() };
        let here = Tally { passed: 3, ..Tally::default() };
        vec![Rung::here(here), Rung { place: guest, tally: in_guest }]
    }

    #[test]
    fn of__one_unstable_test_is_listed_and_counts_as_passed() {
        let said = of(&rungs(Vec::new(), &["a"]), LEFT, Path::new("logs"));
        assert!(said.is_good);
        assert_eq!(
            said.lines,
            [
                "skipped: netns::c (guest, Linux 6.12, fq, emulated): needs kernel_6.13",
                "unstable: netns::a: failed once (guest, Linux 6.12, fq, emulated)",
                LEFT,
                "full logs and times in logs",
                "5 passed, 0 failed, 1 skipped",
            ]
        );
    }

    #[test]
    fn of__a_second_unstable_test_fails_the_run() {
        let mut rungs = rungs(Vec::new(), &["a"]);
        rungs[0].tally.unstable = vec!["netns::b: failed once".to_owned()];
        let said = of(&rungs, LEFT, Path::new("logs"));
        assert!(!said.is_good);
        let why = "2 results are unstable, and 1 may be: mend them".to_owned();
        assert!(said.lines.contains(&why), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "5 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn of__lists_deaths_of_the_emulator() {
        let mut rungs = rungs(Vec::new(), &["a"]);
        rungs[1].tally.deaths = vec!["netns::a".to_owned()];
        let said = of(&rungs, LEFT, Path::new("logs"));
        let line = "the emulator ended its guest in netns::a (guest, Linux 6.12, fq, emulated)";
        assert!(said.is_good && said.lines.contains(&line.to_owned()), "{:?}", said.lines);
    }

    #[test]
    fn of__says_what_it_leaves_out() {
        let rungs = [Rung::here(Tally { passed: 3, ..Tally::default() })];
        let said = of(&rungs, LEFT, Path::new("logs"));
        assert!(said.is_good && said.lines[0] == LEFT, "{:?}", said.lines);
    }

    #[test]
    fn of__is_bad_with_one_failure() {
        let failures = vec![Failure::Test(TestName::new("netns", "b"))];
        let said = of(&rungs(failures, &[]), LEFT, Path::new("logs"));
        assert!(!said.is_good);
        let failed = "failed: netns::b (guest, Linux 6.12, fq, emulated)".to_owned();
        assert!(said.lines.contains(&failed), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "5 passed, 1 failed, 1 skipped");
    }
}
