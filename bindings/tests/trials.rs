//! Tests that run programs: of the bindings to C and of `atp-run`.

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::Command;

pub type Test = fn() -> Result<()>;

/// A test. If something is missing it counts as ignored, and says why for the count of skips.
pub fn trial(name: &str, test: Test, missing: &Option<String>, arguments: &Arguments) -> Trial {
    let runner = move || test().map_err(|error| Failed::from(format!("{error:#}")));
    let trial = Trial::test(name, runner).with_ignored_flag(missing.is_some());
    if let Some(reason) = missing
        && !arguments.list
        && !arguments.is_filtered_out(&trial)
    {
        println!("skipped: {name}: {reason}");
    }
    trial
}

/// Why a program can't be run, which is `needed`.
pub fn missing(program: &str, needed: &str) -> Option<String> {
    let found = Command::new(program).arg("--version").output();
    // `go --version` fails, but starts.
    found.err().map(|error| format!("needs {needed}: can't run {program}: {error}"))
}

/// Runs a command to its end, and returns what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("can't start {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    Ok(said)
}
