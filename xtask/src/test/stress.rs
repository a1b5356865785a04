//! `cargo xtask test --stress N --filter TEXT`: repeats tests beside two busy loops, and lists how
//! often each passed. A test that depends on luck shows it here before it fails a submission.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};

use super::group::{BUSY_LOOP, Group};
use super::times::Times;
use super::{Choice, Rung, conclusion, host, kernel, python, unit};

/// As many as the processors of CI's machines.
const BUSY_LOOPS: usize = 2;

/// Runs the chosen tests so many times. Whether all passed.
pub fn run(choice: &Choice, rounds: u32) -> Result<bool> {
    let mut times = Times::default();
    if let Some(failed) = unit::build(&mut times)? {
        return Ok(conclude(&[failed]));
    }
    let wheels = python::build(choice.torch, &mut times)?;
    let tests = kernel::build()?;
    // They end when this function does, also after Ctrl-C.
    let _load = (0..BUSY_LOOPS).map(|_| busy_loop()).collect::<Result<Vec<_>>>()?;
    // The filter selects the same tests in each round.
    let mut selects_none = [false; 3];
    let mut all = Vec::new();
    for round in 1..=rounds {
        atp_output::note!("round {round} of {rounds}, beside {BUSY_LOOPS} busy loops");
        for (rung, selects_none) in selects_none.iter_mut().enumerate() {
            if *selects_none {
                continue;
            }
            let ran = match rung {
                0 => vec![unit::run(choice, &mut times)?],
                1 => python::run(&wheels, choice, &mut times)?,
                _ => host::run(&tests, choice, &mut times)?,
            };
            *selects_none = ran.iter().all(|rung| rung.tally.is_empty());
            all.extend(ran);
        }
    }
    Ok(conclude(&all))
}

fn busy_loop() -> Result<Group> {
    let mut shell = Command::new("sh");
    shell.args(["-c", BUSY_LOOP, "sh"]).arg(std::process::id().to_string());
    Group::start(&mut shell).context("a busy loop")
}

/// Prints the list, and the counts of all rounds in the last line.
fn conclude(rungs: &[Rung]) -> bool {
    let list = List::of(rungs);
    atp_output::note!("\n{}", list.lines().join("\n"));
    list.is_good()
}

#[derive(Default)]
struct Row {
    passes: usize,
    failures: usize,
    skips: usize,
}

/// The outcomes of each test in all rounds.
struct List(BTreeMap<String, Row>);

impl List {
    fn of(rungs: &[Rung]) -> List {
        let mut rows = BTreeMap::<String, Row>::new();
        for Rung { place, tally } in rungs {
            let mut row = |name: &dyn std::fmt::Display, count: fn(&mut Row) -> &mut usize| {
                let name = format!("{name} ({})", place.describe());
                *count(rows.entry(name).or_default()) += 1;
            };
            tally.passes.iter().for_each(|test| row(test, |row| &mut row.passes));
            tally.failures.iter().for_each(|failure| row(failure, |row| &mut row.failures));
            tally.skips.iter().for_each(|skip| row(&skip.name, |row| &mut row.skips));
        }
        List(rows)
    }

    /// Some test ran, and none failed.
    fn is_good(&self) -> bool {
        let (passes, failures, _) = self.sums();
        passes > 0 && failures == 0
    }

    fn sums(&self) -> (usize, usize, usize) {
        let sum = |count: fn(&Row) -> usize| self.0.values().map(count).sum();
        (sum(|row| row.passes), sum(|row| row.failures), sum(|row| row.skips))
    }

    /// Those that failed come first.
    fn lines(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.failures));
        let mut lines = vec!["  passes  failures  test".to_owned()];
        lines.extend(rows.into_iter().map(|(name, Row { passes, failures, skips })| {
            let skipped =
                if *skips > 0 { format!("  skipped {skips} times") } else { String::new() };
            format!("{passes:8}  {failures:8}  {name}{skipped}")
        }));
        let (passes, failures, skips) = self.sums();
        if passes + failures + skips == 0 {
            lines.push("no test ran: does a test's name contain the text of --filter?".to_owned());
        }
        lines.push(conclusion::counts(passes, failures, skips));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::capability::Place;
    use test_report::{Failure, Skip, Tally, TestName};

    fn round(passes: &[&str], failed: &[&str]) -> Rung {
        let named = |name: &&str| TestName::new("netns", name);
        let tally = Tally {
            passed: passes.len(),
            passes: passes.iter().map(named).collect(),
            failures: failed.iter().map(|name| Failure::Test(named(name))).collect(),
            skips: vec![Skip::new("netns::d", "needs root")],
            ..Tally::default()
        };
        Rung { place: Place::host(), tally }
    }

    #[test]
    fn list__has_a_row_for_each_test_and_failures_first() {
        let list = List::of(&[round(&["a", "b"], &[]), round(&["a"], &["b"])]);
        assert!(!list.is_good());
        assert_eq!(
            list.lines(),
            [
                "  passes  failures  test",
                "       1         1  netns::b (this machine)",
                "       2         0  netns::a (this machine)",
                "       0         0  netns::d (this machine)  skipped 2 times",
                "3 passed, 1 failed, 2 skipped",
            ]
        );
    }

    #[test]
    fn list__of_no_test_is_bad() {
        assert!(!List::of(&[]).is_good());
        assert!(List::of(&[round(&["a"], &[])]).is_good());
    }

    #[test]
    fn busy_loop__ends_when_it_is_dropped() {
        let mut busy = busy_loop().unwrap();
        let folder = std::path::Path::new("/proc").join(busy.id().to_string());
        assert!(busy.poll().unwrap().is_none() && folder.exists());
        drop(busy);
        assert!(!folder.exists());
    }
}
