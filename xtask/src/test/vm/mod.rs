//! The third rung: the kernel tests on Debian's 6.12 in a virtual machine, with the fq backend.
//!
//! KVM is used if it boots that kernel. On nested hosts it often doesn't: then QEMU emulates.

mod guest;
mod programs;
mod script;

use std::path::PathBuf;

use anyhow::Result;

use super::capability::Place;
use super::kernel::KernelTests;
use super::{Rung, repeat};
use crate::setup;

use guest::Guest;
use test_report::Tally;

const BACKEND: &str = "fq";
/// The most guests of a run that may die. Their emulator ends about one in a quarter of an hour,
/// which is what the tests take: more than five of them in one of two thousand runs.
const DEATHS_MAX: usize = 5;
/// The file of the fault tests' rows, for `cargo xtask faults-table`.
const FAULT_ROWS: &str = "faults.json";

pub fn run(tests: &KernelTests, filter: Option<&str>) -> Result<Rung> {
    if let Err(why) = &tests.object {
        return left_out(tests, filter, &format!("no eBPF programs to test: {why}"));
    }
    if let Err(why) = setup::obtainable(setup::TEST_VM) {
        return left_out(tests, filter, &why);
    }
    setup::ensure(setup::TEST_VM)?;
    let guest = Guest::new()?;
    let emulated = |why| format!("TCG: {why}; only what depends on {BACKEND}");
    let means = guest.emulated.as_ref().map_or("KVM".to_owned(), emulated);
    let release = &guest.release;
    atp_output::note!(
        "kernel tests on Linux {release} in a virtual machine ({means}), {BACKEND} backend"
    );
    let tally = every_test(&guest, tests, filter)?;
    Ok(Rung { place: guest.place(), tally })
}

/// Reports every test of this rung as skipped.
pub fn left_out(tests: &KernelTests, filter: Option<&str>, reason: &str) -> Result<Rung> {
    atp_output::note!("kernel tests in a virtual machine: left out: {reason}");
    let tally = tests.all_skipped(filter, reason)?;
    let release = "6.12".to_owned();
    Ok(Rung { place: Place::Guest { release, modules: PathBuf::new(), emulated: false }, tally })
}

/// Runs each test by itself, in a process of its own.
fn every_test(guest: &Guest, tests: &KernelTests, filter: Option<&str>) -> Result<Tally> {
    let names = script::selected(tests, filter, guest.emulated.is_some())?;
    if names.is_empty() {
        return Ok(Tally::default());
    }
    let starts = tests.each_alone(&names)?;
    guest.forget_fault_rows()?;
    let (mut tally, mut left, mut deaths) = (Tally::default(), &starts[..], 0);
    let ended_by_itself = loop {
        let attempt = if deaths == 0 { String::new() } else { format!("-{}", deaths + 1) };
        let mut ran = guest.run_tests(tests, left, &attempt)?;
        let Some(death) = ran.death.filter(|_| guest.emulated.is_some() && deaths < DEATHS_MAX)
        else {
            ran.tallies.into_iter().for_each(|test| tally.add(test));
            break ran.ended_by_itself;
        };
        deaths += 1;
        let test =
            format!("{}::{}", left[death.at].binary.name, left[death.at].filter.unwrap_or(""));
        atp_output::note!("  the guest died in {test}: another one goes on before that test");
        match death.is_of_emulator {
            true => tally.deaths.push(test),
            false => tally.unstable.push(format!("{test}: the guest died in it")),
        }
        // The kernel may still have cleaned up after the test before, and died of that.
        let from = death.at.saturating_sub(1);
        ran.tallies.drain(..from).for_each(|test| tally.add(test));
        left = &left[from..];
    };
    if !ended_by_itself {
        return Ok(tally);
    }
    Ok(repeat::once_alone(tally, |names| {
        let starts = tests.each_alone(names)?;
        Ok(guest.run_tests(tests, &starts, "-alone")?.tallies)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::kernel::Binary;

    pub fn two_binaries() -> KernelTests {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            path: PathBuf::from(format!("/t/{name}")),
        };
        KernelTests {
            binaries: vec![binary("prog_run"), binary("netns")],
            object: Ok(PathBuf::from("object")),
            daemon: PathBuf::from("daemon"),
        }
    }
}
