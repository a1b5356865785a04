//! `cargo xtask bench reality`: compares a small job, some senders and one bottleneck, on the
//! testbed with the same job in the simulator.

mod kernel;

use std::process::Command;

use anyhow::{Context, Result};
use atp_options::quantity;
use atp_output::note;
use serde::{Deserialize, Serialize};

use super::options::{DaemonOption, JsonOption, require_root};
use super::{program_output, table};
use crate::installed;
use crate::job;
use crate::job::scheme_name::SchemeName;
use crate::machine_state::machine_load;
use testbed::interrupt;

#[derive(clap::Args)]
pub struct Args {
    /// Minimal sampling rates
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8,0.95,1", value_parser = job::msr)]
    msr: Vec<f64>,
    /// Number of sending hosts
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u8).range(1..=32))]
    senders: u8,
    /// Rate of every link: 200mbit, 1gbit
    #[arg(long, default_value = "200mbit", value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Number of messages of each sender, 1400 bytes each
    #[arg(long, default_value = "4500", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    messages: u32,
    /// Number of runs of each job on the testbed; medians are printed
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Use the paper's protocol in the paper's queues: no receiver advice, and no first window
    #[arg(long)]
    paper: bool,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    daemon: DaemonOption,
}

impl Args {
    fn scheme(&self) -> SchemeName {
        if self.paper { SchemeName::AtpPaper } else { SchemeName::Atp }
    }
}

/// The daemon's default, for the simulator.
const EPOCH_NS_MIN: u64 = 2_000_000;
/// The library's default, for the simulator.
const RECEIPT_DELAY_NS: u64 = 2_000_000;
/// The daemon's interval, for the simulator.
const ADVICE_NS: u64 = 2_000_000;
const MESSAGE_BYTES: u32 = 1_400;
/// The length of a full message's packet in Linux's shapers.
const FRAME_BYTES: f64 = 1_474.0;
const SAMPLE_US: u64 = 10_000;

/// A job: the fields of `atp_sim::experiment::Bottleneck`.
#[derive(Clone, Copy, Debug, Serialize)]
struct Scenario {
    senders: u32,
    rate_bytes_per_s: u64,
    latency_ns: u64,
    messages: u32,
    message_bytes: u32,
    msr: f64,
    marks: bool,
    epoch_ns_min: u64,
    receipt_delay_ns: u64,
    sample_us: u64,
    advice_ns: u64,
    window_packets: u32,
    paper_queues: bool,
}

/// The results of either side: the fields of `BottleneckOutcome`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Outcome {
    completion_s: f64,
    packets_sent: u64,
    dropped_share: f64,
    tlr: f64,
    loss: f64,
    rate_bytes_per_s: f64,
}

/// The results of both sides for one job.
#[derive(Serialize)]
struct Row {
    scenario: Scenario,
    /// Medians over the runs.
    kernel: Outcome,
    runs: Vec<Outcome>,
    simulator: Outcome,
}

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    let json = args.json.open()?;
    require_root("runs a daemon in each of its hosts")?;
    let launch = args.daemon.launch()?;
    let load = machine_load()?;
    let kernel = kernel::measure(args, &launch)?;
    note!("round trip on the idle testbed: {:.0} us", kernel.idle_rtt_us);
    note!("load of the machine at the start: {load:.2} on {} processors", processors()?);
    let scenarios: Vec<Scenario> =
        args.msr.iter().map(|&msr| scenario(args, msr, &kernel)).collect();
    let simulated = simulate(&scenarios)?;
    let rows: Vec<Row> = scenarios
        .into_iter()
        .zip(kernel.runs.into_iter().zip(simulated))
        .map(|(scenario, (runs, simulator))| {
            let kernel = medians(&runs).context("no run")?;
            Ok(Row { scenario, kernel, runs, simulator })
        })
        .collect::<Result<_>>()?;
    print(&rows);
    json.map_or(Ok(()), |file| file.write_json(&rows))
}

