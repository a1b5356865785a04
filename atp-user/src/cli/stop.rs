//! `atp-user stop`

use super::ControlSocket;
use anyhow::{Result, bail};
use approxlib::control::Client;
use std::{
    thread,
    time::{Duration, Instant},
};

/// The arguments of `stop`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    control: ControlSocket,
}

/// Asks the daemon to stop and waits until it has detached.
pub fn main(args: &Args) -> Result<()> {
    Client::connect(&args.control.socket)?.stop()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    // The socket goes last.
    while args.control.socket.exists() {
        if Instant::now() > deadline {
            bail!("the daemon did not end within 10 s: look at its log");
        }
        thread::sleep(Duration::from_millis(20));
    }
    println!("stopped");
    Ok(())
}
