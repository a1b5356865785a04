//! Commands.

mod figure;
mod map;
mod run;
mod traffic;

use anyhow::Result;
use clap::{Parser, Subcommand};

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

/// Does what was asked.
pub fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Run(options) => run::run(&options),
        Command::Figure(options) => figure::run(&options),
        Command::Map(options) => map::run(&options),
    }
}
