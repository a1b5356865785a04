//! `cargo xtask bench daemon`: the processor time and memory of the daemon, all threads together:
//! without jobs, with many lanes idle and in use.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use approxlib::{Group, Job, Receiver};

use testbed::{Daemon, Pair};

use super::library::Clock;
use super::options::{DaemonOption, require_root};
use super::table;
use crate::installed;

#[derive(clap::Args)]
pub struct Args {
    /// Number of lanes: groups of a few jobs
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=4_000))]
    lanes: u32,
    /// Seconds of each measurement, idle and in use
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// One-packet messages per second, over all lanes, while in use
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    messages: u32,
    #[command(flatten)]
    daemon: DaemonOption,
}

const GROUPS_MAX: u32 = 250;
const MESSAGE_BYTES: usize = 1_000;

pub fn main(args: &Args) -> Result<()> {
    require_root("makes network namespaces and loads eBPF programs")?;
    let mut launch = args.daemon.launch()?;
    let pair = Pair::new()?;
    let profile = installed::default_profile();
    launch.options.extend([
        "--rate-max".into(),
        "1gbit".into(),
        "--epoch".into(),
        "10ms".into(),
        "--profile".into(),
        profile.into(),
    ]);
    let daemon = Daemon::start(&pair.a, &launch)?;
    let process = daemon.process_id();
    let without_jobs = share(process, || {
        thread::sleep(Duration::from_secs(args.seconds));
        Ok(())
    })?;
    let resident_kb = resident_kb(process)?;
    let stop = AtomicBool::new(false);
    let shares =
        thread::scope(|scope| {
            let mut receiver = pair.b.namespace.enter(|| {
                let builder = Receiver::builder().control_socket(None);
                Ok(builder.bind((pair.b.ipv4, 0).into())?)
            })?;
            let peer = receiver.local_addr()?;
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && receiver.recv(Some(POLL)).is_ok() {}
            });
            let shares = pair.a.namespace.enter(|| watch(args, &daemon, peer));
            stop.store(true, Ordering::Relaxed);
            shares
        })?;
    let row = |(name, share): (String, f64)| [name, format!("{:.2} %", 100.0 * share)];
    let header = ["daemon, epochs of 10 ms", "share of a core"];
    println!("without jobs the daemon has {resident_kb} kB of memory");
    println!(
        "{}",
        table(
            header,
            1,
            [("without jobs".to_owned(), without_jobs)].into_iter().chain(shares).map(row)
        )
    );
    Ok(())
}

const POLL: Duration = Duration::from_millis(100);

fn watch(args: &Args, daemon: &Daemon, peer: std::net::SocketAddr) -> Result<Vec<(String, f64)>> {
    let process = daemon.process_id();
    let wait = || {
        thread::sleep(Duration::from_secs(args.seconds));
        Ok(())
    };
    let mut shares = Vec::new();
    let mut jobs = open(args.lanes, daemon.socket(), peer)?;
    shares.push((format!("{} idle lanes", args.lanes), share(process, wait)?));
    let in_use = share(process, || send(args, &mut jobs))?;
    shares.push((format!("{} lanes, {} messages/s", args.lanes, args.messages), in_use));
    Ok(shares)
}

fn resident_kb(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(value.parse()?)
}

/// Opens jobs whose groups together have `lanes` lanes.
fn open(lanes: u32, socket: &Path, peer: std::net::SocketAddr) -> Result<Vec<(u32, Job)>> {
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

/// Sends messages to the lanes in round-robin order, evenly spaced.
fn send(args: &Args, jobs: &mut [(u32, Job)]) -> Result<()> {
    let message = [7; MESSAGE_BYTES];
    let (started, every) = (Instant::now(), Duration::from_secs(1) / args.messages);
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
                if started.elapsed().as_secs() >= args.seconds {
                    return Ok(());
                }
            }
        }
    }
}

/// The share of a core that a process uses during `work`. Threads that end meanwhile don't count.
fn share(process: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (started, before_s) = (Instant::now(), cpu_s(process)?);
    work()?;
    Ok((cpu_s(process)? - before_s).max(0.0) / started.elapsed().as_secs_f64())
}

/// Seconds of processor time of the present threads of a process.
fn cpu_s(process: u32) -> Result<f64> {
    let mut total_s = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?.file_name().to_string_lossy().parse()?;
        // A thread may have ended since it was listed.
        total_s += Clock::of([thread]).read_s().unwrap_or(0.0);
    }
    Ok(total_s)
}
