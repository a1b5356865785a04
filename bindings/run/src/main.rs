//! `atp-run`: starts a program whose datagrams and frames to and from some ports travel as ATP
//! messages.

#![deny(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
mod claims;
#[cfg(test)]
mod cutter;
#[cfg(test)]
mod datagram;
mod framing;
#[cfg(test)]
mod hosts;
mod map;
mod program;
#[cfg(test)]
#[path = "tcp/record.rs"]
mod record;
#[cfg(test)]
#[path = "tcp/room.rs"]
mod room;
#[cfg(test)]
mod secret;
mod watch;

use anyhow::{Context, Result, ensure};
use atp_output::complain;
use clap::Parser;
use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

const LIBRARY: &str = "libatp_run.so";

/// Run an unmodified program, and carry its datagrams and frames as ATP messages
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// A port and its settings, such as 8125=msr:0.9,window:1s or 5140=tcp:lines; repeat it for
    /// several ports
    #[arg(long, value_name = "PORT[=SETTINGS]", required = true)]
    map: Vec<String>,
    /// Append counts of datagrams to this file when the program exits
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The library to load; default: libatp_run.so beside this program, or in ../lib
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Don't watch for raw socket calls and io_uring, which need a seccomp filter
    #[arg(long)]
    no_watch: bool,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(atp_output::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            complain!("atp-run: {error:#}");
            ExitCode::from(125)
        }
    }
}

fn run(cli: Cli) -> Result<std::convert::Infallible> {
    let rules = cli.map.join(";");
    map::parse(&rules)?;
    let found = program::find(&cli.program[0])?;
    program::check(&found)?;
    let library = library(cli.library)?;
    // ld.so divides the list at these, and has no way to quote them.
    let is_plain = !library.to_string_lossy().contains([' ', ':']);
    ensure!(is_plain, "{} has a space or a colon: move it", library.display());
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(&found);
    command.arg0(&cli.program[0]).args(&cli.program[1..]);
    command.env("LD_PRELOAD", preload).env(map::VARIABLE, rules);
    if let Some(report) = cli.report {
        command.env(map::REPORT_VARIABLE, std::path::absolute(report)?);
    }
    if !cli.no_watch
        && let Err(error) = watch::start()
    {
        complain!("atp-run: raw socket calls and io_uring aren't reported: {error:#}");
    }
    atp_output::close_again_on_exec();
    let error = command.exec();
    Err(error).with_context(|| format!("can't start {}", found.display()))
}

/// The library, at the place that was named or beside this program.
fn library(named: Option<PathBuf>) -> Result<PathBuf> {
    let own = std::env::current_exe().context("can't find this program's folder")?;
    let folder = own.parent().context("a program lies in a folder")?;
    let places = match named {
        Some(named) => vec![std::path::absolute(named)?],
        None => vec![folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)],
    };
    let shown = places[0].display().to_string();
    let found = places.into_iter().find(|place| place.is_file());
    found.with_context(|| format!("{shown} isn't there: name the library with --library"))
}
