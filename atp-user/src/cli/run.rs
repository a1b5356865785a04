//! `atp-user run`: runs the daemon.

use super::interfaces;
use crate::daemon::{self, Epochs, Options, PacingChoice, Switch};
use anyhow::{Context, Result, bail};
use atp_common::laws::{RateLaw, Rules};
use atp_datapath::{AckMark, PacketLog, XdpMode};
use atp_options::{law, quantity};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use switch_profiles::Profile;

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
    /// The queue profile of the switches: a file, or `default`, `paper` or `one-queue`, which the
    /// project ships; without it, the network is assumed to have one queue
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Who may create jobs, and how much the jobs of each may use: a file, which the daemon reads
    /// again on SIGHUP
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
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

/// Runs the daemon until it is stopped.
pub fn main(args: Args) -> Result<()> {
    let packet_log = args.packet_log();
    let profile = args.profile.as_deref().map(Profile::load).transpose()?;
    let stated = args.profile.as_deref().zip(profile.as_ref());
    let rules = rules(&args.law, stated)?;
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
        rules,
        profile,
        policy: args.policy,
        packet_log,
        metrics: args.metrics,
        object: args.object,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(daemon::BLOCKING_THREADS)
        .build()
        .context("can't start the event loop")?;
    let ended = runtime.block_on(daemon::run(options));
    // Doesn't wait for threads that still close descriptors of clients.
    runtime.shutdown_background();
    ended
}

/// The rules of all lanes. A profile may state the law that fits its queues. Without a profile the
/// network may have one queue for all traffic, in which only `yield` is fair to exact traffic.
fn rules(choice: &law::Choice, profile: Option<(&Path, &Profile)>) -> Result<Rules> {
    if let Some((path, profile)) = profile {
        return Ok(choice.rules_or(law_of(path, profile)?));
    }
    if choice.law.is_some() {
        return Ok(choice.rules());
    }
    tracing::info!(
        law = "yield",
        "neither --profile nor --law: assuming a network with one queue for all traffic"
    );
    Ok(choice.rules_or(RateLaw::UNKNOWN_NETWORK))
}

/// The law that a profile states, else the default for priority queues. `path` only appears in
/// errors.
fn law_of(path: &Path, profile: &Profile) -> Result<RateLaw> {
    let Some(stated) = profile.law() else { return Ok(RateLaw::default()) };
    match RateLaw::ALL.into_iter().find(|(_, name)| *name == stated) {
        Some((law, _)) => Ok(law),
        None => bail!(
            "the switch profile {} has the law {stated:?}, which isn't known: choose one of {}",
            path.display(),
            RateLaw::ALL.map(|(_, name)| name).join(", ")
        ),
    }
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
        let (path, profile) = (Path::new("default"), Profile::default());
        let profile = Some((path, &profile));
        let law = |choice, profile| rules(choice, profile).unwrap().law();
        assert_eq!(law(&none, None), RateLaw::Yield);
        assert_eq!(law(&none, profile), RateLaw::default());
        assert_eq!((law(&pi, None), law(&pi, profile)), (RateLaw::Pi, RateLaw::Pi));
    }

    /// The paper's profile with this law.
    fn with_law(law: &str) -> Profile {
        let text = include_str!("../../../switch-profiles/paper.toml");
        Profile::parse(&format!("law = {law:?}\n{text}"), Path::new("p.toml")).unwrap()
    }

    #[test]
    fn rules__have_the_law_of_the_profile_unless_another_is_named() {
        let path = Path::new("p.toml");
        let one_queue = Profile::one_queue();
        let rules_of = |choice: &law::Choice, profile: &Profile| {
            rules(choice, Some((path, profile))).unwrap().law()
        };
        assert_eq!(rules_of(&law::Choice::default(), &one_queue), RateLaw::Yield);
        for (law, name) in RateLaw::ALL {
            assert_eq!(rules_of(&law::Choice::default(), &with_law(name)), law);
            let choice = law::Choice { law: Some(law), ..law::Choice::default() };
            assert_eq!(rules_of(&choice, &one_queue), law);
        }
    }

    #[test]
    fn rules__refuse_an_unknown_law_of_a_profile() {
        let (path, profile) = (Path::new("p.toml"), with_law("fast"));
        for law in [None, Some(RateLaw::Pi)] {
            let choice = law::Choice { law, ..law::Choice::default() };
            let refusal = rules(&choice, Some((path, &profile))).unwrap_err();
            let refusal = refusal.to_string();
            for said in ["p.toml", "\"fast\"", "paper", "polite"] {
                assert!(refusal.contains(said), "{refusal}");
            }
        }
    }
}
