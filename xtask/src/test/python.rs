//! The tests of the Python packages: wheels in new virtual environments, with pytest and mypy.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Rung;
use super::capability::Place;
use super::{kernel, stage};
use crate::setup::{self, Need, TORCH_PYTHON};
use crate::wheel;
use test_report::{Reader, Skip, Tally};

const LIMIT: Duration = Duration::from_secs(10 * 60);

/// The tests of the package `atp`, in an environment that has nothing else, and those of the
/// integration of PyTorch, in one that has Debian's.
pub fn run(filter: Option<&str>) -> Result<Vec<Rung>> {
    if let Err(why) = setup::obtainable(&[Need::Maturin]) {
        return Ok(vec![skipped("the Python packages", &why)]);
    }
    println!("tests of the Python package");
    let wheels = wheel::build()?;
    let paths = setup::paths();
    let mut atp = setup::python();
    atp.arg(paths.workspace.join("bindings/python/tests/in_new_environment.py"));
    atp.arg(&wheels.atp).arg(paths.target.join("python-test")).args(filter);
    let atp = run_tests("python", atp, filter)?;

    if let Err(why) = setup::obtainable(&[Need::Torch]) {
        return Ok(vec![atp, skipped("the integration of PyTorch", &why)]);
    }
    println!("tests of the integration of PyTorch");
    setup::ensure(&[Need::Torch])?;
    let mut torch = Command::new(TORCH_PYTHON);
    torch.arg(paths.workspace.join("integrations/pytorch/tests/in_new_environment.py"));
    torch.args([&wheels.atp, &wheels.torch, &paths.torch_test]).args(filter);
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
    println!("  {name}: {}", tally.summary());
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}
