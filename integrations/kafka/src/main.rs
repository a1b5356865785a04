//! `atp-kafka`: carries windows of topics over ATP, of which a stated share of the records arrives,
//! and back into a topic.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod client;
mod config;
mod lag;
mod metrics;
mod receive;
mod send;
mod stop;
mod systemd;
mod topic_id;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{io::IsTerminal, path::PathBuf};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

#[derive(Parser)]
#[command(
    name = "atp-kafka",
    about = "Carry windows of a topic over ATP, of which a stated share of the records arrives",
    version
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read topics, and send windows of their records to a receiver
    Send {
        /// The configuration
        config: PathBuf,
        /// Print what would be sent, and send nothing
        #[arg(long)]
        dry_run: bool,
        /// End once everything is confirmed that the topics have now
        #[arg(long, conflicts_with = "dry_run")]
        until_end: bool,
    },
    /// Print how far a sender's group has come, from the brokers alone
    Lag {
        /// The sender's configuration
        config: PathBuf,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Receive windows, and write their records into a topic
    Receive {
        /// The configuration
        config: PathBuf,
        /// Print what would be written, and receive nothing
        #[arg(long)]
        dry_run: bool,
    },
}

fn main() -> std::process::ExitCode {
    let cli = atp_output::parse::<Cli>();
    let outcome = stop::catch_signals().and_then(|()| run(cli.command));
    atp_output::exit_code(outcome, |error| atp_output::complain!("error: {error:#}"))
}

fn run(command: Command) -> Result<()> {
    log();
    match command {
        Command::Send { config, dry_run: true, .. } => send::dry_run(&config::read(&config)?),
        Command::Send { config, until_end, .. } => {
            send::run(&config::read(&config)?, send::Options { until_end })
        }
        Command::Lag { config, json } => lag::run(&config::read(&config)?, json),
        Command::Receive { config, dry_run: true } => receive::dry_run(&config::read(&config)?),
        Command::Receive { config, .. } => receive::run(&config::read(&config)?),
    }
}

/// Logs to standard error, at the level of `RUST_LOG`, or warnings and what this program does.
fn log() {
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let levels: Targets = asked.unwrap_or_else(|| {
        Targets::new().with_default(LevelFilter::WARN).with_target("atp_kafka", LevelFilter::INFO)
    });
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    // For all layers: a filter of one layer loses events behind a filtered one.
    tracing_subscriber::registry().with(levels).with(lines).init();
}
