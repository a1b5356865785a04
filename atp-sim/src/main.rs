//! The simulator's command line.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use atp_output::complain;
use std::process::ExitCode;

fn main() -> ExitCode {
    atp_output::exit_code(cli::run(), |error| complain!("atp-sim: {error:#}"))
}
