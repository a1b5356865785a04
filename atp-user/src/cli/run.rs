//! `atp-user run`

use crate::daemon::{self, Epochs, Options, PacingChoice};
use anyhow::{Context, Result, bail};
use atp_options::{law, quantity};
use std::{path::PathBuf, time::Duration};

/// The arguments of `run`.
#[derive(clap::Args)]
pub struct Args {
    /// The interface to attach to; repeat it for several
    #[arg(long = "iface", value_name = "DEV", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    control: super::ControlSocket,
    /// The folder for locks
    #[arg(long, value_name = "DIR", default_value = "/run/atp")]
    state_dir: PathBuf,
    /// The highest rate of a lane; the interface's speed by default
    #[arg(long, value_name = "RATE", value_parser = quantity::rate_bytes_per_s)]
    rate_max: Option<u64>,
    /// An epoch is one round trip, but never shorter than this [default: 2ms; 100us in the kernel]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    epoch: Option<Duration>,
    /// Who evaluates epochs
    #[arg(long, value_enum, value_name = "WHO", default_value = "daemon")]
    epochs: Epochs,
    /// How to pace
    #[arg(long, value_enum, default_value = "auto")]
    pacing: PacingChoice,
    #[command(flatten)]
    law: law::Choice,
    /// The queue profile of the switches
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Load this eBPF object instead of the one that the program carries
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

/// Threads that wait for the kernel in the control loop's place.
const WAITING_THREADS: usize = 8;

/// Runs the daemon until it is stopped.
pub fn main(args: Args) -> Result<()> {
    if let Some(twice) = duplicate(&args.interfaces) {
        bail!("--iface {twice} is there twice: name every interface once");
    }
    let options = Options {
        interfaces: args.interfaces,
        socket: args.control.socket,
        state_dir: args.state_dir,
        rate_max_bytes_per_s: args.rate_max,
        epoch_min: epoch(args.epoch, args.epochs)?,
        epochs: args.epochs,
        pacing: args.pacing,
        rules: args.law.rules(),
        profile: args.profile,
        object: args.object,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WAITING_THREADS)
        .build()
        .context("starting the event loop")?
        .block_on(daemon::run(options))
}

fn duplicate(interfaces: &[String]) -> Option<&String> {
    let seen_before = |(at, name): &(usize, &String)| interfaces[..*at].contains(name);
    interfaces.iter().enumerate().find(seen_before).map(|(_, name)| name)
}

fn epoch(wanted: Option<Duration>, epochs: Epochs) -> Result<Duration> {
    let epoch = wanted.unwrap_or(epochs.usual());
    let shortest = epochs.shortest();
    if !(shortest..=Duration::from_secs(1)).contains(&epoch) {
        bail!("--epoch {epoch:?} is outside {shortest:?} to 1s");
    }
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch__within_bounds_that_depend_on_who_evaluates() {
        use Epochs::{Daemon, Kernel};
        let us = |us| Some(Duration::from_micros(us));
        assert_eq!(epoch(None, Daemon).unwrap(), Duration::from_millis(2));
        assert_eq!(epoch(us(100), Kernel).unwrap(), epoch(None, Kernel).unwrap());
        assert!(epoch(us(100), Daemon).is_err() && epoch(us(9), Kernel).is_err());
        assert!(epoch(us(1_000_001), Daemon).is_err());
    }

    #[test]
    fn duplicate__finds_the_second_of_a_name() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(duplicate(&names("eth0 lo eth1 lo")).unwrap(), "lo");
        assert_eq!(duplicate(&names("eth0 eth1")), None);
    }
}
