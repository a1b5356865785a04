//! The load generator and the receivers of `cargo xtask bench kafka`, which starts them inside its
//! hosts and reads their lines of JSON.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod consume;
mod line;
mod produce;
mod records;
mod topic;
mod windows;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "kafka-load", about = "Load and receivers of the benchmark of Kafka's bridge")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a topic, and wait until it can be used
    Topic(topic::Args),
    /// Write records to a topic at a rate, each at its event time
    Produce(produce::Args),
    /// Read a topic as a plain consumer, and answer each window
    Consume(consume::Args),
    /// Receive windows over ATP, and answer each
    Windows(windows::Args),
}

fn main() -> std::process::ExitCode {
    let cli = atp_output::parse::<Cli>();
    let outcome = match cli.command {
        Command::Topic(args) => topic::main(&args),
        Command::Produce(args) => produce::main(&args),
        Command::Consume(args) => consume::main(&args),
        Command::Windows(args) => windows::main(&args),
    };
    atp_output::exit_code(outcome, |error: anyhow::Error| {
        atp_output::complain!("error: {error:#}");
    })
}

/// The time of day, milliseconds since 1970: event times are of this clock.
fn now_ms() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64() * 1e3
}

/// The number of the window of an event time.
fn window_of(time_ms: i64, length_ms: u64) -> i64 {
    time_ms.div_euclid(i64::try_from(length_ms).unwrap_or(i64::MAX).max(1))
}

/// Writes a line for the benchmark.
fn say(line: &line::Line) -> Result<()> {
    atp_output::say!("{}", serde_json::to_string(line)?);
    Ok(())
}
