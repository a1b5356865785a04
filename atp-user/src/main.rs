//! `atp-user`: see `atp-user --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    atp_user::cli::main()
}
