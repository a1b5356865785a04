//! The tests of the Python packages: wheels in new virtual environments, with pytest and mypy.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::capability::Place;
use super::times::Times;
use super::{Choice, Rung, Torch, kernel, stage};
use crate::setup::{self, Need, TORCH_PYTHON};
use crate::wheel::{self, Wheels};
use test_report::{Reader, Skip, Tally};

/// Each rank of a test imports PyTorch: PyPI's takes seconds.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The wheels, or the reason why they can't be built.
pub type Built = Result<Wheels, String>;

pub fn build(from: Torch, times: &mut Times) -> Result<Built> {
    if let Err(why) = setup::obtainable(&[Need::Maturin]) {
        return Ok(Err(why));
    }
    atp_output::note!("building the wheels of the Python packages");
    let wheels = times.measure("build of the wheels", wheel::build)?;
    let (need, _) = from.parts();
    if setup::obtainable(&[need]).is_ok() {
        times.measure("installation of PyTorch", || setup::ensure(&[need]))?;
    }
    Ok(Ok(wheels))
}

/// The tests of the package `atp`, in an environment that has nothing else, and those of the
/// integration of PyTorch, in one that has it.
pub fn run(built: &Built, choice: &Choice, times: &mut Times) -> Result<Vec<Rung>> {
    let wheels = match built {
        Ok(wheels) => wheels,
        Err(why) => return Ok(vec![skipped("the Python packages", why)]),
    };
    atp_output::note!("tests of the Python package");
    let paths = setup::paths();
    let mut atp = setup::python();
    atp.arg(paths.workspace.join("bindings/python/tests/in_new_environment.py"));
    atp.arg(&wheels.atp).arg(paths.target.join("python-test")).args(choice.filter);
    let atp = times.measure("tests of the Python package", || run_tests("python", atp, choice))?;

    let (need, environment) = choice.torch.parts();
    if let Err(why) = setup::obtainable(&[need]) {
        return Ok(vec![atp, skipped("the integration of PyTorch", &why)]);
    }
    atp_output::note!("tests of the integration of PyTorch");
    let mut torch = match choice.torch {
        Torch::Debian => Command::new(TORCH_PYTHON),
        Torch::Pypi => Command::new(environment.join("bin/python")),
    };
    torch.arg(paths.workspace.join("integrations/pytorch/tests/in_new_environment.py"));
    torch.args([&wheels.atp, &wheels.torch]).arg(environment).args(choice.filter);
    let torch = times
        .measure("tests of the integration of PyTorch", || run_tests("torch", torch, choice))?;
    Ok(vec![atp, torch])
}

fn skipped(what: &str, why: &str) -> Rung {
    let skip = Skip { whole_rung: true, ..Skip::new(what, why) };
    Rung { place: Place::host(), tally: Tally { skips: vec![skip], ..Tally::default() } }
}

fn run_tests(name: &str, test: Command, choice: &Choice) -> Result<Rung> {
    let log = stage::log_path(name)?;
    let mut reader = Reader::new(name, choice.filter);
    let end = stage::run(test, &log, LIMIT, |line| reader.line(line))?;
    let tally = reader.finish(end.trouble);
    atp_output::note!("  {name}: {}", tally.summary());
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}
