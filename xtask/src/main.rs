//! The project's own commands: `cargo xtask run`, `test`, `bench`, `build`, `package` and others.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use clap::{Parser, Subcommand};

mod book;
mod build;
mod deny;
mod forward;
mod jar;
mod libatp;
mod package;
mod setup;
mod sources;
mod test;
mod tidy;
mod wheel;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Build, run, test and measure ATP",
    version
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the main job on a small network of this machine, or the daemon with --iface
    Run(forward::Args),
    /// Run every test that this machine can carry, and count passed, failed and skipped
    Test(test::Args),
    /// Run a benchmark: datapath, library, python, jvm, daemon, laws, training, kafka and others
    Bench(forward::Args),
    /// Run jobs for minutes while routes, qdiscs and interfaces change
    Soak(forward::Args),
    /// Build the eBPF programs and the daemon that carries them
    Build(build::Args),
    /// Install everything that the other commands need; they install it themselves as well
    Setup(setup::Args),
    /// Print the results of the fault tests as the page docs/src/results/faults.md
    FaultsTable(forward::Args),
    /// Build the book in docs/, and check the links of every Markdown file
    Book(book::Args),
    /// Build a Debian package and a tarball of the daemon
    Package(package::Args),
    /// Build the wheels of the Python packages atp and atp-torch
    Wheel(wheel::Args),
    /// Build the jars of the Java library, which carry the native one, and of Flink's connector
    Jar(jar::Args),
    /// Build the C library, and install it with its header and pkg-config file
    Libatp(libatp::Args),
    /// Check the licenses, sources and duplicates of dependencies
    Deny,
    /// Check sizes, names, imports and line lengths of the repository's files
    Tidy,
}

fn main() -> std::process::ExitCode {
    let outcome = match atp_output::parse::<Cli>().command {
        Command::Run(args) => args.start("run"),
        Command::Test(args) => test::main(args),
        Command::Bench(args) => args.start("bench"),
        Command::Soak(args) => args.start("soak"),
        Command::Build(args) => build::main(args),
        Command::Setup(args) => setup::main(args),
        Command::FaultsTable(args) => args.start("faults-table"),
        Command::Book(args) => book::main(&args),
        Command::Package(args) => package::main(&args),
        Command::Wheel(args) => wheel::main(&args),
        Command::Jar(args) => jar::main(&args),
        Command::Libatp(args) => libatp::main(args),
        Command::Deny => deny::main(),
        Command::Tidy => tidy::main(),
    };
    atp_output::exit_code(outcome, |error| atp_output::complain!("error: {error:#}"))
}
