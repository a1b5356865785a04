//! The third rung: the kernel tests on Debian's 6.12 in a virtual machine, with the fq backend.
//!
//! KVM is used if it boots that kernel. On nested hosts it often doesn't: then QEMU emulates.

mod guest;
mod programs;
mod script;

use std::path::PathBuf;

use anyhow::Result;

use super::capability::Place;
use super::kernel::{KernelTests, Start};
use super::{Rung, repeat};
use crate::setup;

use guest::Guest;
use test_report::{Tally, TestName};

const BACKEND: &str = "fq";
/// The most deaths of emulated guests in one run. A kernel that runs under emulation dies now and
/// then, without a test's doing; one that dies twice in one test fails it.
const DEATHS_MAX: usize = 2;
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
    let (tally, ended) = run_after(guest, tests, &starts, &[])?;
    if !ended {
        return Ok(tally);
    }
    Ok(repeat::once_alone(tally, |names| {
        let starts = tests.each_alone(names)?;
        Ok(guest.run_tests(tests, &starts, "-alone")?.tallies)
    }))
}

/// Runs the tests of `starts`, in a new guest each time that an emulated one dies. `deaths`: the
/// tests that ran when earlier guests died. Returns also whether the last guest ended by itself.
fn run_after(
    guest: &Guest,
    tests: &KernelTests,
    starts: &[Start],
    deaths: &[TestName],
) -> Result<(Tally, bool)> {
    let attempt = (!deaths.is_empty()).then(|| format!("-{}", deaths.len() + 1));
    let ran = guest.run_tests(tests, starts, &attempt.unwrap_or_default())?;
    let left = match ran.died_in {
        Some(dead) if guest.emulated.is_some() => {
            left_in(&starts[dead], &ran.tallies[dead], tests.can_run_here())?
        }
        _ => Vec::new(),
    };
    let dies_again = |test| deaths.contains(test) || deaths.len() == DEATHS_MAX;
    let mut tally = Tally::default();
    let Some(running) = left.first().filter(|test| !dies_again(test)) else {
        ran.tallies.into_iter().for_each(|binary| tally.add(binary));
        return Ok((tally, ran.ended_by_itself));
    };
    atp_output::note!("  the guest died in {running}: a new one runs that test and the others");
    tally.deaths.push(running.to_string());
    let dead = ran.died_in.unwrap_or_default();
    for (number, binary) in ran.tallies.into_iter().take(dead + 1).enumerate() {
        tally.add(if number == dead { binary.of_ended_tests() } else { binary });
    }
    let mut rest = tests.each_alone(&left)?;
    rest.extend(starts.iter().skip(dead + 1).copied());
    let (others, ended) =
        run_after(guest, tests, &rest, &[deaths, std::slice::from_ref(running)].concat())?;
    tally.add(others);
    Ok((tally, ended))
}

/// The tests of a start that had not ended when the guest died. The first of them was running.
fn left_in(start: &Start, tally: &Tally, pacing_only: bool) -> Result<Vec<TestName>> {
    if start.exact {
        let name = start.filter.unwrap_or_default();
        return Ok(vec![TestName::new(&start.binary.name, name)]);
    }
    let mut tests = start.binary.tests(start.filter, pacing_only)?;
    tests.retain(|test| !tally.has(test));
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

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
    fn left_in__begins_with_the_test_that_ran() {
        let binary = Binary { name: "netns".to_owned(), path: PathBuf::from("unused") };
        let start = Start { binary: &binary, filter: Some("a"), exact: true };
        let left = left_in(&start, &Tally::default(), true).unwrap();
        assert_eq!(left, [TestName::new("netns", "a")]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netns");
        std::fs::write(&path, "#!/bin/sh\nprintf 'a: test\\nb: test\\nc: test\\n'\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let binary = Binary { path, ..binary };
        let start = Start { binary: &binary, filter: None, exact: false };
        let tally = Tally { passes: vec![TestName::new("netns", "a")], ..Tally::default() };
        let left = left_in(&start, &tally, true).unwrap();
        assert_eq!(left, ["b", "c"].map(|name| TestName::new("netns", name)));
    }
}
