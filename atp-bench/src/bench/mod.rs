//! Benchmarks of the eBPF programs, the library, its bindings, the daemon, the control laws,
//! the answers, and the simulator (compared with ns-3 and with the kernel).

mod answers;
mod daemon;
mod datapath;
mod kafka;
mod languages;
mod laws;
mod library;
mod ns3;
mod options;
mod random_loss;
mod reality;
mod rows;
mod training;

pub use kafka::{Engine as KafkaEngine, demonstrate as demonstrate_kafka};
pub use options::{DaemonOption, require_root};
pub use training::demonstrate as demonstrate_training;

use std::process::Command;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Measure every eBPF program: nanoseconds per kind of packet, verified instructions
    Datapath(datapath::Args),
    /// Measure the library beside raw UDP and TCP: packets and bytes per second
    Library(library::Args),
    /// Measure sending from Python beside sending from Rust, over loopback
    Python(languages::Args),
    /// Measure sending and receiving from Java beside Rust, over loopback
    Jvm(languages::Args),
    /// Measure the processor time of the daemon's control loop with many lanes
    Daemon(daemon::Args),
    /// Compare rate laws and the paper's variants on the testbed
    Laws(laws::Args),
    /// Compare the simulator with ns-3: long DCTCP flows, their results and their cost
    Ns3(ns3::Args),
    /// Compare the simulator with the kernel: a small job on the testbed and in simulation
    Reality(reality::Args),
    /// Measure jobs over a path that loses packets at random, with and without advice
    RandomLoss(random_loss::Args),
    /// Train a small model with gradients over ATP and over gloo, beside exact traffic
    Training(training::Args),
    /// Carry windows of a topic over ATP and over TCP, beside exact traffic
    Kafka(kafka::Args),
    /// Measure answers with intervals beside a plain loop: rows per second of processor time
    Answers(answers::Args),
    /// One process of `bench library`, which starts it
    #[command(hide = true)]
    Worker(library::worker::Args),
}

pub fn main(args: Args) -> Result<()> {
    match args.bench {
        Bench::Datapath(args) => datapath::main(&args),
        Bench::Library(args) => library::main(&args),
        Bench::Python(args) => languages::python::main(&args),
        Bench::Jvm(args) => languages::jvm::main(&args),
        Bench::Daemon(args) => daemon::main(&args),
        Bench::Laws(args) => laws::main(&args),
        Bench::Ns3(args) => ns3::main(&args),
        Bench::Reality(args) => reality::main(&args),
        Bench::RandomLoss(args) => random_loss::main(&args),
        Bench::Training(args) => training::main(&args),
        Bench::Kafka(args) => kafka::main(&args),
        Bench::Answers(args) => answers::main(&args),
        Bench::Worker(args) => library::worker::main(args),
    }
}

/// Runs a program to its end and returns its output.
fn program_output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("can't start `{name}`"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`{name}` failed ({}): {}", output.status, error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A table whose columns from `numbers` on hold numbers.
pub fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    numbers: usize,
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
