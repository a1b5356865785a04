//! `cargo xtask bench library`: the library over a veth pair, compared with raw UDP and two TCP
//! streams (iperf3's and this program's).
//!
//! Machines change their speed from minute to minute. So each round runs each scheme once, ratios
//! compare runs of one round, and the tables show medians over the rounds.

mod cpu;
mod endpoint;
mod iperf3;
mod job;
mod process;
mod scheme;
mod summary;
mod tally;
mod tcp;
mod udp;
pub mod worker;

pub use cpu::Clock;
pub use endpoint::Ready;
pub use process::Worker;
pub use scheme::Run;

use std::path::Path;

use anyhow::{Context, Result};
use atp_options::quantity;
use atp_output::{complain, note};
use clap::ValueEnum;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::options::{DaemonOption, JsonOption, require_root};
use scheme::{Conditions, Scheme};
use summary::{CPU_S_COUNTS, Results, Round, Spread};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    json: JsonOption,
    /// Duration of each run
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Number of runs of every scheme
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Message bytes in one packet
    #[arg(long, default_value_t = 1400, value_parser = clap::value_parser!(u32).range(64..=1440))]
    payload: u32,
    /// Minimal sampling rate of the job
    #[arg(long, default_value = "0.8", value_parser = quantity::msr)]
    msr: f64,
    /// Send buffer of the library, bytes [default: the library's]
    #[arg(long, value_name = "BYTES")]
    buffer: Option<u64>,
    /// Highest rate of a lane
    #[arg(long, default_value = "100gbit", value_name = "RATE", value_parser = rate)]
    rate_max: (String, u64),
    /// Schemes to run, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    schemes: Vec<Scheme>,
    /// Don't pin the sender and the receiver to processors
    #[arg(long)]
    unpinned: bool,
    #[command(flatten)]
    daemon: DaemonOption,
}

/// The prefix of folders `atp-bench-PID-START-RANDOM`.
const FOLDER_PREFIX: &str = "atp-bench-";

pub fn main(args: &Args) -> Result<()> {
    let json = args.json.open()?;
    let mut schemes = args.schemes.clone();
    if schemes.is_empty() {
        schemes = Scheme::value_variants().to_vec();
    }
    let conditions = prepare(args, &schemes)?;
    let dir = testbed::own_folder(FOLDER_PREFIX)?;
    clean_up_on_signal(dir.path())?;
    let rounds = measure(&schemes, args.rounds, &conditions, dir.path())?;
    let results = results(&rounds, &conditions)?;
    report(&results);
    json.map_or(Ok(()), |file| file.write_json(&results))
}

/// Checks all requirements before the first run.
fn prepare(args: &Args, schemes: &[Scheme]) -> Result<Conditions> {
    require_root("makes network namespaces and loads eBPF programs")?;
    let needs_daemons = schemes.iter().any(|scheme| scheme.needs_daemons());
    let daemon = needs_daemons.then(|| args.daemon.launch()).transpose()?;
    let (rate_max, rate_max_bytes_per_s) = args.rate_max.clone();
    Ok(Conditions {
        seconds: args.seconds,
        payload_bytes: args.payload,
        msr: args.msr,
        buffer: args.buffer,
        rate_max,
        rate_max_bytes_per_s,
        daemon,
        cpus: (!args.unpinned && processors() > 1).then_some((0, 1)),
    })
}

fn measure(
    schemes: &[Scheme],
    rounds: u32,
    conditions: &Conditions,
    dir: &Path,
) -> Result<Vec<Round>> {
    let mut measured = Vec::new();
    for number in 1..=rounds {
        let mut round = Round::new();
        for &scheme in schemes {
            let run = scheme::run(scheme, conditions, dir)
                .with_context(|| format!("round {number}, {}", scheme.name()))?;
            let packets = run
                .packets_per_s()
                .map_or_else(String::new, |rate| format!(", {:.0} k packets/s", rate / 1e3));
            let gigabits = run.goodput_bits_per_s() / 1e9;
            complain!(
                "round {number}/{rounds}  {:<33} {gigabits:.2} Gbit/s{packets}",
                scheme.title()
            );
            round.insert(scheme, run);
        }
        measured.push(round);
    }
    Ok(measured)
}

fn results(rounds: &[Round], conditions: &Conditions) -> Result<Results> {
    let ratio_spread = summary::ratios(rounds);
    let by_name = |round: &Round| round.iter().map(|(s, run)| (s.title(), run.clone())).collect();
    Ok(Results {
        kernel: nix::sys::utsname::uname()?.release().to_string_lossy().into_owned(),
        processors: processors(),
        payload_bytes: conditions.payload_bytes,
        msr: conditions.msr,
        seconds: conditions.seconds,
        cpu_s_counts: CPU_S_COUNTS,
        rows: summary::rows(rounds),
        ratios: ratio_spread.iter().map(|(name, Spread { median, .. })| (*name, *median)).collect(),
        ratio_spread,
        rounds: rounds.iter().map(by_name).collect(),
    })
}

fn report(results: &Results) {
    note!(
        "Linux {}, {} processors; medians of {} rounds of {} s; {} message bytes a packet, MSR {}",
        results.kernel,
        results.processors,
        results.rounds.len(),
        results.seconds,
        results.payload_bytes,
        results.msr,
    );
    note!("{}", summary::row_table(&results.rows));
    if !results.ratio_spread.is_empty() {
        note!("{}", summary::ratio_table(&results.ratio_spread));
    }
    note!("CPU s: {CPU_S_COUNTS}.");
}

/// Removes the folder on a signal. Processes and namespaces end with this process anyway.
fn clean_up_on_signal(dir: &Path) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The process is ending and can't report an error.
            let _ = std::fs::remove_dir_all(dir);
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is not a number of seconds from 0.1 to 600")),
    }
}

fn rate(text: &str) -> Result<(String, u64), String> {
    Ok((text.to_owned(), quantity::rate_bytes_per_s(text)?))
}
