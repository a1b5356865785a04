//! The processes of a training, one in each rank's host.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use testbed::{Finished, Host, Process, interrupt};

use super::row::Evaluation;
use crate::installed;

const SCRIPT: &str = "integrations/pytorch/bench/train.py";
const LOOK_UP: Duration = Duration::from_millis(20);
/// The time in which the other ranks of a broken training end.
const GRACE: Duration = Duration::from_secs(2);

/// A rank that ended well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trained {
    /// Only rank 0 has some.
    pub evaluations: Vec<Evaluation>,
    pub end: End,
}

/// The last line of a rank.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct End {
    pub seconds: f64,
    /// When it trained, nanoseconds of the shared clock.
    pub windows_ns: Vec<(u64, u64)>,
    pub step_ns: Vec<u64>,
    /// Bytes that its interface sent from the first to the last step.
    pub sent_bytes: u64,
    pub counters: BTreeMap<String, f64>,
}

/// A line of a rank.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Evaluation(Evaluation),
    End(End),
    Error { sentence: String },
}

/// Starts a rank in each host, and waits for all. `told` gives the orders of a rank.
///
/// # Errors
/// The outer one: no rank could be started, or the run was interrupted. The inner one is the
/// sentence of the first rank that failed.
pub fn train(
    hosts: &[&Host],
    told: impl Fn(usize) -> Value,
    limit: Duration,
) -> Result<Result<Vec<Trained>, String>> {
    let start = |(rank, host): (usize, &&Host)| {
        let mut command = host.namespace.command(testbed::collective_python()?);
        command.arg(installed::workspace().join(SCRIPT)).arg(told(rank).to_string());
        command.env("OMP_NUM_THREADS", "1").env_remove("ATP_SOCKET");
        Process::captured(&format!("rank {rank}"), command)
    };
    let ranks: Vec<Process> = hosts.iter().enumerate().map(start).collect::<Result<_>>()?;
    wait(ranks, Instant::now() + limit)
}

fn wait(mut ranks: Vec<Process>, deadline: Instant) -> Result<Result<Vec<Trained>, String>> {
    let mut ended: Vec<Option<Trained>> = vec![None; ranks.len()];
    let mut running: Vec<(usize, Process)> = ranks.drain(..).enumerate().collect();
    while !running.is_empty() {
        ensure!(!interrupt::interrupted(), "interrupted");
        if Instant::now() > deadline {
            let late: Vec<String> = running.iter().map(|(rank, _)| rank.to_string()).collect();
            return Ok(Err(format!("rank {} did not end in time", late.join(", "))));
        }
        let mut still = Vec::new();
        for (rank, mut process) in running {
            if process.is_running()? {
                still.push((rank, process));
                continue;
            }
            match outcome(&process.end(Duration::ZERO)?) {
                Ok(trained) => ended[rank] = Some(trained),
                Err(sentence) => return Ok(Err(format!("rank {rank}: {sentence}"))),
            }
        }
        running = still;
        thread::sleep(LOOK_UP);
    }
    let all: Option<Vec<Trained>> = ended.into_iter().collect();
    all.map(Ok).context("a rank has no outcome")
}

/// The results of an ended rank, or the sentence that says why it has none.
fn outcome(finished: &Finished) -> Result<Trained, String> {
    let parsed = parse(&finished.stdout);
    match parsed {
        Ok(trained) if finished.status.success() => Ok(trained),
        Ok(_) | Err(None) => {
            let last = finished.stderr.lines().rfind(|line| !line.trim().is_empty());
            Err(format!("{}: {}", finished.status, last.unwrap_or("it wrote nothing").trim()))
        }
        Err(Some(sentence)) => Err(sentence),
    }
}

/// Reads a rank's lines. The error is the rank's sentence, if it has one.
fn parse(text: &str) -> Result<Trained, Option<String>> {
    let mut evaluations = Vec::new();
    let mut end = None;
    // PyTorch may write lines of its own.
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Evaluation(evaluation) => evaluations.push(evaluation),
            Line::End(last) => end = Some(last),
            Line::Error { sentence } => return Err(Some(sentence)),
        }
    }
    let end = end.ok_or(None)?;
    Ok(Trained { evaluations, end })
}
