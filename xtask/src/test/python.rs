//! The tests of the Python packages: wheels in new virtual environments, with pytest and mypy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Choice, FILTER_VARIABLE, Run, Rung, Torch, compile, logs};
use crate::setup::{self, MATURIN, PYFLINK, TORCH_PYTHON};
use crate::wheel::{self, Wheels};
use test_report::{Reader, Skip, watch};

/// Each rank of a test imports PyTorch: PyPI's takes seconds.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The wheels, or the reason why they can't be built.
pub type Built = Result<Wheels, String>;

pub fn build() -> Result<Built> {
    if let Err(why) = setup::obtainable(&[&MATURIN]) {
        return Ok(Err(why));
    }
    atp_output::note!("building the wheels of the Python packages");
    setup::ensure(&[&MATURIN])?;
    // A process of its own ends with an interrupt.
    let mut build = Command::new(std::env::current_exe()?);
    build.arg("wheel");
    compile::run("wheels", build, |_| {})?;
    Ok(Ok(wheel::built()?))
}

/// PyTorch is there, or the reason why it can't be.
pub type Installed = Result<(), String>;

pub fn install(torch: Torch) -> Result<Installed> {
    let (need, _) = torch.parts();
    match setup::obtainable(&[need]) {
        Ok(()) => setup::ensure(&[need]).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// The wheels, and an environment that has PyFlink, or the reason why it can't be made.
pub fn install_pyflink() -> Result<Built> {
    match PYFLINK.check() {
        Ok(()) => setup::ensure(&[&PYFLINK]).and_then(|()| build()),
        Err(why) => Ok(Err(format!("needs pyflink: {why}"))),
    }
}

/// The tests of the tables of Flink's connector, in the environment that has PyFlink.
pub fn run_flink(built: &Built, choice: &Choice) -> Result<Rung> {
    let (folder, environment) = ("integrations/flink/python", &setup::paths().pyflink);
    let python = Command::new(environment.join("bin/python"));
    match built {
        Ok(wheels) => run_tests("pyflink", folder, python, &[&wheels.atp], environment, choice),
        Err(why) => Ok(skipped("Flink's tables in Python", why)),
    }
}

/// The tests of the package `atp`, in an environment that has nothing else, and those of the
/// integration of PyTorch, in one that has it.
pub fn run(built: &Built, torch: Option<&Installed>, choice: &Choice, run: &mut Run) -> Result<()> {
    let wheels = match built {
        Ok(wheels) => wheels,
        Err(why) => return run.rung("Python", || Ok(skipped("the Python packages", why))),
    };
    let (python, environment) = (setup::python(), setup::paths().target.join("python-test"));
    run.rung("tests of the Python package", || {
        run_tests("python", "bindings/python", python, &[&wheels.atp], &environment, choice)
    })?;

    match torch {
        Some(Ok(())) => {}
        Some(Err(why)) => {
            return run.rung("PyTorch", || Ok(skipped("the integration of PyTorch", why)));
        }
        None => return Ok(()),
    }
    let (_, environment) = choice.torch.parts();
    let python = match choice.torch {
        Torch::Debian => Command::new(TORCH_PYTHON),
        Torch::Pypi => Command::new(environment.join("bin/python")),
    };
    let wheels = [&wheels.atp, &wheels.torch];
    run.rung("tests of the integration of PyTorch", || {
        run_tests("torch", "integrations/pytorch", python, &wheels, environment, choice)
    })
}

fn skipped(what: &str, why: &str) -> Rung {
    Rung::skipped(Skip { whole_rung: true, ..Skip::new(what, why) })
}

/// Runs the tests in `folder`. The first round makes their environment by `python`.
fn run_tests(
    name: &str,
    folder: &str,
    python: Command,
    wheels: &[&PathBuf],
    environment: &Path,
    choice: &Choice,
) -> Result<Rung> {
    atp_output::note!("tests in {folder}");
    let (mut test, folder) = (python, setup::paths().workspace.join(folder));
    if choice.round > Some(1) {
        test = Command::new(environment.join("bin/python"));
        test.args(["-m", "pytest", "--quiet"]).current_dir(folder);
    } else {
        test.arg(folder.join("tests/in_new_environment.py")).args(wheels).arg(environment);
    }
    test.env(FILTER_VARIABLE, choice.filter.unwrap_or_default());
    test.envs(setup::java_home().map(|home| ("JAVA_HOME", home)));
    let log = choice.log_path(name)?;
    let mut reader = Reader::new(name, choice.filter);
    // Before the first test, pip may wait for the network.
    let is_test = |line: &str| line.starts_with("began ");
    let end = watch::build_and_run(test, &log, LIMIT, is_test, |line| reader.line(line))?;
    let tally = reader.finish(end.trouble);
    atp_output::note!("  {name}: {}", tally.summary());
    logs::show_failures([&tally], &log);
    Ok(Rung::here(tally))
}
