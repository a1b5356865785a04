//! `cargo xtask test`: runs the tests that this machine can run, then prints the counts.
//!
//! | rung | tests | by default | with `--full` |
//! |---|---|---|---|
//! | unit | `cargo test`: unit, property, differential, doc | the quick ones | all, with all seeds |
//! | host | the kernel tests of `tests/` on this kernel | yes | yes |
//! | guest | the same on Debian's 6.12 in a virtual machine, with fq | no | yes |
//!
//! A test that can't run names the capability that it needs (`capability`). The run fails if the
//! machine has that capability.

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
    /// Also run the long simulations, all seeds and the kernel tests in a virtual machine
    #[arg(long)]
    full: bool,
    /// With --full, leave out the virtual machine
    #[arg(long, requires = "full")]
    no_vm: bool,
    /// Run only the tests whose names contain this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

/// Set to 1 with `--full`: tests over random seeds run all of their seeds.
const FULL_VARIABLE: &str = "ATP_FULL";
/// The reason of tests that only `--full` runs begins with it: `#[ignore = "full: ..."]`.
const FULL_REASON: &str = "full: ";

/// The results of one rung, and where it ran.
struct Rung {
    place: Place,
    tally: Tally,
}

pub fn main(args: Args) -> Result<()> {
    stage::catch_interrupts()?;
    let filter = args.filter.as_deref();
    let mut rungs = vec![unit::run(filter, args.full)?];
    let kernel_tests = kernel::build()?;
    rungs.extend(host::run(&kernel_tests, filter)?);
    if args.no_vm {
        rungs.push(vm::left_out(&kernel_tests, filter, "left out by --no-vm")?);
    } else if args.full {
        rungs.push(vm::run(&kernel_tests, filter)?);
    }
    if !conclude(&rungs, args.full) {
        // Exit here: the counts must be the last line, with no error after them.
        std::process::exit(1);
    }
    Ok(())
}

/// Prints skips, failures and the counts. Returns false if a test failed or was skipped without
/// need.
fn conclude(rungs: &[Rung], is_full: bool) -> bool {
    let conclusion = conclusion(rungs, is_full, &crate::setup::paths().test_logs);
    println!();
    for line in &conclusion.lines {
        println!("{line}");
    }
    conclusion.is_good
}

/// The end of a run's output.
struct Conclusion {
    /// The last line holds the counts alone.
    lines: Vec<String>,
    is_good: bool,
}

fn conclusion(rungs: &[Rung], is_full: bool, logs: &Path) -> Conclusion {
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for rung in rungs {
        let place = rung.place.describe();
        for failure in &rung.tally.failures {
            wrong.push(format!("failed: {failure} ({place})"));
        }
    }
    let mut left_to_full = 0;
    for rung in rungs {
        let place = rung.place.describe();
        for skip in &rung.tally.skips {
            if !is_full && skip.reason.starts_with(FULL_REASON) {
                left_to_full += 1;
                continue;
            }
            lines.push(format!("skipped: {} ({place}): {}", skip.name, skip.reason));
            if let Err(why) = check_skip(rung, skip) {
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
    if !is_full {
        lines.push(format!(
            "left to --full: {left_to_full} long tests, nine of ten seeds of the simulated \
             transport, the kernel tests in a virtual machine with fq"
        ));
    }
    let is_good = wrong.is_empty();
    lines.extend(wrong);
    lines.push(format!("full logs in {}", logs.display()));
    let sum = |count: fn(&Tally) -> usize| rungs.iter().map(|r| count(&r.tally)).sum::<usize>();
    let (passed, failed) = (sum(|tally| tally.passed), sum(|tally| tally.failures.len()));
    let skipped = sum(|tally| tally.skips.len()) - left_to_full;
    lines.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
    Conclusion { lines, is_good }
}

fn check_skip(rung: &Rung, skip: &Skip) -> Result<(), String> {
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
        let said = conclusion(&rungs(Vec::new()), true, Path::new("logs"));
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
    fn conclusion_counts_what_it_leaves_to_full() {
        let reason = "full: 40 s of simulation".to_owned();
        let skip = Skip { name: "a::b".to_owned(), reason, whole_rung: false };
        let tally = Tally { passed: 3, skips: vec![skip], ..Tally::default() };
        let rungs = [Rung { place: Place::host(), tally }];
        let quick = conclusion(&rungs, false, Path::new("logs"));
        assert!(quick.is_good);
        assert!(quick.lines[0].starts_with("left to --full: 1 long tests"), "{:?}", quick.lines);
        assert_eq!(quick.lines.last().unwrap(), "3 passed, 0 failed, 0 skipped");
        // A full run has no reason to leave it out.
        assert!(!conclusion(&rungs, true, Path::new("logs")).is_good);
    }

    #[test]
    fn conclusion_is_bad_with_one_failure() {
        let said = conclusion(&rungs(vec![Failure::Test(test_name("b"))]), true, Path::new("logs"));
        assert!(!said.is_good);
        let failed = "failed: netns::b (guest, Linux 6.12, fq, emulated)".to_owned();
        assert!(said.lines.contains(&failed), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "5 passed, 1 failed, 1 skipped");
    }
}
