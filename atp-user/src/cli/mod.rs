//! The command line, one file per command.

mod address;
mod csv_output;
mod decode;
mod doctor;
mod generate;
mod interfaces;
mod job;
mod policy;
mod query;
mod recv;
mod run;
mod send;
mod shuffled;
mod stats;
mod stop;

use crate::logging;
use anyhow::Result;
use atp_output::complain;
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// ATP, an approximate transport: delivers the share of messages that a job asks for
#[derive(Parser)]
#[command(name = "atp-user", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: attach the datapath to interfaces and control it, in the foreground
    Run(run::Args),
    /// Create, list and end jobs
    #[command(subcommand)]
    Job(job::Command),
    /// Send messages from a file or standard input
    Send(send::Args),
    /// Receive messages to a file or standard output
    Recv(recv::Args),
    /// Show lanes, rates and counters of the daemon: a screen, or text for scripts
    Stats(stats::Args),
    /// Print the ATP packets of a capture (pcap or pcapng)
    ///
    /// Prints one line per packet. A capture on the sending host shows a GSO buffer as one packet
    /// with its first header.
    Decode(decode::Args),
    /// Write man pages and shell completions, for packages
    #[command(hide = true)]
    Generate(generate::Args),
    /// Check whether this host, and the path to a peer, have what ATP needs
    ///
    /// Each check is fine, degraded, missing or not checked. The exit code is 1 if something that
    /// ATP needs is missing. Checks that need root are left out without it.
    Doctor(doctor::Args),
    /// Check the file of a policy, and show who may create jobs and how much they may use
    Policy(policy::Args),
    /// Stop the daemon and restore the host's interfaces
    Stop(stop::Args),
}

/// The option that names the daemon's control socket.
#[derive(clap::Args)]
struct ControlSocket {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", env = "ATP_SOCKET", default_value = "/run/atp/atp.sock")]
    socket: PathBuf,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let command = atp_output::parse::<Cli>().command;
    let is_daemon = matches!(command, Command::Run(_));
    atp_output::exit_code(dispatch(command), |error| {
        let print = move || complain!("error: {}", atp_options::sentence(&error));
        // A daemon ends even if its standard error is stuck.
        if is_daemon { logging::in_time(print) } else { print() }
    })
}

fn dispatch(command: Command) -> Result<()> {
    let _last_lines = match &command {
        Command::Run(args) => Some(logging::start_daemon(args.packet_log())),
        _ => {
            logging::start();
            None
        }
    };
    match command {
        Command::Run(args) => run::main(args),
        Command::Job(command) => job::main(command),
        Command::Send(args) => send::main(args),
        Command::Recv(args) => recv::main(args),
        Command::Stats(args) => stats::main(&args),
        Command::Decode(args) => decode::main(&args),
        Command::Generate(args) => generate::main(&args),
        Command::Doctor(args) => doctor::main(args),
        Command::Policy(args) => policy::main(&args),
        Command::Stop(args) => stop::main(&args),
    }
}
