//! Standard output whose loss is an error, and the exit code of a program.
//!
//! All programs of this project end alike:
//!
//! | standard output | the program |
//! |---|---|
//! | takes everything | ends with its own exit code |
//! | is full, closed, or open only for reading | says so in one sentence, and ends with 1 |
//! | is a pipe whose reader has exited, as after `\| head` | ends without a word, with 141 |
//!
//! `println!` panics instead, and takes a closed output for a good one. The lints
//! `clippy::print_stdout` and `clippy::print_stderr` forbid it in the programs.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod end;
mod stdout;
mod terminal;

pub use end::{EndWith, exit_code, matches, parse};
pub use stdout::{OutputError, Stdout, check, close_again_on_exec, note, write};
pub use terminal::{draws, has_color};

/// Prints a line to standard output, and returns the error if it can't be written.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::write(format!("{}\n", format_args!($($words)*)))? };
}

/// Prints a line to standard output. If it can't be written, the work goes on, and [`exit_code`]
/// reports the loss.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => { $crate::note(format!("{}\n", format_args!($($words)*))) };
}

/// Prints a line to standard error. Nobody can be told if it can't be written.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
