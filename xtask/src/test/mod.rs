//! `cargo xtask test`: runs the tests that this machine can run, then prints the counts.
//!
//! | rung | tests | by default | with `--full` |
//! |---|---|---|---|
//! | unit | `cargo test`: unit, property, differential, doc, simulation | yes | yes |
//! | python | the wheels in new environments: pytest, mypy, samples of the documents | yes | yes |
//! | host | the kernel tests of `tests/` on this kernel | yes | yes |
//! | guest | the same on Debian's 6.12 in a virtual machine, with fq | no | yes |
//! | soak | two minutes of `cargo xtask soak` | no | yes |
//!
//! With `--torch pypi` the rung python has PyPI's PyTorch, and tests FSDP2 as well.
//!
//! A test that can't run names the capability that it needs (`capability`). The run fails if the
//! machine has that capability.

mod capability;
mod host;
mod hung;
mod kernel;
mod python;
mod soak;
mod stage;
mod unit;
mod vm;

use std::path::Path;

use anyhow::Result;

use crate::setup::{self, Need};
use capability::Place;
use test_report::{Skip, Tally};

#[derive(clap::Args)]
pub struct Args {
    /// Also run the kernel tests on Debian's kernel in a virtual machine, and a short soak test
    #[arg(long)]
    full: bool,
    /// Run only the tests whose names contain this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The PyTorch for the tests of its integration
    #[arg(long, value_enum, default_value_t = Torch::Debian)]
    torch: Torch,
}

/// Where PyTorch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Torch {
    /// Debian's package, without FSDP2
    Debian,
    /// PyPI's, with FSDP2: a download of gigabytes, whose size is printed first
    Pypi,
}

impl Torch {
    /// PyTorch as a need, and the environment in which the packages are tested.
    fn parts(self) -> (Need, &'static Path) {
        match self {
            Torch::Debian => (Need::Torch, &setup::paths().torch_test),
            Torch::Pypi => (Need::TorchPypi, &setup::paths().torch_pypi),
        }
    }
}

/// The results of one rung, and where it ran.
struct Rung {
    place: Place,
    tally: Tally,
}

pub fn main(args: Args) -> Result<()> {
    stage::catch_interrupts()?;
    let minutes = if args.full { "45" } else { "15" };
    atp_output::note!("all tests: about {minutes} minutes on two cores, the build included");
    let filter = args.filter.as_deref();
    let mut rungs = vec![unit::run(filter)?];
    rungs.extend(python::run(filter, args.torch)?);
    let kernel_tests = kernel::build()?;
    rungs.extend(host::run(&kernel_tests, filter, args.torch)?);
    if args.full {
        rungs.push(vm::run(&kernel_tests, filter)?);
        rungs.extend(filter.is_none().then(soak::run).transpose()?);
    }
    let conclusion = conclusion(&rungs, args.full, &setup::paths().test_logs);
    atp_output::note!("\n{}", conclusion.lines.join("\n"));
    if !conclusion.is_good {
        // Exit here: the counts must be the last line, with no error after them.
        std::process::exit(1);
    }
    Ok(())
}

/// The end of a run's output.
struct Conclusion {
    /// The last line holds the counts alone.
    lines: Vec<String>,
    /// No test failed or was skipped without need.
    is_good: bool,
}

fn conclusion(rungs: &[Rung], is_full: bool, logs: &Path) -> Conclusion {
    let (mut lines, mut alone, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
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
        let repeated = tally.passed_alone.iter();
        alone.extend(repeated.map(|t| format!("passed only when repeated alone: {t} ({at})")));
    }
    lines.extend(alone);
    if passed + failed + skipped == 0 {
        wrong.push("no test ran: does a test's name contain the text of --filter?".to_owned());
    }
    if !is_full {
        lines.push("left to --full: kernel tests in a guest with fq, the soak test".to_owned());
    }
    let is_good = wrong.is_empty();
    lines.extend(wrong);
    lines.push(format!("full logs in {}", logs.display()));
    lines.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
    Conclusion { lines, is_good }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use test_report::{Failure, TestName};

    fn rungs(failures: Vec<Failure>) -> Vec<Rung> {
        let release = "6.12".to_owned();
        let guest = Place::Guest { release, modules: PathBuf::new(), emulated: true };
        let skips = vec![Skip::new("netns::c", "needs kernel_6.13")];
        let passed_alone = vec![TestName::new("netns", "a")];
        let in_guest = Tally { passed: 2, failures, skips, passed_alone };
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
    fn conclusion_says_what_it_leaves_to_full() {
        let rungs = [Rung { place: Place::host(), tally: Tally { passed: 3, ..Tally::default() } }];
        let quick = conclusion(&rungs, false, Path::new("logs"));
        let first = &quick.lines[0];
        assert!(quick.is_good && first.starts_with("left to --full: "), "{first}");
        assert!(!conclusion(&rungs, true, Path::new("logs")).lines[0].starts_with("left"));
    }

    #[test]
    fn conclusion_is_bad_with_one_failure() {
        let failures = vec![Failure::Test(TestName::new("netns", "b"))];
        let said = conclusion(&rungs(failures), true, Path::new("logs"));
        assert!(!said.is_good);
        let failed = "failed: netns::b (guest, Linux 6.12, fq, emulated)".to_owned();
        assert!(said.lines.contains(&failed), "{:?}", said.lines);
        assert_eq!(said.lines.last().unwrap(), "5 passed, 1 failed, 1 skipped");
    }
}
