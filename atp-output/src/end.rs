//! The first and the last lines of `main`: the command line, and the exit code.

use crate::{
    complain,
    stdout::{OutputError, check, write},
    terminal::has_color,
};
use clap::{ArgMatches, Command, Parser};
use std::{
    error::Error,
    fmt,
    io::{Write, stderr, stdout},
    process::{ExitCode, exit},
};

/// The exit code of a program that SIGPIPE ended, as shells see it: 128 + 13.
const BROKEN_PIPE: u8 = 141;

/// Parses the command line. `--help`, `--version` and errors end the program.
pub fn parse<C: Parser>() -> C {
    C::try_parse().unwrap_or_else(|error| leave(&error))
}

/// As [`parse`], for programs that need clap's own result.
pub fn matches(command: Command) -> ArgMatches {
    command.try_get_matches().unwrap_or_else(|error| leave(&error))
}

/// Prints the help, the version or the error, and exits.
fn leave(error: &clap::Error) -> ! {
    let rendered = error.render();
    let text = |color| if color { rendered.ansi().to_string() } else { rendered.to_string() };
    if error.use_stderr() {
        let _ = stderr().write_all(text(has_color(&stderr())).as_bytes());
        exit(error.exit_code())
    }
    match write(text(has_color(&stdout()))) {
        Ok(()) => exit(0),
        Err(lost) if lost.is_broken_pipe() => exit(BROKEN_PIPE.into()),
        Err(lost) => {
            complain!("error: {lost}");
            exit(1)
        }
    }
}

/// An end of a program with an exit code of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndWith {
    /// The exit code.
    pub code: u8,
    /// The sentence for standard error.
    pub message: String,
}

impl fmt::Display for EndWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for EndWith {}

/// The exit code of a program that ended so. `report` prints the error, unless it is a broken pipe
/// of standard output.
pub fn exit_code(outcome: anyhow::Result<()>, report: impl FnOnce(anyhow::Error)) -> ExitCode {
    let Err(error) = outcome.and_then(|()| Ok(check()?)) else { return ExitCode::SUCCESS };
    if OutputError::find(&error).is_some_and(OutputError::is_broken_pipe) {
        return ExitCode::from(BROKEN_PIPE);
    }
    let code = error.downcast_ref::<EndWith>().map(|end| ExitCode::from(end.code));
    report(error);
    code.unwrap_or(ExitCode::FAILURE)
}
