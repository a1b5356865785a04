//! `cargo xtask bench daemon`: the processor time and memory of the daemon, all threads together:
//! without jobs, with many lanes idle and in use; how fast it registers jobs; and the processor
//! time of the screen.

mod registration;
mod screen;
mod share;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use approxlib::control::Client;
use approxlib::{Group, Job, Receiver};
use atp_common::maps::JOBS;
use atp_output::say;
use testbed::{Daemon, Launch, Pair, wait_for};

use super::options::{DaemonOption, require_root};
use super::table;
use crate::process_state::resident_kib;
use registration::{AT_ONCE, register};
use screen::Screen;
use share::{share, share_for};

#[derive(clap::Args)]
pub struct Args {
    /// Number of lanes: groups of a few jobs
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    lanes: u32,
    /// Number of jobs that register at once
    #[arg(long, default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(JOBS)))]
    jobs: u32,
    /// Seconds of each measurement, idle and in use
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// One-packet messages per second, over all lanes, while in use
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    messages: u32,
    /// The shortest epoch, the time between two runs of the control loop
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    epoch: String,
    #[command(flatten)]
    daemon: DaemonOption,
}

const GROUPS_MAX: u32 = 250;
const MESSAGE_BYTES: usize = 1_000;
/// Lanes on the screen.
const SCREEN_LANES: u32 = 200;
const POLL: Duration = Duration::from_millis(100);

/// What, its figure, and the goal.
type Row = [String; 3];

pub fn main(args: &Args) -> Result<()> {
    require_root("makes network namespaces and loads eBPF programs")?;
    let mut launch = args.daemon.launch()?;
    let pair = Pair::new()?;
    let epoch = args.epoch.clone().into();
    launch.options.extend([
        "--rate-max".into(),
        "1gbit".into(),
        "--profile".into(),
        "default".into(),
        "--epoch".into(),
        epoch,
    ]);
    let bench =
        Bench { args, pair: &pair, launch: &launch, daemon: Daemon::start(&pair.a, &launch)? };
    let mut rows = bench.without_jobs()?;
    let stop = AtomicBool::new(false);
    rows.extend(thread::scope(|scope| {
        let mut receiver = pair.b.namespace.enter(|| {
            let builder = Receiver::builder().control_socket(None);
            Ok(builder.bind((pair.b.ipv4, 0))?)
        })?;
        let peer = receiver.local_addr()?;
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Jobs that end without their report are no reason to stop.
                if receiver.recv(Some(POLL)).is_err() {
                    thread::sleep(POLL);
                }
            }
        });
        let rows = pair.a.namespace.enter(|| bench.with_jobs(peer));
        stop.store(true, Ordering::Relaxed);
        rows
    })?);
    say!("{}", table(["daemon", "measured", "goal"], 1, rows));
    say!("Lanes have epochs of {}. Shares are of one core, of all threads.", args.epoch);
    Ok(())
}

struct Bench<'a> {
    args: &'a Args,
    pair: &'a Pair,
    launch: &'a Launch,
    daemon: Daemon,
}

impl Bench<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    fn process(&self) -> u32 {
        self.daemon.process_id()
    }

    fn without_jobs(&self) -> Result<Vec<Row>> {
        let idle = share_for(self.process(), self.time())?;
        let resident_mib = resident_kib(self.process())? as f64 / 1024.0;
        Ok(vec![
            row("without jobs", percent(idle), "below 0.5 %"),
            row("without jobs, memory", format!("{resident_mib:.1} MiB"), "below 32 MiB"),
        ])
    }

    fn with_jobs(&self, peer: SocketAddr) -> Result<Vec<Row>> {
        let Args { lanes, messages, jobs, .. } = self.args;
        let (socket, process) = (self.daemon.socket(), self.process());
        let mut opened = open(*lanes, socket, peer)?;
        let idle = share_for(process, self.time())?;
        let in_use = share(process, || self.send(&mut opened))?;
        drop(opened);
        self.wait_until_idle()?;
        let took_s = register(*jobs, socket, self.pair.a.ipv4, peer)?.as_secs_f64();
        self.wait_until_idle()?;
        let registered = format!("{took_s:.2} s, {:.0}/s", f64::from(*jobs) / took_s);
        let mut opened = open(SCREEN_LANES, socket, peer)?;
        let mut screen = Screen::start(&self.pair.a, &self.launch.program, socket)?;
        let sending = AtomicBool::new(true);
        let drawing = thread::scope(|scope| {
            // Values that change are drawn again.
            let sender = scope.spawn(|| -> Result<()> {
                while sending.load(Ordering::Relaxed) {
                    self.send(&mut opened)?;
                }
                Ok(())
            });
            let drawing = screen.share(self.time());
            sending.store(false, Ordering::Relaxed);
            let sent = sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"));
            sent.and_then(|sent| sent).and(drawing)
        })?;
        Ok(vec![
            row(format!("{lanes} idle lanes"), percent(idle), "below 5 %"),
            row(format!("{lanes} lanes, {messages} messages/s"), percent(in_use), "below 5 %"),
            row(format!("{jobs} jobs register, {AT_ONCE} at once"), registered, "within 1 s"),
            row(format!("the screen, {SCREEN_LANES} lanes"), percent(drawing), "below 2 %"),
        ])
    }

    fn wait_until_idle(&self) -> Result<()> {
        wait_for("the daemon to forget its jobs", || {
            let stats = Client::connect(self.daemon.socket())?.stats()?;
            Ok((stats.jobs.is_empty() && stats.lanes.is_empty()).then_some(()))
        })
    }

    /// Sends messages to the lanes in round-robin order, evenly spaced.
    fn send(&self, jobs: &mut [(u32, Job)]) -> Result<()> {
        let message = [7; MESSAGE_BYTES];
        let (started, every) = (Instant::now(), Duration::from_secs(1) / self.args.messages);
        let mut sent = 0;
        loop {
            for (groups, job) in jobs.iter_mut() {
                for group in 0..*groups {
                    job.send_in(group as u8, &message)?;
                    sent += 1;
                    let ahead = (every * sent).saturating_sub(started.elapsed());
                    if ahead > Duration::from_millis(1) {
                        thread::sleep(ahead);
                    }
                    if started.elapsed() >= self.time() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn row(what: impl Into<String>, measured: String, goal: &str) -> Row {
    [what.into(), measured, goal.to_owned()]
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Opens jobs whose groups together have `lanes` lanes.
fn open(lanes: u32, socket: &Path, peer: SocketAddr) -> Result<Vec<(u32, Job)>> {
    let mut jobs = Vec::new();
    let mut left = lanes;
    while left > 0 {
        let groups = left.min(GROUPS_MAX);
        let each = (0..groups).map(|id| Group::new(id as u8).msr(0.9));
        let builder = Job::builder().groups(each).control_socket(Some(socket.to_owned()));
        jobs.push((groups, builder.connect(peer).context("opening lanes")?));
        left -= groups;
    }
    Ok(jobs)
}
