//! Tests an honest job beside an attacker: each attacker sends each kind of packet, from the moment
//! at which the job's first packets arrive to its end. [`table::ROWS`] says what the attacker may
//! take: speed, never the guarantee. Rows that only a key would end are marked.
//!
//! The environment is that of the tests of `netns`. The sockets of daemon, metrics, `atp-run` and
//! collective have tests of their own, which the book's page "Resources" lists.

mod attack;
mod job;
mod table;

use atp_tests::took::timed;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use table::{ROWS, Row};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let rows = ROWS.iter().filter(|_| !testbed::pacing_only());
    libtest_mimic::run(&arguments, rows.map(trial).collect()).exit_code()
}

fn trial(row: &'static Row) -> Trial {
    let name = row.name();
    Trial::ignorable_test(name.clone(), move || {
        if let Some(reason) = testbed::missing() {
            println!("skipped: {name}: {reason}");
            return Ok(Completion::ignored_with(reason));
        }
        testbed::take_logs();
        timed(&name, || job::beside(row))
            .map(|()| Completion::Completed)
            .map_err(|error| Failed::from(format!("{error:#}\n{}", testbed::take_logs())))
    })
}
