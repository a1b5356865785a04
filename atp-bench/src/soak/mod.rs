//! `cargo xtask soak`: two hosts under load, whose routes, qdiscs and interfaces change all the
//! time. With `--strangers`, other users and hosts attack instead. In the end nothing may be left
//! behind: descriptors, memory, qdiscs.

mod carried;
mod change;
mod host_state;
mod load;
mod metrics_strangers;
mod ranks;
mod run_strangers;
mod strangers;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use atp_output::say;
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use testbed::{Daemon, Pair, Star};

use crate::bench::{DaemonOption, require_root, table};
use change::{Change, SecondCable};
use host_state::{ProcessState, qdiscs};
use load::{Counts, Load, RATE_MAX, RATE_MAX_BYTES_PER_S, SENDERS};
use ranks::{Ranks, Reduced};

#[derive(clap::Args)]
pub struct Args {
    /// Minutes under load
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Seconds from one change to the next
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=600))]
    every: u64,
    /// The seed of the order of changes, to replay a run
    #[arg(long)]
    seed: Option<u64>,
    /// Let strangers attack, in place of the changes: other users, another host, forged packets
    #[arg(long, conflicts_with_all = ["every", "seed"])]
    strangers: bool,
    #[command(flatten)]
    daemon: DaemonOption,
}

/// The user of the senders.
const ROOT: u32 = 0;
/// The user of the senders beside strangers.
const HONEST_USER: u32 = 1_000;
/// A change lasts so long before it is undone.
const CHANGE_TIME: Duration = Duration::from_secs(5);
/// After a change, and after it is undone, packets may leave faster than their lanes for so long.
/// Without its qdisc, HTB's packets are unpaced until the daemon has noticed.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// The most that the host may send per second outside of these times, relative to its lanes' rates.
const EXCESS_MAX: f64 = 1.3;
/// The most memory that a daemon may gain, KiB: allocators keep some.
const GROWTH_MAX_KIB: u64 = 8 * 1024;

