//! `cargo xtask bench python`: batches sent from Python, beside the same batches sent from Rust.
//!
//! Both go over loopback, without a daemon, to the same receiver, which is Rust's. Each round runs
//! both, and the ratio compares runs of one round.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use atp_output::{complain, say};

use super::library::{Ready, Run, Worker};
use super::{program_output, table};
use crate::installed;
use crate::median::median;

/// Bytes of a message, and of a packet.
const MESSAGE_BYTES: usize = 1_400;
/// Messages of a call, in both languages.
const BATCH: usize = 64;
const MSR: &str = "0.8";
/// 100 Gbit/s: no limit on this machine.
const RATE_MAX_BYTES_PER_S: &str = "12500000000";
const SENDER: &str = include_str!("sender.py");
/// The processors of the sender and the receiver.
const CPUS: (usize, usize) = (0, 1);

#[derive(clap::Args)]
pub struct Args {
    /// Duration of each run
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Number of runs of each language
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

pub fn main(args: &Args) -> Result<()> {
    let package = unpacked_wheel()?;
    let mut rounds = Vec::new();
    for number in 1..=args.rounds {
        let rust = run(rust(args), "the sender in Rust")?;
        let python = run(python(&package, args), "the sender in Python")?;
        complain!(
            "round {number}/{}  Rust {:.0} k packets/s, Python {:.0} k packets/s",
            args.rounds,
            rate(&rust) / 1e3,
            rate(&python) / 1e3
        );
        rounds.push([rust, python]);
    }
    report(args, &rounds)
}

fn report(args: &Args, rounds: &[[Run; 2]]) -> Result<()> {
    let of = |language: usize, measure: fn(&Run) -> f64| {
        median(rounds.iter().map(|round| measure(&round[language]))).context("no rounds")
    };
    let row = |name: &str, language| {
        anyhow::Ok([
            name.to_owned(),
            format!("{:.0} k", of(language, rate)? / 1e3),
            format!("{:.0} k", of(language, rate_of_cpu)? / 1e3),
        ])
    };
    let header = ["language", "packets/s", "packets per CPU s of the sender"];
    say!(
        "medians of {} rounds of {} s; messages of {MESSAGE_BYTES} bytes in batches of {BATCH}, \
         MSR {MSR}, loopback, userspace datapath",
        args.rounds,
        args.seconds
    );
    say!("{}", table(header, 1, [row("Rust", 0)?, row("Python", 1)?]));
    let ratios = rounds.iter().map(|[rust, python]| rate(python) / rate(rust));
    say!("Python / Rust: {:.2}", median(ratios).context("no rounds")?);
    Ok(())
}

/// Packets that arrived, per second.
fn rate(run: &Run) -> f64 {
    run.packets_per_s().unwrap_or(0.0)
}

fn rate_of_cpu(run: &Run) -> f64 {
    run.packets_per_sender_cpu_s().unwrap_or(0.0)
}

/// Runs a sender, which `start` makes for an address, and its receiver.
fn run(start: impl FnOnce(&str) -> Result<Command>, role: &'static str) -> Result<Run> {
    let this = || anyhow::Ok(Command::new(std::env::current_exe()?));
    let args = ["--at", "127.0.0.1:0"].map(str::to_owned);
    let receive = Worker::with_args(this()?, cpu(CPUS.1), "job-receive", &args);
    let mut receiver = Worker::spawn(receive, "the receiver")?;
    let Ready { at } = receiver.line()?;
    let mut sender = Worker::spawn(start(&at.to_string())?, role)?;
    let (sender, receiver) = (sender.line()?, receiver.line()?);
    Ok(Run { sender, receiver, daemons_cpu_s: 0.0, softirq_cpu_s: 0.0 })
}

fn rust(args: &Args) -> impl FnOnce(&str) -> Result<Command> + use<> {
    let seconds = args.seconds.to_string();
    move |to| {
        let bytes = MESSAGE_BYTES.to_string();
        let words = ["--to", to, "--bytes", &bytes, "--payload", &bytes, "--seconds", &seconds];
        let words = words.into_iter().chain(["--msr", MSR, "--rate-max", RATE_MAX_BYTES_PER_S]);
        let words: Vec<String> = words.map(str::to_owned).collect();
        let this = Command::new(std::env::current_exe()?);
        Ok(Worker::with_args(this, cpu(CPUS.0), "job-send", &words))
    }
}

fn python(package: &Path, args: &Args) -> impl FnOnce(&str) -> Result<Command> + use<> {
    let (package, seconds) = (package.to_owned(), args.seconds.to_string());
    move |to| {
        let mut command = match cpu(CPUS.0) {
            Some(cpu) => {
                let mut pinned = Command::new("taskset");
                pinned.args(["--cpu-list", &cpu.to_string()]).arg(installed::python());
                pinned
            }
            None => Command::new(installed::python()),
        };
        let (bytes, batch) = (MESSAGE_BYTES.to_string(), BATCH.to_string());
        command.args(["-c", SENDER, to, &bytes, &batch, &seconds, MSR, RATE_MAX_BYTES_PER_S]);
        command.env("PYTHONPATH", &package);
        Ok(command)
    }
}

/// A processor of its own, where there are several.
fn cpu(number: usize) -> Option<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors > 1).then_some(number)
}

/// Builds the wheel, and returns the folder that it is unpacked into.
pub fn unpacked_wheel() -> Result<PathBuf> {
    let mut build = Command::new(installed::cargo());
    build.args(["xtask", "wheel"]).current_dir(installed::workspace());
    program_output(&mut build)?;
    let wheels = installed::target().join("wheels");
    let entries = std::fs::read_dir(&wheels).context("no wheel was built")?;
    // Beside it lies the wheel of the integrations.
    let is_atp = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("atp-"))
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    let wheel = paths.find(is_atp).context("no wheel was built")?;
    let package = installed::target().join("bench-python");
    std::fs::remove_dir_all(&package).ok();
    let mut unpack = Command::new(installed::python());
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&package);
    program_output(&mut unpack)?;
    ensure!(package.join("atp/__init__.py").is_file(), "the wheel holds no package atp");
    Ok(package)
}
