//! The first rung: `cargo test` of the default members. It needs stable Rust only.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::compile::{self, Progress};
use super::{Choice, Rung, logs};
use crate::{build, setup};
use test_report::{CargoReader, watch};

/// They take 14 minutes on two cores, and more beside an emulated guest.
const LIMIT: Duration = Duration::from_secs(40 * 60);

pub fn build() -> Result<()> {
    atp_output::note!("building the unit, property and differential tests");
    for need in setup::TEST_UNIT.iter().filter(|need| setup::obtainable(&[**need]).is_ok()) {
        setup::ensure(&[*need]).unwrap_or_else(|error| atp_output::note!("{error:#}"));
    }
    compile::run("unit", build::cargo("test --no-run --color=never"), |_| {})
}

/// Runs the tests, which have been built.
pub fn run(choice: &Choice) -> Result<Rung> {
    atp_output::note!("unit, property, differential and doc tests");
    run_cargo("unit", build::cargo("test --no-fail-fast --color=never"), LIMIT, choice)
}

/// Runs `cargo test`, of tests that have been built. `name` is the log's.
pub fn run_cargo(name: &str, mut test: Command, limit: Duration, choice: &Choice) -> Result<Rung> {
    // Many tests wait, so more of them run at a time than there are processors.
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    test.env("RUST_TEST_THREADS", (2 * processors).to_string());
    test.args(["--", "--color=never"]).args(choice.filter);
    let log = choice.log_path(name)?;
    let (mut reader, mut progress) = (CargoReader::default(), Progress::default());
    // Before the first test, cargo may wait for another one that builds.
    let is_test = |line: &str| line.trim_start().starts_with("Running ");
    let end = watch::build_and_run(test, &log, limit, is_test, |line| match reader.line(line) {
        Some(ended) => progress.show(&ended),
        None => progress.line(line),
    })?;
    let tally = reader.finish(end.trouble);
    logs::show_failures([&tally], &log);
    Ok(Rung::here(tally))
}
