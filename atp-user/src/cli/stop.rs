//! `atp-user stop`: stops the daemon, or cleans up after a crashed one.

use super::ControlSocket;
use crate::daemon;
use anyhow::{Result, bail};
use approxlib::control::{Client, ClientError};
use atp_output::say;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The arguments of `stop`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    control: ControlSocket,
    /// The folder of the daemon's locks
    #[arg(long, value_name = "DIR", default_value = "/run/atp")]
    state_dir: PathBuf,
}

/// Asks the daemon to stop and waits until it has detached. Cleans up after a crashed daemon.
pub fn main(args: &Args) -> Result<()> {
    match Client::connect(&args.control.socket) {
        Ok(client) => stop(&client, &args.control.socket),
        Err(error) if is_absent(&error) => clean_up(args, error),
        Err(error) => Err(error.into()),
    }
}

fn stop(client: &Client, socket: &Path) -> Result<()> {
    client.stop()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    // The daemon removes its socket last.
    while socket.exists() {
        if Instant::now() > deadline {
            bail!("the daemon at {} didn't end within 10 s: look at its log", socket.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
    say!("stopped");
    Ok(())
}

fn is_absent(error: &ClientError) -> bool {
    let ClientError::NoDaemon { source, .. } = error else { return false };
    matches!(source.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}

fn clean_up(args: &Args, no_daemon: ClientError) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Err(no_daemon.into());
    }
    let daemon::Leftovers { removed, kept } =
        daemon::clean_up(&args.control.socket, &args.state_dir)?;
    if removed.is_empty() {
        return Err(no_daemon.into());
    }
    let kept = match kept.as_slice() {
        [] => String::new(),
        kept => format!("; left alone, as no file of a daemon: {}", kept.join(", ")),
    };
    let removed = removed.join(", ");
    say!("no daemon was running; removed the remains of a crashed one: {removed}{kept}");
    Ok(())
}
