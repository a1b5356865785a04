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
mod conclusion;
mod group;
mod host;
mod hung;
mod kernel;
mod processes;
mod python;
mod repeat;
mod soak;
mod stage;
mod stress;
mod tail;
mod times;
mod unit;
mod vm;

use std::path::Path;

use anyhow::Result;

use crate::setup::{self, Need};
use capability::Place;
use test_report::Tally;
use times::Times;

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
    /// Repeat the tests of --filter this many times, beside two busy loops
    #[arg(
        long,
        value_name = "N",
        requires = "filter",
        conflicts_with = "full",
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    stress: Option<u32>,
}

/// Which tests run, and how.
struct Choice<'a> {
    /// Only those whose names contain this text.
    filter: Option<&'a str>,
    torch: Torch,
    /// Repeat a few failed kernel tests alone.
    repeats: bool,
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
    group::catch_interrupts()?;
    let (filter, torch) = (args.filter.as_deref(), args.torch);
    let choice = Choice { filter, torch, repeats: args.stress.is_none() };
    let is_good = match args.stress {
        Some(rounds) => stress::run(&choice, rounds)?,
        None => run(&choice, args.full)?,
    };
    if !is_good {
        // Exit here: the counts must be the last line, with no error after them.
        std::process::exit(1);
    }
    Ok(())
}

/// Whether no test failed.
fn run(choice: &Choice, is_full: bool) -> Result<bool> {
    let minutes = if is_full { "75" } else { "30" };
    atp_output::note!("all tests: about {minutes} minutes on two cores, the build included");
    let mut times = Times::of_earlier_steps();
    let rungs = all(choice, is_full, &mut times)?;
    let logs = &setup::paths().test_logs;
    times.report(&rungs, &logs.join("times.txt"))?;
    let conclusion = conclusion::of(&rungs, is_full, logs);
    atp_output::note!("\n{}", conclusion.lines.join("\n"));
    Ok(conclusion.is_good)
}

fn all(choice: &Choice, is_full: bool, times: &mut Times) -> Result<Vec<Rung>> {
    let mut rungs = Vec::new();
    match unit::build(times)? {
        Some(failed) => rungs.push(failed),
        None => rungs.push(unit::run(choice, times)?),
    }
    let wheels = python::build(choice.torch, times)?;
    rungs.extend(python::run(&wheels, choice, times)?);
    let tests = times.measure("build of the kernel tests", kernel::build)?;
    rungs.extend(host::run(&tests, choice, times)?);
    if is_full {
        rungs.push(times.measure("kernel tests in the guest", || vm::run(&tests, choice.filter))?);
        if choice.filter.is_none() {
            rungs.push(times.measure("soak test", soak::run)?);
        }
    }
    Ok(rungs)
}
