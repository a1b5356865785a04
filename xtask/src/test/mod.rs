//! `cargo xtask test`: every test that this machine can carry, then the counts.
//!
//! The ladder: unit, property, differential and doc tests (`cargo test`); the kernel tests of
//! `tests/` on this machine's kernel; the same on Debian's 6.12 in a virtual machine, with the fq
//! backend. A test that can't run says which capability it needs (`capability`), and the run
//! fails when the machine has it.

mod capability;
mod host;
mod hung;
mod kernel;
mod reader;
mod stage;
mod tally;
mod unit;
mod vm;

use std::path::Path;

use anyhow::Result;

use capability::Place;
use tally::{Skip, Tally};

#[derive(clap::Args)]
pub struct Args {
    /// Leave out the virtual machine
    #[arg(long)]
    no_vm: bool,
    /// Run only tests whose names contain this
    #[arg(long)]
    filter: Option<String>,
}

/// What a rung of the ladder found, and where it ran.
struct Rung {
    place: Place,
    tally: Tally,
}

pub fn main(args: Args) -> Result<()> {
    stage::catch_interrupts()?;
    let filter = args.filter.as_deref();
    let mut rungs = vec![unit::run(filter)?];
    let kernel_tests = kernel::build()?;
    rungs.extend(host::run(&kernel_tests, filter)?);
    rungs.push(if args.no_vm {
        vm::left_out(&kernel_tests, filter, "left out by --no-vm")?
    } else {
        vm::run(&kernel_tests, filter)?
    });
    if !conclude(&rungs) {
        // Not an error for main to print: the counts are to be the last line.
        std::process::exit(1);
    }
    Ok(())
}

/// Prints skips, failures and the counts; false if something failed or was skipped without need.
fn conclude(rungs: &[Rung]) -> bool {
    let conclusion = conclusion(rungs, &crate::setup::paths().test_logs);
    println!();
    for line in &conclusion.lines {
        println!("{line}");
    }
    conclusion.is_good
}

/// The last words of a run.
struct Conclusion {
    /// The counts stand alone on the last one.
    lines: Vec<String>,
    is_good: bool,
}

fn conclusion(rungs: &[Rung], logs: &Path) -> Conclusion {
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for rung in rungs {
        let place = rung.place.describe();
        for failure in &rung.tally.failures {
            wrong.push(format!("failed: {failure} ({place})"));
        }
    }
    for rung in rungs {
        let place = rung.place.describe();
        for skip in &rung.tally.skips {
            lines.push(format!("skipped: {} ({place}): {}", skip.name, skip.reason));
            if let Err(why) = evaluate(rung, skip) {
                wrong.push(format!("skipped without need: {}: {why}", skip.name));
            }
        }
    }
    for rung in rungs {
        let place = rung.place.describe();
        for test in &rung.tally.passed_alone {
            lines.push(format!("passed only when repeated alone: {test} ({place})"));
        }
    }
    let is_good = wrong.is_empty();
    lines.extend(wrong);
    lines.push(format!("full logs in {}", logs.display()));
    let sum = |count: fn(&Tally) -> usize| rungs.iter().map(|r| count(&r.tally)).sum::<usize>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failures.len()));
    lines.push(format!("{passed} passed, {failed} failed, {} skipped", sum(|t| t.skips.len())));
    Conclusion { lines, is_good }
}

fn evaluate(rung: &Rung, skip: &Skip) -> Result<(), String> {
    if skip.whole_rung { Ok(()) } else { rung.place.excuses(&skip.reason) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use tally::{Failure, TestName};

    fn test_name(name: &str) -> TestName {
        TestName { binary: "netns".to_owned(), name: name.to_owned() }
    }

    fn rungs(failures: Vec<Failure>) -> Vec<Rung> {
        let release = "6.12".to_owned();
        let guest = Place::Guest { release, modules: PathBuf::new(), emulated: true };
        let skip = Skip {
            name: "netns::c".to_owned(),
            reason: "needs kernel_6.13".to_owned(),
            whole_rung: false,
        };
        let in_guest =
            Tally { passed: 2, failures, skips: vec![skip], passed_alone: vec![test_name("a")] };
        let here = Tally { passed: 3, ..Tally::default() };
        vec![Rung { place: Place::host(), tally: here }, Rung { place: guest, tally: in_guest }]
    }

    #[test]
    fn conclusion_says_what_passed_only_alone_and_counts_it_as_passed() {
        let said = conclusion(&rungs(Vec::new()), Path::new("logs"));
        assert!(said.is_good);
        assert_eq!(
            said.lines,
            [
                "skipped: netns::c (guest, Linux 6.12, fq, emulated): needs kernel_6.13",
                "passed only when repeated alone: netns::a (guest, Linux 6.12, fq, emulated)",
                "full logs in logs",
                "5 passed, 0 failed, 1 skipped",
            ]
        );
    }

    #[test]
    fn conclusion_is_bad_with_one_failure() {
        let said = conclusion(&rungs(vec![Failure::Test(test_name("b"))]), Path::new("logs"));
        assert!(!said.is_good);
        let failed = "failed: netns::b (guest, Linux 6.12, fq, emulated)".to_owned();
        assert!(said.lines.contains(&failed), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "5 passed, 1 failed, 1 skipped");
    }
}
