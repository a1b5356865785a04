//! Runs the two simulators, which take the same scenarios and write the same lines.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::{Cost, Outcome};
use crate::bench::program_output;
use crate::installed;

const SCRIPT: &str = include_str!("long_flows.py");

/// An output line of either simulator.
#[derive(Deserialize)]
struct Line {
    delivered_bytes: Vec<u64>,
    /// None if the queue wasn't recorded.
    queue_mean_packets: Option<f64>,
    marked_packets: u64,
    dropped_packets: u64,
    forwarded_packets: u64,
    events: u64,
    #[serde(flatten)]
    cost: Cost,
}

/// This simulator's results by scenario, with the cost of the fastest run.
pub fn ours(scenarios: &[Value], timed: u8) -> Result<Vec<(Outcome, Cost)>> {
    let mut command = Command::new(installed::cargo());
    command.current_dir(installed::workspace());
    command.args(["run", "--release", "--quiet", "--package", "atp-sim"]);
    command.args(["--example", "long_flows", "--"]);
    let lines = run(command, scenarios, timed)?;
    together(&lines, &lines)
}

/// The results of ns-3 by scenario, with the cost of the fastest run. Recording the queue at every
/// packet takes time, so those runs aren't timed.
pub fn ns3(scenarios: &[Value], timed: u8) -> Result<Vec<(Outcome, Cost)>> {
    let script = |mode: &str| {
        let mut command = Command::new(installed::python());
        command.args(["-c", SCRIPT, mode]);
        command
    };
    let watched = run(script("watched"), scenarios, 1)?;
    let timed = run(script("timed"), scenarios, timed)?;
    together(&watched, &timed)
}

/// The output lines of every run, by scenario.
fn run(mut command: Command, scenarios: &[Value], times: u8) -> Result<Vec<Vec<Line>>> {
    let each = |scenario: &Value| std::iter::repeat_n(scenario.to_string(), usize::from(times));
    command.args(scenarios.iter().flat_map(each));
    let lines: Vec<Line> = program_output(&mut command)?
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not a result: {line}")))
        .collect::<Result<_>>()?;
    let mut lines = lines.into_iter();
    let by_scenario: Vec<Vec<Line>> =
        scenarios.iter().map(|_| lines.by_ref().take(times.into()).collect()).collect();
    let is_whole = by_scenario.iter().all(|lines| lines.len() == usize::from(times));
    ensure!(is_whole && lines.next().is_none(), "not a result for each scenario");
    Ok(by_scenario)
}

fn together(watched: &[Vec<Line>], timed: &[Vec<Line>]) -> Result<Vec<(Outcome, Cost)>> {
    let of_scenario = |(watched, timed): (&Vec<Line>, &Vec<Line>)| {
        let first = watched.first().context("no result")?;
        // Neither timing nor recording may change the results.
        let same = |line: &Line| {
            line.events == first.events && line.delivered_bytes == first.delivered_bytes
        };
        ensure!(timed.iter().all(same), "the same scenario gave different results the second time");
        let outcome = Outcome {
            delivered_bytes: first.delivered_bytes.clone(),
            queue_mean_packets: first.queue_mean_packets.context("the queue was not watched")?,
            marked_packets: first.marked_packets,
            dropped_packets: first.dropped_packets,
            forwarded_packets: first.forwarded_packets,
            events: first.events,
        };
        let costs = timed.iter().map(|line| line.cost);
        let fastest = costs.min_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s));
        Ok((outcome, fastest.context("no result")?))
    };
    watched.iter().zip(timed).map(of_scenario).collect()
}
