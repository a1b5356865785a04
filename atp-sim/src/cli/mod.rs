//! The commands of `atp-sim`: run, figure, book, main-job and map.

mod book;
mod documents;
mod explicit_options;
mod figure;
mod figure_tables;
mod main_job;
mod map;
mod notes;
mod repeat;
mod rows;
mod run;
mod run_table;
mod schemes;
mod seed_rows;
mod traffic;
mod values;

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use explicit_options::ExplicitOptions;
use std::{fs::File, io::Read, path::Path};

/// Simulate ATP and other transports on networks of hundreds of hosts.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one workload under one or several schemes and print a row of results for each
    Run(Box<run::Options>),
    /// Run the experiments of the paper's figures and write the results as JSON, CSV and SVG
    Figure(figure::Options),
    /// Draw the pictures of the book's page of figures from the numbers beside them
    Book(book::Options),
    /// Run the job of `cargo xtask run`: several senders to one host, beside exact requests
    MainJob(Box<main_job::Options>),
    /// Map where one scheme completes jobs faster than another; write JSON, CSV and SVG
    Map(Box<map::Options>),
}

/// Runs the command of the command line.
///
/// # Errors
/// If the command fails, with the reason.
pub fn run() -> Result<()> {
    let matches = atp_output::matches(Cli::command());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let explicit_options =
        matches.subcommand().map(|(_, of_command)| ExplicitOptions::of(of_command));
    match cli.command {
        Command::Run(options) => run::run(&options, &explicit_options.unwrap_or_default()),
        Command::Figure(options) => figure::run(&options),
        Command::Book(options) => book::run(&options),
        Command::MainJob(options) => main_job::run(&options),
        Command::Map(options) => map::run(&options),
    }
}

/// Reads a text file of at most `bytes_max` bytes. The limit guards against devices without an end.
fn read_file(path: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    let bytes = read.with_context(|| format!("cannot read {}", path.display()))?;
    if bytes as u64 > bytes_max {
        bail!("{} is longer than {bytes_max} bytes: choose a smaller file", path.display())
    }
    Ok(text)
}
