//! The tests of the Python package: its wheel in a new virtual environment, with pytest and mypy.

use std::time::Duration;

use anyhow::Result;

use super::Rung;
use super::capability::Place;
use super::{kernel, stage};
use crate::setup::{self, Need};
use crate::wheel;
use test_report::{Reader, Skip, Tally};

const LIMIT: Duration = Duration::from_secs(10 * 60);

pub fn run(filter: Option<&str>) -> Result<Rung> {
    println!("tests of the Python package");
    if let Err(why) = setup::obtainable(&[Need::Maturin]) {
        let skip = Skip { whole_rung: true, ..Skip::new("the Python package", &why) };
        let tally = Tally { skips: vec![skip], ..Tally::default() };
        return Ok(Rung { place: Place::host(), tally });
    }
    let wheel = wheel::build()?;
    let paths = setup::paths();
    let mut test = setup::python();
    test.arg(paths.workspace.join("bindings/python/tests/in_new_environment.py"));
    test.arg(wheel).arg(paths.target.join("python-test")).args(filter);
    let log = stage::log_path("python")?;
    let mut reader = Reader::new("python", filter);
    let end = stage::run(test, &log, LIMIT, |line| reader.line(line))?;
    let tally = reader.finish(end.trouble);
    println!("  python: {}", tally.summary());
    kernel::show_failures([&tally], &log);
    Ok(Rung { place: Place::host(), tally })
}
