//! `cargo xtask test --stress N --filter TEXT`: repeats tests beside two busy loops, and lists how
//! often each passed. A test that depends on luck shows it here before it fails a submission.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Built, Choice, Run, Rung, conclusion};
use crate::setup;
use test_report::Skip;
use test_report::group::{BUSY_LOOP, Group};

/// As many as the processors of CI's machines.
const BUSY_LOOPS: usize = 2;

/// Runs the chosen tests so many times. Whether all passed.
pub fn run(choice: &Choice, rounds: u32) -> Result<bool> {
    let mut run = Run::default();
    let built = Built::new(choice, &mut run)?;
    // They end when this function does, also after Ctrl-C.
    let _load = (0..BUSY_LOOPS).map(|_| busy_loop()).collect::<Result<Vec<_>>>()?;
    for round in 1..=rounds {
        atp_output::note!("round {round} of {rounds}, beside {BUSY_LOOPS} busy loops");
        built.run(&Choice { round: Some(round), ..*choice }, &mut run)?;
    }
    run.times.report(&run.rungs, &setup::paths().test_logs.join("times.txt"));
    let list = List::of(&run.rungs);
    atp_output::note!("\n{}", list.lines().join("\n"));
    Ok(list.is_good())
}

fn busy_loop() -> Result<Group> {
    let mut shell = Command::new("sh");
    shell.args(["-c", BUSY_LOOP, "sh"]).arg(std::process::id().to_string());
    Group::start(&mut shell).context("a busy loop")
}

#[derive(Default)]
struct Row {
    passes: usize,
    failures: usize,
    skips: usize,
    /// Why it need not have been skipped.
    objection: Option<String>,
}

/// The outcomes of each test in all rounds.
struct List(BTreeMap<String, Row>);

impl List {
    fn of(rungs: &[Rung]) -> List {
        let mut rows = BTreeMap::<String, Row>::new();
        for Rung { place, tally } in rungs {
            let mut row = |name: &dyn Display, count: &dyn Fn(&mut Row)| {
                let name = format!("{name} ({})", place.describe());
                count(rows.entry(name).or_default());
            };
            tally.passes.iter().for_each(|test| row(test, &|row| row.passes += 1));
            tally.failures.iter().for_each(|failure| row(failure, &|row| row.failures += 1));
            for Skip { name, reason, whole_rung } in &tally.skips {
                row(name, &|row| {
                    // Looking for a capability may run programs: once is enough.
                    if row.skips == 0 && !whole_rung {
                        row.objection = place.excuses(reason).err();
                    }
                    row.skips += 1;
                });
            }
        }
        List(rows)
    }

    /// Some test ran, and none failed or was skipped without need.
    fn is_good(&self) -> bool {
        let (passes, failures, _) = self.sums();
        passes > 0 && failures == 0 && self.0.values().all(|row| row.objection.is_none())
    }

    fn sums(&self) -> (usize, usize, usize) {
        let sum = |count: fn(&Row) -> usize| self.0.values().map(count).sum();
        (sum(|row| row.passes), sum(|row| row.failures), sum(|row| row.skips))
    }

    /// A line for each test. Tests that failed come first.
    fn lines(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.failures));
        let mut lines = vec!["  passes  failures  test".to_owned()];
        lines.extend(rows.into_iter().map(|(name, Row { passes, failures, skips, objection })| {
            let mut line = format!("{passes:8}  {failures:8}  {name}");
            if *skips > 0 {
                line += &format!("  skipped {skips} times");
            }
            objection.iter().for_each(|why| line += &format!(" without need: {why}"));
            line
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
    use test_report::{Failure, Tally, TestName};

    fn round(passes: &[&str], failed: &[&str]) -> Rung {
        let named = |name: &&str| TestName::new("netns", name);
        let tally = Tally {
            passed: passes.len(),
            passes: passes.iter().map(named).collect(),
            failures: failed.iter().map(|name| Failure::Test(named(name))).collect(),
            skips: vec![Skip::new("netns::d", "needs ebpf_object")],
            ..Tally::default()
        };
        Rung::here(tally)
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
    fn list__of_a_skip_without_need_is_bad() {
        let mut round = round(&["a"], &[]);
        round.tally.skips[0].reason = "because".to_owned();
        let list = List::of(&[round]);
        assert!(!list.is_good());
        let row = "(this machine)  skipped 1 times without need: its reason \"because\" names";
        assert!(list.lines().iter().any(|line| line.contains(row)), "{:?}", list.lines());
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
