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
mod stage;
mod tally;
mod unit;
mod vm;

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

/// Prints failures, skips and the counts; false if something failed or was skipped without
/// need. The counts stand alone on the last line.
fn conclude(rungs: &[Rung]) -> bool {
    let mut wrong = Vec::new();
    for rung in rungs {
        for failure in &rung.tally.failures {
            wrong.push(format!("failed: {failure} ({})", rung.place.describe()));
        }
    }
    println!();
    for rung in rungs {
        for skip in &rung.tally.skips {
            println!("skipped: {} ({}): {}", skip.name, rung.place.describe(), skip.reason);
            if let Err(why) = judge(rung, skip) {
                wrong.push(format!("skipped without need: {}: {why}", skip.name));
            }
        }
    }
    let sum = |count: fn(&Tally) -> usize| rungs.iter().map(|r| count(&r.tally)).sum::<usize>();
    let failed = sum(|tally| tally.failures.len());
    for line in &wrong {
        println!("{line}");
    }
    println!("full logs in {}", crate::setup::paths().test_logs.display());
    println!("{} passed, {failed} failed, {} skipped", sum(|t| t.passed), sum(|t| t.skips.len()));
    wrong.is_empty()
}

fn judge(rung: &Rung, skip: &Skip) -> Result<(), String> {
    if skip.whole_rung { Ok(()) } else { rung.place.excuses(&skip.reason) }
}
