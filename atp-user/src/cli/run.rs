//! `atp-user run`: runs the daemon.

use super::interfaces;
use crate::{
    daemon::{self, Epochs, Options, PacingChoice, Switch},
    datapath::{AckMark, PacketLog, XdpMode},
};
use anyhow::{Context, Result, bail};
use atp_common::laws::{RateLaw, Rules};
use atp_options::{law, quantity};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// The arguments of `run`.
#[derive(clap::Args)]
pub struct Args {
    /// An interface to attach to, by name or alternative name; repeat the option for several
    #[arg(long = "iface", value_name = "DEV", required = true)]
    interfaces: Vec<String>,
    #[command(flatten)]
    control: super::ControlSocket,
    /// The folder for locks
    #[arg(long, value_name = "DIR", default_value = "/run/atp")]
    state_dir: PathBuf,
    /// The highest rate of a lane; by default the speed of the slowest interface
    #[arg(long, value_name = "RATE", value_parser = quantity::rate_bytes_per_s)]
    rate_max: Option<u64>,
    /// The shortest epoch; epochs last one round trip or this long
    /// [default: 2ms, or 100us with --epochs kernel]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    epoch: Option<Duration>,
    /// The part of the system that evaluates epochs
    #[arg(long, value_enum, value_name = "WHERE", default_value = "daemon")]
    epochs: Epochs,
    /// Give advice to senders about their share of this host's line, and follow the advice of
    /// receivers
    #[arg(long, value_enum, value_name = "ON", default_value = "on")]
    advice: Switch,
    /// The pacing backend
    #[arg(long, value_enum, default_value = "auto")]
    pacing: PacingChoice,
    /// The hook that consumes ACKs
    #[arg(long, value_enum, default_value = "auto")]
    xdp: XdpMode,
    /// The packet mark of clones that become ACKs, or a range to draw it from; no other packet that
    /// leaves may carry it
    #[arg(long, value_name = "MARK|A..B", default_value = AckMark::DEFAULT,
          value_parser = AckMark::parse)]
    ack_mark: AckMark,
    #[command(flatten)]
    law: law::Choice,
    /// The queue profile of the switches: a file, or `default` or `paper`, which the project ships;
    /// without it, the network is assumed to have one queue
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Serve metrics for Prometheus, at http://ADDR/metrics [default: 127.0.0.1:9747]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:9747", value_parser = super::address::parse)]
    metrics: Option<SocketAddr>,
    /// Log single packets: those that the eBPF programs dropped, refused or did not acknowledge,
    /// and why (`debug`), and also each ACK (`trace`). Without this option the programs contain no
    /// code for it [default level: debug]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "debug")]
    log_packets: Option<PacketLog>,
    /// The eBPF object to load; by default the object that is built into this program
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

impl Args {
    /// The packets to log.
    pub(super) fn packet_log(&self) -> PacketLog {
        self.log_packets.unwrap_or_default()
    }
}

/// Threads for blocking system calls, outside the control loop.
const BLOCKING_THREADS: usize = 8;

/// Runs the daemon until it is stopped.
pub fn main(args: Args) -> Result<()> {
    let packet_log = args.packet_log();
    let options = Options {
        interfaces: interfaces::own_names(&args.interfaces)?,
        socket: args.control.socket,
        state_dir: args.state_dir,
        rate_max_bytes_per_s: args.rate_max,
        epoch_min: epoch(args.epoch, args.epochs)?,
        epochs: args.epochs,
        advice: args.advice,
        pacing: args.pacing,
        xdp: args.xdp,
        ack_mark: args.ack_mark,
        rules: rules(&args.law, args.profile.as_deref(), args.epochs)?,
        profile: args.profile,
        packet_log,
        metrics: args.metrics,
        object: args.object,
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("can't start the event loop")?
        .block_on(daemon::run(options))
}

/// The rules of all lanes. Without a profile the network may have one queue for all traffic, in
/// which only `polite` is fair to TCP.
fn rules(choice: &law::Choice, profile: Option<&Path>, epochs: Epochs) -> Result<Rules> {
    if profile.is_some() || choice.law.is_some() {
        return Ok(choice.rules());
    }
    if epochs == Epochs::Kernel {
        bail!(
            "`--epochs kernel` needs `--profile` or `--law`: without them the law is `polite`, \
             which runs in the daemon only. `--profile default` is the profile of this project"
        );
    }
    tracing::info!(
        law = "polite",
        "neither --profile nor --law: assuming a network with one queue for all traffic"
    );
    Ok(choice.rules_or(RateLaw::Tfrc))
}

fn epoch(wanted: Option<Duration>, epochs: Epochs) -> Result<Duration> {
    let epoch = wanted.unwrap_or(epochs.default_min());
    let shortest = epochs.lowest_min();
    if !(shortest..=Duration::from_secs(1)).contains(&epoch) {
        bail!("--epoch {epoch:?} is outside the range {shortest:?} to 1s");
    }
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch__bounds_depend_on_where_epochs_are_evaluated() {
        use Epochs::{Daemon, Kernel};
        let us = |us| Some(Duration::from_micros(us));
        assert_eq!(epoch(None, Daemon).unwrap(), Duration::from_millis(2));
        assert_eq!(epoch(us(100), Kernel).unwrap(), epoch(None, Kernel).unwrap());
        assert!(epoch(us(100), Daemon).is_err() && epoch(us(9), Kernel).is_err());
        assert!(epoch(us(1_000_001), Daemon).is_err());
    }

    #[test]
    fn rules__assume_one_queue_without_a_profile_and_a_law() {
        let (none, pi) = (law::Choice::default(), Some(RateLaw::Pi));
        let pi = law::Choice { law: pi, ..none.clone() };
        let profile = Some(Path::new("default"));
        let law = |choice, profile| rules(choice, profile, Epochs::Daemon).unwrap().law();
        assert_eq!(law(&none, None), RateLaw::Tfrc);
        assert_eq!(law(&none, profile), RateLaw::default());
        assert_eq!((law(&pi, None), law(&pi, profile)), (RateLaw::Pi, RateLaw::Pi));
        let refusal = rules(&none, None, Epochs::Kernel).unwrap_err().to_string();
        assert!(refusal.contains("--profile") && refusal.contains("--law"), "{refusal}");
        assert!(rules(&none, profile, Epochs::Kernel).is_ok());
        assert!(rules(&pi, None, Epochs::Kernel).is_ok());
    }
}
