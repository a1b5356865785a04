//! Commands.

mod documents;
mod figure;
mod given;
mod map;
mod notes;
mod run;
mod run_table;
mod schemes;
mod traffic;
mod values;

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use given::Given;
use std::{fs::File, io::Read, path::Path};

/// A line to standard output; whoever reads it may go away, which is an error and no panic.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write;
        let written = writeln!(std::io::stdout(), $($words)*);
        anyhow::Context::context(written, "can't write to standard output")?
    }};
}
use say;

/// ATP over hundreds of simulated hosts, beside other transports.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one workload under one or several schemes and prints what each made of it.
    Run(Box<run::Options>),
    /// Runs what the paper's figures show, and writes them as JSON, CSV and SVG.
    Figure(figure::Options),
    /// Draws where one scheme is done sooner than another, as JSON, CSV and SVG.
    Map(map::Options),
}

/// Does what the command line asks for.
///
/// # Errors
/// What can't be done, and why.
pub fn run() -> Result<()> {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let given = matches.subcommand().map(|(_, of_command)| Given::of(of_command));
    match cli.command {
        Command::Run(options) => run::run(&options, &given.unwrap_or_default()),
        Command::Figure(options) => figure::run(&options),
        Command::Map(options) => map::run(&options),
    }
}

/// A file of text that isn't longer than `bytes_max`, whatever it is.
fn read_file(path: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    let bytes = read.with_context(|| format!("can't read {}", path.display()))?;
    if bytes as u64 > bytes_max {
        bail!("{} is longer than {bytes_max} bytes", path.display())
    }
    Ok(text)
}
