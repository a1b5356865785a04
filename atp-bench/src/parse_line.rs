//! Parses the options of a command in tests.

use clap::Parser;

#[derive(Parser)]
struct Cli<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

/// Parses `line`, the words after the command's name; the error is clap's text.
pub fn parse_line<A: clap::Args>(line: &str) -> Result<A, String> {
    let words = ["command"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.args).map_err(|error| error.to_string())
}
