//! The project's own commands: `cargo xtask setup|build|run|test|bench|tidy`.

use clap::{Parser, Subcommand};

mod bench;
mod book;
mod build;
mod faults_table;
mod json_file;
mod median;
mod run;
mod setup;
mod test;
mod tidy;

// `crate::testbed` for the modules above; it is in the library, for the tests as well.
use xtask::testbed;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set up, build, run, test and measure ATP", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the other commands need; does nothing the second time
    Setup(setup::Args),
    /// Build the eBPF programs and the daemon that carries them
    Build(build::Args),
    /// The main job on the testbed, or, with --iface, the daemon on a real interface
    Run(run::Args),
    /// Every test that this machine can carry, then counts of passed, failed and skipped
    Test(test::Args),
    /// Benchmarks: datapath, library
    Bench(bench::Args),
    /// The rows that the fault tests wrote, as the page docs/faults.md
    FaultsTable(faults_table::Args),
    /// Build the book in docs/, after checking the links of every Markdown file
    Book(book::Args),
    /// Rules of the repository that no compiler checks
    Tidy,
    /// One process of the main job inside a testbed namespace; started by `run`
    #[command(hide = true)]
    Worker(run::worker::Args),
}

fn main() -> std::process::ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup(args) => setup::main(args),
        Command::Build(args) => build::main(args),
        Command::Run(args) => run::main(args),
        Command::Test(args) => test::main(args),
        Command::Bench(args) => bench::main(args),
        Command::FaultsTable(args) => faults_table::main(args),
        Command::Book(args) => book::main(&args),
        Command::Tidy => tidy::main(),
        Command::Worker(args) => run::worker::main(args),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", atp_user::cli::sentence(&error));
            std::process::ExitCode::FAILURE
        }
    }
}
