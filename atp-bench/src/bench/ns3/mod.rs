//! `cargo xtask bench ns3`: runs long DCTCP flows through one port in this simulator and in ns-3
//! (from PyPI), and compares the flows' goodput, the queue's length and the simulators' cost.

mod program;

use anyhow::{Context, Result, bail};
use atp_output::{note, say};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::JsonOption;
use super::table;
use crate::installed;
use crate::result_file::ResultFile;

#[derive(clap::Args)]
pub struct Args {
    /// Write the results of ns-3 to atp-sim/tests/ns3.json, the reference of a test of the
    /// simulator
    #[arg(long)]
    record: bool,
    /// Number of timed runs of each simulator; the fastest counts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=20))]
    timed: u8,
    #[command(flatten)]
    json: JsonOption,
}

/// The largest accepted difference, relative to ns-3.
const APART_MAX: f64 = 0.1;

/// A scenario and the recorded result of ns-3, see atp-sim/tests/ns3.rs.
#[derive(Serialize, Deserialize)]
struct Recorded {
    /// The fields of `atp_sim::experiment::LongFlows`.
    scenario: Value,
    ns3: Option<Outcome>,
}

/// The results of one simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Outcome {
    delivered_bytes: Vec<u64>,
    queue_mean_packets: f64,
    marked_packets: u64,
    dropped_packets: u64,
    forwarded_packets: u64,
    events: u64,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cost {
    wall_s: f64,
    /// Processor time of this program alone.
    cpu_s: f64,
}

/// The results of both simulators on one scenario.
#[derive(Serialize)]
struct Row {
    scenario: Value,
    ours: Outcome,
    ours_cost: Cost,
    ns3: Outcome,
    ns3_cost: Cost,
}

pub fn main(args: &Args) -> Result<()> {
    let json = args.json.open()?;
    let path = installed::workspace().join("atp-sim/tests/ns3.json");
    let recorded = std::fs::read_to_string(&path).context("can't read the scenarios")?;
    let mut recorded: Vec<Recorded> = serde_json::from_str(&recorded)?;
    let scenarios: Vec<Value> = recorded.iter().map(|known| known.scenario.clone()).collect();

    let ours = program::ours(&scenarios, args.timed)?;
    say!("ns-3 runs for a minute or two");
    let ns3 = program::ns3(&scenarios, args.timed)?;
    let rows: Vec<Row> = scenarios
        .into_iter()
        .zip(ours.into_iter().zip(ns3))
        .map(|(scenario, ((ours, ours_cost), (ns3, ns3_cost)))| Row {
            scenario,
            ours,
            ours_cost,
            ns3,
            ns3_cost,
        })
        .collect();
    if let Some(json) = json {
        json.write_json(&rows)?;
    }
    print(&rows);
    for (known, row) in recorded.iter_mut().zip(&rows) {
        if known.ns3.as_ref().is_some_and(|ns3| *ns3 != row.ns3) {
            note!("the recorded result of ns-3 differs: {:?} in {}", known.ns3, known.scenario);
        }
        known.ns3 = Some(row.ns3.clone());
    }
    if args.record {
        ResultFile::at(&path)?.write_json(&recorded)?;
    }
    let far: Vec<String> = rows.iter().flat_map(Row::too_far_apart).collect();
    if !far.is_empty() {
        bail!("more than 10 % apart: {}", far.join("; "));
    }
    Ok(())
}

impl Outcome {
    fn goodput_gbit_per_s(&self, scenario: &Value) -> f64 {
        let us = scenario["measure_us"].as_f64().unwrap_or(f64::NAN);
        8.0 * self.delivered_bytes.iter().sum::<u64>() as f64 / us / 1e3
    }
}

impl Row {
    fn name(&self) -> String {
        let field = |name: &str| self.scenario[name].to_string();
        let (senders, rate) = (field("senders"), field("gbit_per_s"));
        let (latency, mark_from) = (field("latency_ns"), field("mark_from_packets"));
        format!("{senders} at {rate} Gbit/s, {latency} ns a line, K {mark_from}")
    }

    fn too_far_apart(&self) -> Vec<String> {
        let goodput = |outcome: &Outcome| outcome.goodput_gbit_per_s(&self.scenario);
        let queue = |outcome: &Outcome| outcome.queue_mean_packets;
        let compared = [
            ("goodput", goodput(&self.ours), goodput(&self.ns3)),
            ("mean queue", queue(&self.ours), queue(&self.ns3)),
        ];
        compared
            .into_iter()
            // NaN counts as too far.
            .filter(|(_, ours, ns3)| {
                let apart = (ours / ns3 - 1.0).abs();
                apart.is_nan() || apart > APART_MAX
            })
            .map(|(what, ours, ns3)| format!("{what} {ours:.2} and {ns3:.2} ({})", self.name()))
            .collect()
    }
}

fn print(rows: &[Row]) {
    let both = |of: &dyn Fn(&Outcome) -> f64, digits: usize, row: &Row| {
        let (ours, ns3) = (of(&row.ours), of(&row.ns3));
        [format!("{ours:.digits$}"), format!("{ns3:.digits$}"), format!("{:.3}", ours / ns3)]
    };
    let results = rows.iter().map(|row| {
        let [ours, ns3, ratio] = both(&|outcome| outcome.goodput_gbit_per_s(&row.scenario), 3, row);
        let [ours_queue, ns3_queue, queue_ratio] =
            both(&|outcome| outcome.queue_mean_packets, 2, row);
        [row.name(), ours, ns3, ratio, ours_queue, ns3_queue, queue_ratio]
    });
    let header =
        ["long DCTCP flows", "Gbit/s", "ns-3", "ratio", "mean queue [packets]", "ns-3", "ratio"];
    note!("{}", table(header, 1, results));
    let costs = rows.iter().map(|row| {
        let million = |count: u64, cost: Cost| count as f64 / 1e6 / cost.cpu_s;
        let ours = million(row.ours.events, row.ours_cost);
        let ns3 = million(row.ns3.events, row.ns3_cost);
        let forwarded = million(row.ours.forwarded_packets, row.ours_cost);
        let ns3_forwarded = million(row.ns3.forwarded_packets, row.ns3_cost);
        [
            row.name(),
            format!("{:.3}", row.ours_cost.wall_s),
            format!("{:.3}", row.ns3_cost.wall_s),
            format!("{:.3}", row.ours_cost.cpu_s),
            format!("{:.3}", row.ns3_cost.cpu_s),
            format!("{ours:.2}"),
            format!("{ns3:.2}"),
            format!("{:.1}", ours / ns3),
            format!("{forwarded:.2}"),
            format!("{ns3_forwarded:.3}"),
            format!("{:.1}", forwarded / ns3_forwarded),
        ]
    });
    let header = [
        "what it cost",
        "wall [s]",
        "ns-3",
        "CPU [s]",
        "ns-3",
        "M events/CPU s",
        "ns-3",
        "ratio",
        "M packets forwarded/CPU s",
        "ns-3",
        "ratio",
    ];
    note!("{}", table(header, 1, costs));
}
