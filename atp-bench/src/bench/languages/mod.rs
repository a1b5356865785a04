//! Batches that other languages send and receive, beside the same batches of Rust.
//!
//! They go over loopback, without a daemon. Each round runs each pair of a sender and a receiver
//! once, and ratios compare runs of one round.

pub mod jvm;
pub mod python;

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result};
use atp_output::{complain, say};

use super::library::{Ready, Run, Worker};
use super::table;
use crate::median::median;

/// Bytes of a message, and of a packet.
const MESSAGE_BYTES: usize = 1_400;
/// Messages of a call, in all languages.
const BATCH: usize = 64;
const MSR: &str = "0.8";
/// 100 Gbit/s: no limit on this machine.
const RATE_MAX_BYTES_PER_S: &str = "12500000000";
/// The processors of the sender and the receiver.
const CPUS: (usize, usize) = (0, 1);

#[derive(clap::Args)]
pub struct Args {
    /// Duration of each run
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Number of runs of each language
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// A sender and a receiver. The first pair of a benchmark is Rust's.
struct Pair<'a> {
    name: &'static str,
    /// The sender, for an address.
    send: &'a dyn Fn(&str) -> Result<Command>,
    receive: &'a dyn Fn() -> Result<Command>,
}

/// Measures the pairs, and prints their rates and the ratios to the first one's.
fn measure(args: &Args, pairs: &[Pair<'_>]) -> Result<()> {
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let runs = pairs.iter().map(|pair| run(pair).with_context(|| pair.name.to_owned()));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let rates = pairs
            .iter()
            .zip(&runs)
            .map(|(pair, run)| format!("{} {:.0} k packets/s", pair.name, rate(run) / 1e3));
        let rates = rates.collect::<Vec<_>>().join(", ");
        complain!("round {number}/{}  {rates}", args.rounds);
        rounds.push(runs);
    }
    report(args, pairs, &rounds)
}

fn report(args: &Args, pairs: &[Pair<'_>], rounds: &[Vec<Run>]) -> Result<()> {
    let of = |pair: usize, measure: fn(&Run) -> f64| {
        let values = rounds.iter().map(|round| measure(&round[pair]));
        anyhow::Ok(format!("{:.0} k", median(values).context("no rounds")? / 1e3))
    };
    let row = |(number, pair): (usize, &Pair<'_>)| {
        anyhow::Ok([
            pair.name.to_owned(),
            of(number, rate)?,
            of(number, |run| run.packets_per_sender_cpu_s().unwrap_or(0.0))?,
            of(number, |run| run.packets_per_receiver_cpu_s().unwrap_or(0.0))?,
        ])
    };
    let header = ["", "packets/s", "per CPU s of the sender", "per CPU s of the receiver"];
    say!(
        "medians of {} rounds of {} s; messages of {MESSAGE_BYTES} bytes in batches of {BATCH}, \
         MSR {MSR}, loopback, userspace datapath",
        args.rounds,
        args.seconds
    );
    let rows = pairs.iter().enumerate().map(row).collect::<Result<Vec<_>>>()?;
    say!("{}", table(header, 1, rows));
    for (number, pair) in pairs.iter().enumerate().skip(1) {
        let ratios = rounds.iter().map(|round| rate(&round[number]) / rate(&round[0]));
        say!("{} / {}: {:.2}", pair.name, pairs[0].name, median(ratios).context("no rounds")?);
    }
    Ok(())
}

/// Packets that arrived, per second.
fn rate(run: &Run) -> f64 {
    run.packets_per_s().unwrap_or(0.0)
}

fn run(pair: &Pair<'_>) -> Result<Run> {
    let mut receiver = Worker::spawn((pair.receive)()?, "the receiver")?;
    let Ready { at } = receiver.line()?;
    let mut sender = Worker::spawn((pair.send)(&at.to_string())?, "the sender")?;
    let (sender, receiver) = (sender.line()?, receiver.line()?);
    Ok(Run { sender, receiver, daemons_cpu_s: 0.0, softirq_cpu_s: 0.0 })
}

fn rust_receiver() -> Result<Command> {
    let args = ["--at", "127.0.0.1:0"].map(str::to_owned);
    let this = Command::new(std::env::current_exe()?);
    Ok(Worker::with_args(this, cpu(CPUS.1), "job-receive", &args))
}

fn rust_sender(to: &str, args: &Args) -> Result<Command> {
    let (bytes, seconds) = (MESSAGE_BYTES.to_string(), args.seconds.to_string());
    let words = ["--to", to, "--bytes", &bytes, "--payload", &bytes, "--seconds", &seconds];
    let words = words.into_iter().chain(["--msr", MSR, "--rate-max", RATE_MAX_BYTES_PER_S]);
    let words: Vec<String> = words.map(str::to_owned).collect();
    let this = Command::new(std::env::current_exe()?);
    Ok(Worker::with_args(this, cpu(CPUS.0), "job-send", &words))
}

/// The arguments of a sender in another language.
fn sender_args(to: &str, args: &Args) -> [String; 6] {
    let (bytes, batch) = (MESSAGE_BYTES.to_string(), BATCH.to_string());
    let [msr, rate_max] = [MSR, RATE_MAX_BYTES_PER_S].map(str::to_owned);
    [to.to_owned(), bytes, batch, args.seconds.to_string(), msr, rate_max]
}

/// A program on a processor of its own, where there are several.
fn pinned(program: impl AsRef<OsStr>, number: usize) -> Command {
    match cpu(number) {
        Some(cpu) => {
            let mut pinned = Command::new("taskset");
            pinned.args(["--cpu-list", &cpu.to_string()]).arg(program);
            pinned
        }
        None => Command::new(program),
    }
}

fn cpu(number: usize) -> Option<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors > 1).then_some(number)
}