/// Sets the latency of a line to a quarter of a small packet's round-trip time on the idle testbed,
/// because a round trip passes four lines.
fn scenario(args: &Args, msr: f64, kernel: &kernel::Measured) -> Scenario {
    Scenario {
        senders: args.senders.into(),
        rate_bytes_per_s: args.rate,
        latency_ns: (kernel.idle_rtt_us * 1e3 / 4.0) as u64,
        messages: args.messages,
        message_bytes: MESSAGE_BYTES,
        msr,
        marks: kernel.marks,
        epoch_ns_min: EPOCH_NS_MIN,
        receipt_delay_ns: RECEIPT_DELAY_NS,
        sample_us: SAMPLE_US,
        advice_ns: if args.paper { 0 } else { ADVICE_NS },
        window_packets: args.scheme().initial_window_packets(),
        paper_queues: args.paper,
    }
}

fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

fn simulate(scenarios: &[Scenario]) -> Result<Vec<Outcome>> {
    let mut command = Command::new(installed::cargo());
    command.current_dir(installed::workspace());
    command.args(["run", "--release", "--quiet", "--package", "atp-sim"]);
    command.args(["--example", "bottleneck", "--"]);
    for scenario in scenarios {
        command.arg(serde_json::to_string(scenario)?);
    }
    program_output(&mut command)?
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not a result: {line}")))
        .collect()
}

fn medians(runs: &[Outcome]) -> Option<Outcome> {
    let median = |value: fn(&Outcome) -> f64| crate::median::median(runs.iter().map(value));
    Some(Outcome {
        completion_s: median(|run| run.completion_s)?,
        packets_sent: median(|run| run.packets_sent as f64)? as u64,
        dropped_share: median(|run| run.dropped_share)?,
        tlr: median(|run| run.tlr)?,
        loss: median(|run| run.loss)?,
        rate_bytes_per_s: median(|run| run.rate_bytes_per_s)?,
    })
}

impl Outcome {
    /// The share of the time in which the bottleneck sent packets that were delivered.
    fn port_use(&self, scenario: &Scenario) -> f64 {
        self.packets_sent as f64 * (1.0 - self.dropped_share) * FRAME_BYTES
            / (self.completion_s * scenario.rate_bytes_per_s as f64)
    }

    /// The sent bytes as a share of the bytes that the laws allowed. For the rest of the time
    /// senders had nothing to send, or no processor.
    fn rate_use(&self, scenario: &Scenario) -> f64 {
        self.packets_sent as f64 * FRAME_BYTES
            / (self.completion_s * self.rate_bytes_per_s * f64::from(scenario.senders))
    }
}

fn print(rows: &[Row]) {
    type Value = fn(&Outcome, &Scenario) -> f64;
    let quantities: [(&str, Value); 8] = [
        ("JCT [ms]", |run, _| run.completion_s * 1e3),
        ("packets sent", |run, _| run.packets_sent as f64),
        ("dropped [%]", |run, _| run.dropped_share * 1e2),
        ("TLR, mean [%]", |run, _| run.tlr * 1e2),
        ("loss of an epoch, mean [%]", |run, _| run.loss * 1e2),
        ("rate of a sender, mean [Mbit/s]", |run, _| run.rate_bytes_per_s * 8e-6),
        ("of that rate sent [%]", |run, scenario| run.rate_use(scenario) * 1e2),
        ("bottleneck busy [%]", |run, scenario| run.port_use(scenario) * 1e2),
    ];
    let lines = rows.iter().flat_map(|row| {
        quantities.map(|(name, value)| {
            let value = |outcome: &Outcome| value(outcome, &row.scenario);
            let (kernel, simulator) = (value(&row.kernel), value(&row.simulator));
            let all: Vec<f64> = row.runs.iter().map(value).collect();
            let min = all.iter().copied().fold(f64::INFINITY, f64::min);
            let max = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            [
                format!("{}", row.scenario.msr),
                name.to_owned(),
                format!("{kernel:.1}"),
                format!("{min:.1} to {max:.1}"),
                format!("{simulator:.1}"),
                match kernel {
                    0.0 => "-".to_owned(),
                    _ => format!("{:.3}", simulator / kernel),
                },
            ]
        })
    });
    let header = ["MSR", "", "kernel", "its runs", "simulator", "ratio"];
    note!("{}", table(header, 2, lines));
}
