//! Tests an honest job beside an attacker: each attacker sends each kind of packet. [`table::ROWS`]
//! says what the attacker may take: speed, never the guarantee. Rows that only a key would end are
//! marked. [`sockets::SOCKETS`] names the tests of each socket against each attacker.
//!
//! The environment is that of the tests of `netns`.

mod attack;
mod container;
mod job;
mod outcome;
mod sockets;
mod table;

use atp_tests::took::timed;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use table::{Attacker, ROWS, Row};

fn main() -> ExitCode {
    match container::attack_if_inside() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    }
    let arguments = Arguments::from_args();
    let rows = ROWS.iter().filter(|_| !testbed::pacing_only()).map(trial);
    libtest_mimic::run(&arguments, rows.chain([sockets::trial()]).collect()).exit_code()
}

fn trial(row: &'static Row) -> Trial {
    let name = row.name();
    Trial::ignorable_test(name.clone(), move || {
        let missing = match row.attacker {
            Attacker::SendersTenant => testbed::missing_for_cgroups(),
            _ => testbed::missing(),
        };
        if let Some(reason) = missing {
            println!("skipped: {name}: {reason}");
            return Ok(Completion::ignored_with(reason));
        }
        testbed::take_logs();
        timed(&name, || job::beside(row))
            .map(|()| Completion::Completed)
            .map_err(|error| Failed::from(format!("{error:#}\n{}", testbed::take_logs())))
    })
}
