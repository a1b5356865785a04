//! The third rung: the kernel tests on Debian's 6.12 in a virtual machine, with the fq backend.
//!
//! KVM is used if it boots that kernel. On nested hosts it often doesn't: then QEMU emulates. A few
//! tests that failed under emulation are repeated (`repeat`).

mod guest;
mod repeat;
mod report;
mod script;

use std::path::PathBuf;

use anyhow::Result;

use super::Rung;
use super::capability::Place;
use super::kernel::KernelTests;
use super::tally::{Tally, TestName};
use crate::setup;

use guest::{Guest, Ran};

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
    let means = guest.emulated.as_ref().map_or("KVM".to_owned(), |why| format!("TCG: {why}"));
    let release = &guest.release;
    println!("kernel tests on Linux {release} in a virtual machine ({means}), {BACKEND} backend");
    let rung = VirtualRung { guest, tests };
    let tally = rung.climb(filter)?;
    Ok(Rung { place: rung.guest.place(), tally })
}

/// Reports every test of this rung as skipped.
pub fn left_out(tests: &KernelTests, filter: Option<&str>, reason: &str) -> Result<Rung> {
    println!("kernel tests in a virtual machine: left out: {reason}");
    let tally = tests.all_skipped(filter, reason)?;
    let release = "6.12".to_owned();
    Ok(Rung { place: Place::Guest { release, modules: PathBuf::new(), emulated: false }, tally })
}

struct VirtualRung<'a> {
    guest: Guest,
    tests: &'a KernelTests,
}

impl VirtualRung<'_> {
    fn climb(&self, filter: Option<&str>) -> Result<Tally> {
        let mut ran = self.every_binary(filter, "")?;
        if ran.died {
            // An emulated kernel that dies loses the results of its tests. A second death is a
            // failure.
            println!("  the guest died during its tests: running all of them once more");
            ran = self.every_binary(filter, "-again")?;
        }
        let mut tally = Tally::default();
        ran.tallies.into_iter().for_each(|binary| tally.add(binary));
        let repeated = repeat::candidates(&tally);
        if repeated.is_empty() || !ran.ended_by_itself || self.guest.emulated.is_none() {
            return Ok(tally);
        }
        match self.each_alone(&repeated) {
            Ok(second) => Ok(repeat::combined(tally, repeated, &second.tallies)),
            Err(error) => {
                println!("  failed tests were not repeated: {error:#}");
                Ok(tally)
            }
        }
    }

    fn every_binary(&self, filter: Option<&str>, attempt: &str) -> Result<Ran> {
        self.guest.forget_fault_rows()?;
        let starts = script::every_binary(self.tests, filter);
        self.guest.run_tests(self.tests, &starts, attempt)
    }

    fn each_alone(&self, names: &[TestName]) -> Result<Ran> {
        let words: Vec<String> = names.iter().map(TestName::to_string).collect();
        println!("  failed under emulation, repeating each alone: {}", words.join(", "));
        let starts = script::each_alone(self.tests, names)?;
        self.guest.run_tests(self.tests, &starts, "-alone")
    }
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