pub fn main(args: &Args) -> Result<()> {
    require_root("makes network namespaces and loads eBPF programs")?;
    if args.strangers {
        return beside_strangers(args);
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    say!("seed {seed}: replay with --seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut launch = args.daemon.launch()?;
    let options = ["--profile", "default", "--rate-max", RATE_MAX];
    launch.options.extend(options.map(Into::into));
    let pair = Pair::new()?;
    let cable = SecondCable::new(&pair)?;
    let qdiscs_before = [qdiscs(&pair.a)?, qdiscs(&pair.b)?];
    let daemons = [Daemon::start(&pair.a, &launch)?, Daemon::start(&pair.b, &launch)?];

    // Every change once, before memory and descriptors are counted: much is made at first use.
    let warm = run(&pair, &cable, &daemons, &Change::ALL, Duration::from_secs(10))?;
    say!("warm-up: {}", warm.counts);
    let before = idle_states(&daemons)?;
    let number = (args.minutes * 60).div_ceil(args.every).max(1);
    let changes: Vec<Change> = (0..number).map(|_| pick(&mut random)).collect();
    let soaked = run(&pair, &cable, &daemons, &changes, Duration::from_secs(args.every))?;
    let after = idle_states(&daemons)?;

    let rows = before.iter().zip(&after).zip(["sender", "receiver"]);
    let rows = rows.flat_map(|((before, after), name)| ProcessState::rows(name, before, after));
    say!("{}", table(["daemon", "", "before", "after"], 2, rows));
    say!("jobs: {}", soaked.counts);
    say!(
        "highest rate outside of changes: {:.2} of the lanes' rates ({EXCESS_MAX} allowed)",
        soaked.highest_share
    );
    for daemon in daemons {
        daemon.stop()?;
    }
    let qdiscs_after = [qdiscs(&pair.a)?, qdiscs(&pair.b)?];
    ensure!(qdiscs_before == qdiscs_after, "qdiscs left: {qdiscs_before:?} {qdiscs_after:?}");
    for (before, after) in before.iter().zip(&after) {
        before.expect_no_more(after, GROWTH_MAX_KIB)?;
    }
    ensure!(soaked.counts.short == 0, "jobs ended with success below their sampling rate");
    ensure!(soaked.counts.complete > 0, "no job was complete");
    ensure!(soaked.highest_share <= EXCESS_MAX, "lanes were unpaced");
    say!("nothing was left behind");
    Ok(())
}

/// Honest jobs and a collective of an ordinary user, and an ordinary server under `atp-run`, while
/// strangers of each kind are at work. No job may fail.
fn beside_strangers(args: &Args) -> Result<()> {
    let mut launch = args.daemon.launch()?;
    let options = ["--profile", "default", "--rate-max", RATE_MAX, "--metrics"];
    launch.options.extend(options.map(Into::into));
    let star = Star::new(3)?;
    let [from, to, _] = &star.hosts[..] else { bail!("not three hosts") };
    let daemons = [Daemon::start(from, &launch)?, Daemon::start(to, &launch)?];
    for daemon in &daemons {
        let folder = daemon.socket().parent().context("a socket without a folder")?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    }
    let server = carried::Server::start(to)?;
    let fresh = server.state()?;
    let attack = |time: Duration| attack(&star, &daemons, time);
    // Much is made at first use, and an allocator's memory grows for some minutes.
    let warm_up = attack(Duration::from_secs(args.minutes * 60 / 2))?;
    say!("warm-up: {}", warm_up.counts);
    let [from_before, to_before] = idle_states(&daemons)?;
    let server_before = server.state()?;
    let Attacked { counts, carried: [lines, datagrams], reduced, ranks } =
        attack(Duration::from_secs(args.minutes * 60))?;
    let [from_after, to_after] = idle_states(&daemons)?;
    let server_after = server.state()?;
    let [ranks_before, ranks_after] = ranks;
    let before = [from_before, to_before, server_before, ranks_before[0], ranks_before[1]];
    let after = [from_after, to_after, server_after, ranks_after[0], ranks_after[1]];
    let names =
        ["sender's daemon", "receiver's daemon", "server under atp-run", "rank 0", "rank 1"];
    let rows = before.iter().zip(&after).zip(names);
    let rows = rows.flat_map(|((before, after), name)| ProcessState::rows(name, before, after));
    say!("{}", table(["process", "", "before", "after"], 2, rows));
    say!("the server under atp-run before any stranger: {fresh:?}");
    say!("jobs: {counts}");
    say!("under atp-run: {lines} lines and {datagrams} datagrams came back, each as it was sent");
    let Reduced { steps, refused } = reduced;
    say!("collective: {steps} exact means; {refused} messages of strangers were refused");
    for daemon in daemons {
        daemon.stop()?;
    }
    // No stranger's connection stays. The sockets of senders of datagrams may, until others need
    // their places.
    let server = fresh.with_descriptors(carried::SENDERS_MAX);
    let expected = [from_before, to_before, server, ranks_before[0], ranks_before[1]];
    let growth_max_kib =
        [GROWTH_MAX_KIB, GROWTH_MAX_KIB, GROWTH_MAX_KIB, ranks::PLACES_KIB, ranks::PLACES_KIB];
    for ((before, after), growth_max_kib) in expected.iter().zip(&after).zip(growth_max_kib) {
        before.expect_no_more(after, growth_max_kib)?;
    }
    ensure!(counts.short == 0 && counts.failed == 0, "strangers broke jobs: {counts}");
    ensure!(counts.complete > 0 && lines > 0, "no job was complete");
    ensure!(refused > 0, "no stranger reached a rank");
    ensure!(counts.in_ebpf == counts.complete, "strangers drove jobs out of the kernel: {counts}");
    say!("every job kept its guarantee, and nothing was left behind");
    Ok(())
}

/// The results of a time beside strangers.
struct Attacked {
    counts: Counts,
    /// The lines and datagrams that came back under `atp-run`.
    carried: [u64; 2],
    reduced: Reduced,
    /// The ranks after a fifth of the time, and at its end.
    ranks: [[ProcessState; 2]; 2],
}

/// Lets strangers of each kind work for this time.
fn attack(star: &Star, daemons: &[Daemon; 2], time: Duration) -> Result<Attacked> {
    let [from, to, _] = &star.hosts[..] else { bail!("not three hosts") };
    let load = Load::start(from, to, daemons, HONEST_USER)?;
    let client = carried::Client::start(from, to)?;
    let ranks = Ranks::start([(to, &daemons[1]), (from, &daemons[0])], HONEST_USER)?;
    let ((counts, carried, states), done) = strangers::beside(star, daemons, &ranks, || {
        std::thread::sleep(time / 5);
        let before = ranks.states()?;
        std::thread::sleep(time * 4 / 5);
        let after = ranks.states()?;
        let carried = client.finish();
        Ok((load.finish()?, carried?, [before, after]))
    })?;
    say!("{}", table(["stranger", "what it did", "count"], 2, done));
    Ok(Attacked { counts, carried, reduced: ranks.finish()?, ranks: states })
}

fn pick(random: &mut ChaCha8Rng) -> Change {
    Change::ALL[random.random_range(0..Change::ALL.len())]
}

/// The results of a run under load.
struct Soaked {
    counts: Counts,
    /// The highest rate of the sending host in a second without a recent change, relative to the
    /// sum of what its lanes may send.
    highest_share: f64,
}

/// Sends jobs while the changes happen one after the other.
fn run(
    pair: &Pair,
    cable: &SecondCable,
    daemons: &[Daemon; 2],
    changes: &[Change],
    every: Duration,
) -> Result<Soaked> {
    let load = Load::start(&pair.a, &pair.b, daemons, ROOT)?;
    let mut watch = RateWatch { last: None, highest_share: 0.0 };
    for (index, change) in changes.iter().enumerate() {
        let started = Instant::now();
        let failed = || format!("change {}: {change:?}", index + 1);
        say!("{:>3} of {}: {change:?}", index + 1, changes.len());
        change.make(pair, cable).with_context(failed)?;
        watch.for_a_while(pair, CHANGE_TIME, None)?;
        change.undo(pair, cable).with_context(failed)?;
        let rest = every.saturating_sub(started.elapsed());
        watch.for_a_while(pair, rest, Some(SETTLING_TIME))?;
    }
    let counts = load.finish()?;
    Ok(Soaked { counts, highest_share: watch.highest_share })
}

/// Watches the rate at which the sending host sends.
struct RateWatch {
    /// The bytes sent at a time, on both cables.
    last: Option<(Instant, u64)>,
    highest_share: f64,
}

impl RateWatch {
    /// Looks once a second. The rate counts after `settled`; never without it.
    fn for_a_while(
        &mut self,
        pair: &Pair,
        time: Duration,
        settled: Option<Duration>,
    ) -> Result<()> {
        let begin = Instant::now();
        self.last = None;
        while begin.elapsed() < time {
            let left = time.saturating_sub(begin.elapsed());
            std::thread::sleep(left.min(Duration::from_secs(1)));
            let is_settled = settled.is_some_and(|settled| begin.elapsed() > settled);
            let now = (Instant::now(), host_state::sent_bytes(&pair.a)?);
            if is_settled && let Some((then, sent)) = self.last {
                let bytes = now.1.saturating_sub(sent) as f64;
                let allowed = (SENDERS as u64 * RATE_MAX_BYTES_PER_S) as f64;
                let share = bytes / now.0.duration_since(then).as_secs_f64() / allowed;
                self.highest_share = self.highest_share.max(share);
            }
            self.last = is_settled.then_some(now);
        }
        Ok(())
    }
}

/// Descriptors, memory and threads of both daemons without jobs.
fn idle_states(daemons: &[Daemon; 2]) -> Result<[ProcessState; 2]> {
    // Connections that a process closed are noticed a moment later.
    std::thread::sleep(Duration::from_secs(3));
    for daemon in daemons {
        let stats = daemon.stats()?;
        ensure!(stats.lanes.is_empty() && stats.jobs.is_empty(), "left behind: {stats:?}");
    }
    let [a, b] = daemons.each_ref().map(|daemon| ProcessState::of(daemon.process_id()));
    Ok([a?, b?])
}
