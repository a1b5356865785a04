//! The last rung: a soak test of two minutes.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Rung, logs};
use crate::setup::Machine;
use test_report::{Failure, Skip, Tally, watch};

const MINUTES: &str = "2";
/// The limit includes the build, the warm-up and an end that waits.
const LIMIT: Duration = Duration::from_secs(15 * 60);

pub fn run() -> Result<Rung> {
    let mut tally = Tally::default();
    if Machine::this().is_root() {
        atp_output::note!("soak test of {MINUTES} minutes");
        // A process of its own: the command replaces its process by the program.
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["soak", "--minutes", MINUTES]);
        let log = logs::path("soak-host")?;
        match watch::run(command, &log, LIMIT, |line| atp_output::note!("  {line}"))?.trouble {
            None => tally.passed = 1,
            Some(how) => tally.failures.push(Failure::Other(format!("soak: {how}"))),
        }
        logs::show_failures([&tally], &log);
    } else {
        tally.skips.push(Skip::new("soak", "needs root"));
    }
    Ok(Rung::here(tally))
}
