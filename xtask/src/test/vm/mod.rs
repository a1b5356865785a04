//! The third rung: the kernel tests on Debian's 6.12 in a virtual machine, with the fq backend.
//!
//! KVM is used if it boots that kernel. On nested hosts it often doesn't: then QEMU emulates.

mod guest;
mod script;

use std::path::PathBuf;

use anyhow::Result;

use super::capability::Place;
use super::kernel::KernelTests;
use super::{Rung, repeat};
use crate::setup;

use guest::Guest;
use test_report::{Failure, Tally};

const BACKEND: &str = "fq";
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
    let tally = every_binary(&guest, tests, filter)?;
    Ok(Rung { place: guest.place(), tally })
}

/// Reports every test of this rung as skipped.
pub fn left_out(tests: &KernelTests, filter: Option<&str>, reason: &str) -> Result<Rung> {
    atp_output::note!("kernel tests in a virtual machine: left out: {reason}");
    let tally = tests.all_skipped(filter, reason)?;
    let release = "6.12".to_owned();
    Ok(Rung { place: Place::Guest { release, modules: PathBuf::new(), emulated: false }, tally })
}

fn every_binary(guest: &Guest, tests: &KernelTests, filter: Option<&str>) -> Result<Tally> {
    let starts = script::every_binary(tests, filter, guest.emulated.is_some());
    guest.forget_fault_rows()?;
    let mut ran = guest.run_tests(tests, &starts, "")?;
    let mut tally = Tally::default();
    if ran.died && guest.emulated.is_some() {
        // An emulated kernel that dies loses the results of its tests. A second death is a failure.
        atp_output::note!("  the guest died during its tests: running all of them once more");
        tally.unstable = before_death(&ran.tallies);
        guest.forget_fault_rows()?;
        ran = guest.run_tests(tests, &starts, "-again")?;
    }
    ran.tallies.into_iter().for_each(|binary| tally.add(binary));
    if !ran.ended_by_itself {
        return Ok(tally);
    }
    Ok(repeat::once_alone(tally, |names| {
        let starts = tests.each_alone(names)?;
        Ok(guest.run_tests(tests, &starts, "-alone")?.tallies)
    }))
}

/// The tests that failed in a guest that died, and its death.
fn before_death(tallies: &[Tally]) -> Vec<String> {
    let failures = tallies.iter().flat_map(|tally| &tally.failures);
    let tests = failures.filter(|failure| matches!(failure, Failure::Test(_)));
    let failed = tests.map(|test| format!("{test}: failed before the guest died"));
    failed.chain(["the guest: died during its tests, which ran once more".to_owned()]).collect()
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

    #[test]
    fn before_death__names_failed_tests_and_the_guest() {
        let test = Failure::Test(test_report::TestName::new("netns", "a"));
        let failures = vec![test, Failure::Other("netns: the guest ended".to_owned())];
        let words = before_death(&[Tally { failures, ..Tally::default() }]);
        assert_eq!(words.len(), 2);
        assert_eq!(words[0], "netns::a: failed before the guest died");
    }
}
