//! The command line: one file per command.

mod job;
mod recv;
mod run;
mod send;
mod stats;
mod stop;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{io::IsTerminal, path::PathBuf, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// ATP: a network for jobs that can live with part of their data
#[derive(Parser)]
#[command(name = "atp-user", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Attach the datapath to interfaces and control it, in the foreground
    Run(run::Args),
    /// Make, list and end jobs
    #[command(subcommand)]
    Job(job::Command),
    /// Send messages from a file or standard input
    Send(send::Args),
    /// Receive messages to a file or standard output
    Recv(recv::Args),
    /// What the daemon sees
    Stats(stats::Args),
    /// Stop the daemon and leave the host as it was found
    Stop(stop::Args),
}

/// Where the daemon listens.
#[derive(clap::Args)]
struct ControlSocket {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", env = "ATP_SOCKET", default_value = "/run/atp/atp.sock")]
    socket: PathBuf,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", atp_options::sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// What prints, and does nothing else, ends like any other program when nobody reads on.
fn end_with_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler of ours is put in or out, and this process has one thread.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}

fn dispatch(command: Command) -> Result<()> {
    if matches!(command, Command::Job(_) | Command::Stats(_)) {
        end_with_reader();
    }
    match command {
        Command::Run(args) => run::main(args),
        Command::Job(command) => job::main(command),
        Command::Send(args) => send::main(args),
        Command::Recv(args) => recv::main(args),
        Command::Stats(args) => stats::main(&args),
        Command::Stop(args) => stop::main(&args),
    }
}
