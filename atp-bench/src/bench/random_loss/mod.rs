//! `cargo xtask bench random-loss`: jobs over a path that loses packets at random, over both
//! datapaths, with and without the receiver's advice. Loss that isn't congestion should cost a job
//! little more than the retransmissions.

mod case;

use anyhow::{Context, Result, ensure};
use atp_common::laws::RateLaw;
use atp_options::{law, quantity};
use atp_output::note;
use serde::Serialize;
use testbed::interrupt;

use super::options::{DaemonOption, JsonOption, require_root};
use super::table;
use crate::job::{self, progress::Progress};
use crate::median::median;
use case::{Case, Datapath, Run};

#[derive(clap::Args)]
pub struct Args {
    /// Share of the packets that the network loses, independently of each other
    #[arg(long, default_value = "0.25", value_parser = loss)]
    loss: f64,
    /// Minimal sampling rates of jobs whose ACKs and receipts all arrive
    #[arg(long, value_delimiter = ',', default_value = "0.9,1", value_parser = job::msr)]
    one_way: Vec<f64>,
    /// Minimal sampling rates of jobs that lose ACKs and receipts too
    #[arg(long, value_delimiter = ',', default_value = "0.7", value_parser = job::msr)]
    both_ways: Vec<f64>,
    /// Number of messages, 1400 bytes each
    #[arg(long, default_value = "5715", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    messages: u32,
    /// Highest rate of the sender, and the rate of the receiver's line: 200mbit, 1gbit
    #[arg(long, default_value = "200mbit", value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Rate law of the sender
    #[arg(long, value_name = "LAW", default_value = "paper", value_parser = law::among(&RateLaw::ALL))]
    law: RateLaw,
    /// Number of runs of each job; medians are printed
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    daemon: DaemonOption,
}

/// A case with its runs.
#[derive(Serialize)]
struct Row {
    case: Case,
    runs: Vec<Run>,
}

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    let json = args.json.open()?;
    require_root("makes network namespaces and loads eBPF programs")?;
    let launch = args.daemon.launch()?;
    let faults = testbed::faults_object()?;
    ensure!(
        faults.is_file(),
        "{} is missing: `cargo xtask build` makes the fault injector",
        faults.display()
    );
    let progress = Progress::new();
    let mut rows: Vec<Row> =
        cases(args).into_iter().map(|case| Row { case, runs: Vec::new() }).collect();
    for _ in 0..args.repetitions {
        for Row { case, runs } in &mut rows {
            progress.begin(&case.name());
            let run = case.run(&launch).with_context(|| case.name())?;
            progress.line(&format!("{}: {:.3} s", case.name(), run.completion_s));
            runs.push(run);
        }
    }
    print(&rows)?;
    json.map_or(Ok(()), |file| file.write_json(&rows))
}

/// All jobs. A receiver without a daemon gives no advice; a sender without one follows advice.
fn cases(args: &Args) -> Vec<Case> {
    let one_way = args.one_way.iter().map(|msr| (*msr, false));
    let jobs: Vec<_> = one_way.chain(args.both_ways.iter().map(|msr| (*msr, true))).collect();
    let mut cases = Vec::new();
    for (sender, advice) in
        [Datapath::Ebpf, Datapath::Userspace].into_iter().flat_map(|at| [(at, false), (at, true)])
    {
        cases.extend(jobs.iter().map(|&(msr, both_ways)| Case {
            sender,
            advice,
            msr,
            both_ways,
            loss: args.loss,
            messages: args.messages,
            rate_bytes_per_s: args.rate,
            law: args.law,
        }));
    }
    cases
}

fn print(rows: &[Row]) -> Result<()> {
    let lines = rows.iter().map(|Row { case, runs }| {
        let median_of =
            |value: fn(&Run) -> f64| median(runs.iter().map(value)).context("no run was measured");
        let seconds = runs.iter().map(|run| run.completion_s);
        let (least, most) = (seconds.clone().reduce(f64::min), seconds.reduce(f64::max));
        Ok([
            case.sender.name().to_owned(),
            (if case.advice { "on" } else { "off" }).to_owned(),
            (if case.both_ways { "both ways" } else { "one way" }).to_owned(),
            case.msr.to_string(),
            format!("{:.3}", median_of(|run| run.completion_s)?),
            format!("{:.3} to {:.3}", least.unwrap_or_default(), most.unwrap_or_default()),
            format!("{:.2}", median_of(|run| run.completion_s)? / case.ideal_s()),
            format!("{:.0}", median_of(|run| run.packets_sent as f64)?),
            format!("{:.0}", median_of(|run| run.rate_bytes_per_s * 8e-6)?),
            format!("{:.3}", median_of(|run| run.last_tenth_s)?),
        ])
    });
    let header = [
        "datapath",
        "advice",
        "loss",
        "MSR",
        "JCT [s]",
        "its runs",
        "of ideal",
        "packets sent",
        "rate, mean [Mbit/s]",
        "last 10 % [s]",
    ];
    note!("{}", table(header, 3, lines.collect::<Result<Vec<_>>>()?));
    Ok(())
}

fn loss(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(loss) if (0.0..=0.9).contains(&loss) => Ok(loss),
        _ => Err(format!("`{text}` is not a share of lost packets from 0 to 0.9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    #[test]
    fn cases__every_job_over_both_datapaths_with_and_without_advice() {
        let cases = |line: &str| cases(&parse_line::<Args>(line).unwrap());
        assert_eq!(cases("").len(), 3 * 4);
        let few = cases("--one-way 0.9 --both-ways 0.5,0.7");
        assert_eq!(few.iter().filter(|case| case.both_ways).count(), 2 * 4);
        assert_eq!(few.iter().filter(|case| case.advice && !case.both_ways).count(), 2);
    }

    #[test]
    fn args__reject_bad_values() {
        for line in ["--loss 1", "--loss -0.1", "--one-way 0", "--both-ways 2", "--messages 0"] {
            assert!(parse_line::<Args>(line).is_err(), "{line}");
        }
    }
}
