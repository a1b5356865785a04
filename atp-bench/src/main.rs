//! The main job, the benchmarks, the soak test and the fault table. `cargo xtask` builds and
//! installs the requirements, and starts this program.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod chart;
mod faults_table;
mod installed;
mod job;
mod machine_state;
mod median;
#[cfg(test)]
mod parse_line;
mod process_state;
mod result_file;
mod run;
mod soak;

use clap::{Parser, Subcommand};

/// Named after the command that starts it, so that readers can run what its help texts say.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Run and measure ATP", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the main job on a small network of this machine, or the daemon with --iface
    Run(run::Args),
    /// Run a benchmark
    Bench(bench::Args),
    /// Run jobs for minutes while routes, qdiscs and interfaces change
    Soak(soak::Args),
    /// Print the rows that the fault tests wrote, as a page of the book
    FaultsTable(faults_table::Args),
    /// One process of the main job in a host of the testbed, started by `run`
    #[command(hide = true)]
    Worker(job::worker::Args),
}

fn main() -> std::process::ExitCode {
    let outcome = match atp_output::parse::<Cli>().command {
        Command::Run(args) => match args.engine() {
            Some(run::Engine::Torch) => bench::demonstrate_training(),
            Some(run::Engine::Kafka) => bench::demonstrate_kafka(bench::KafkaEngine::Plain),
            Some(run::Engine::Flink) => bench::demonstrate_kafka(bench::KafkaEngine::Flink),
            None => run::main(args),
        },
        Command::Bench(args) => bench::main(args),
        Command::Soak(args) => soak::main(&args),
        Command::FaultsTable(args) => faults_table::main(args),
        Command::Worker(args) => job::worker::main(args),
    };
    atp_output::exit_code(outcome, |error| {
        atp_output::complain!("error: {}", atp_options::sentence(&error));
    })
}
