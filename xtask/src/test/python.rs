//! The tests of the Python packages: wheels in new virtual environments, with pytest and mypy.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::capability::Place;
use super::{Rung, Torch, kernel, stage};
use crate::setup::{self, Need, TORCH_PYTHON};
use crate::wheel;
use test_report::{Reader, Skip, Tally};

/// Each rank of a test imports PyTorch: PyPI's takes seconds.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The tests of the package `atp`, in an environment that has nothing else, and those of the
/// integration of PyTorch, in one that has it.
pub fn run(filter: Option<&str>, from: Torch) -> Result<Vec<Rung>> {
    if let Err(why) = setup::obtainable(&[Need::Maturin]) {
        return Ok(vec![skipped("the Python packages", &why)]);
    }
    atp_output::note!("tests of the Python package");
    let wheels = wheel::build()?;
    let paths = setup::paths();
    let mut atp = setup::python();
    atp.arg(paths.workspace.join("bindings/python/tests/in_new_environment.py"));
    atp.arg(&wheels.atp).arg(paths.target.join("python-test")).args(filter);
    let atp = run_tests("python", atp, filter)?;

    let (need, environment) = from.parts();
    if let Err(why) = setup::obtainable(&[need]) {
        return Ok(vec![atp, skipped("the integration of PyTorch", &why)]);
    }
    atp_output::note!("tests of the integration of PyTorch");
    setup::ensure(&[need])?;
    let mut torch = match from {
        Torch::Debian => Command::new(TORCH_PYTHON),
        Torch::Pypi => Command::new(environment.join("bin/python")),
    };
    torch.arg(paths.workspace.join("integrations/pytorch/tests/in_new_environment.py"));
    torch.args([&wheels.atp, &wheels.torch]).arg(environment).args(filter);
    Ok(vec![atp, run_tests("torch", torch, filter)?])
}

fn skipped(what: &str, why: &str) -> Rung {
    let skip = Skip { whole_rung: true, ..Skip::new(what, why) };
    Rung { place: Place::host(), tally: Tally { skips: vec![skip], ..Tally::default() } }
}

fn run_tests(name: &str, test: Command, filter: Option<&str>) -> Result<Rung> {
    let log = stage::log_path(name)?;
    let mut reader = Reader::new(name, filter);
    let end = stage::run(test, &log, LIMIT, |line| reader.line(line))?;
    let tally = reader.finish(end.trouble);
    atp_output::note!("  {name}: {}", tally.summary());
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}
