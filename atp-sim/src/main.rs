//! The simulator's command line.

mod cli;

use std::{io, process::ExitCode};

/// The exit code of a program that SIGPIPE ended: 128 + 13.
const BROKEN_PIPE: u8 = 141;

fn main() -> ExitCode {
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            eprintln!("atp-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the output, such as `head`, has exited. That needs no message.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    kinds.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
