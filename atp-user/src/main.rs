//! The program `atp-user`.

use std::process::ExitCode;

fn main() -> ExitCode {
    atp_user::cli::main()
}
