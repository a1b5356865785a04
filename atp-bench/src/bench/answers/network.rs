//! How often intervals contain the truth, of jobs that lose messages in short queues or at random.

use anyhow::{Context, Result, anyhow, ensure};
use atp_output::note;
use serde::Serialize;
use testbed::faults::{Injection, Trouble, wired_star};
use testbed::{Daemon, Launch, Star, interrupt};

use super::job::{self, Place, Row};
use super::table::Table;
use crate::bench::table as text_table;
use crate::job::progress::Progress;
use crate::result_file::ResultFile;

/// The rate of the senders, and that of the receiver's port, whose queue is short.
const RATE_MAX: &str = "100mbit";
const PORT_RATE: &str = "50mbit";
const PORT_PACKETS: u32 = 20;
/// The share of packets that are lost at random, in other rows.
const LOSS: f64 = 0.05;
/// A row covers with this share of its intervals, or warns of this share of its misses.
const COVERED_MIN: f64 = 0.93;
const WARNED_MIN: f64 = 0.95;

const PLAIN: Row = Row {
    name: "",
    query: "avg(v)",
    key: &[],
    truth: Table::mean,
    msr: 0.8,
    emax: None,
    ordered: false,
    drops: false,
};

const ROWS: [Row; 13] = [
    Row { name: "sum, shuffled", query: "sum(v)", truth: Table::sum, ..PLAIN },
    Row { name: "mean, shuffled, low MSR", msr: 0.3, drops: true, ..PLAIN },
    Row {
        name: "count by key, shuffled",
        query: "count(v) by key",
        key: &["C4"],
        truth: Table::count_of_key,
        ..PLAIN
    },
    Row {
        name: "quantile, shuffled",
        query: "quantile(v, 0.9)",
        truth: Table::high,
        drops: true,
        ..PLAIN
    },
    Row {
        name: "mean by two keys",
        query: "avg(v) by key, half",
        key: &["C4", "b"],
        truth: Table::mean_of_both_keys,
        ..PLAIN
    },
    Row { name: "standard deviation", query: "stddev(v)", truth: Table::deviation, ..PLAIN },
    Row { name: "variance", query: "variance(v)", truth: Table::variance, ..PLAIN },
    Row {
        name: "standard deviation by key",
        query: "stddev(v) by key",
        key: &["C4"],
        truth: Table::deviation_of_key,
        ..PLAIN
    },
    Row {
        name: "mean where",
        query: "SELECT avg(v) WHERE half = 'b'",
        truth: Table::mean_of_half,
        ..PLAIN
    },
    Row {
        name: "count where",
        query: "SELECT count(*) WHERE v > 20",
        truth: Table::count_of_high,
        ..PLAIN
    },
    Row {
        name: "sum where",
        query: "SELECT sum(v) WHERE v > 20 AND key = 'C4'",
        truth: Table::sum_of_high,
        ..PLAIN
    },
    Row { name: "mean, in time order", ordered: true, ..PLAIN },
    Row { name: "mean, accepted error 1 %", emax: Some(0.01), msr: 0.95, ..PLAIN },
];

/// The counts of a row.
#[derive(Debug, Default, Serialize)]
struct Counts {
    name: &'static str,
    jobs: u32,
    covered: u32,
    missed_with_warning: u32,
    warned: u32,
    /// The mean share of messages that arrived.
    arrived: f64,
    /// The mean half-width of the intervals, relative to the truth.
    half_width: f64,
}

/// Runs `jobs` jobs for each row whose name contains `named`, and prints the table.
pub fn run(jobs: u32, named: &str, launch: &Launch, json: Option<ResultFile>) -> Result<()> {
    interrupt::install()?;
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.name.contains(named)).collect();
    ensure!(!rows.is_empty(), "no row's name contains {named:?}");
    let progress = Progress::new();
    let mut all = Vec::new();
    for row in rows {
        progress.begin(row.name);
        let counts = measure(row, jobs, launch).with_context(|| row.name)?;
        progress.line(&format!("{}: {} of {jobs} covered", row.name, counts.covered));
        all.push(counts);
    }
    let header = [
        "row",
        "verdict",
        "arrived",
        "coverage",
        "half-width / truth",
        "misses with a warning",
        "jobs with a warning",
    ];
    note!("{}", text_table(header, 2, all.iter().map(Counts::cells)));
    json.map_or(Ok(()), |file| file.write_json(&all))
}

fn measure(row: &Row, jobs: u32, launch: &Launch) -> Result<Counts> {
    let star = wired_star(2)?;
    let lossy = if row.drops { Trouble::loss(LOSS) } else { Trouble::default() };
    let _injection = Injection::start(&star.router, &Trouble::default(), &lossy)?;
    if !row.drops {
        star.shape(1, PORT_RATE, PORT_PACKETS)?;
    }
    let Star { hosts, .. } = &star;
    let [from, to] = &hosts[..] else { return Err(anyhow!("not two hosts")) };
    let mut of_sender = launch.clone();
    of_sender.options.extend(["--rate-max".into(), RATE_MAX.into()]);
    let (from_daemon, to_daemon) = (Daemon::start(from, &of_sender)?, Daemon::start(to, launch)?);
    let program = &launch.program;
    let from = Place { host: from, daemon: &from_daemon, program };
    let to = Place { host: to, daemon: &to_daemon, program };
    let mut counts = Counts { name: row.name, ..Counts::default() };
    for seed in 0..jobs {
        let table = Table::draw(seed.into(), row.ordered);
        let answer = job::run(row, &table.csv(), &from, &to);
        counts.add((row.truth)(&table), &answer.with_context(|| format!("job {seed}"))?);
    }
    let n = f64::from(jobs);
    (counts.arrived, counts.half_width) = (counts.arrived / n, counts.half_width / n);
    Ok(counts)
}

impl Counts {
    fn add(&mut self, truth: f64, answer: &job::Answer) {
        let (is_covered, warns) =
            ((answer.low..=answer.high).contains(&truth), !answer.warnings.is_empty());
        self.jobs += 1;
        self.covered += u32::from(is_covered);
        self.warned += u32::from(warns);
        self.missed_with_warning += u32::from(!is_covered && warns);
        self.arrived += answer.messages as f64 / answer.messages_sent as f64;
        self.half_width += (answer.high - answer.low) / 2.0 / truth;
    }

    fn verdict(&self) -> &'static str {
        let missed = f64::from(self.jobs - self.covered);
        if f64::from(self.covered) >= COVERED_MIN * f64::from(self.jobs) {
            "covers"
        } else if f64::from(self.missed_with_warning) >= WARNED_MIN * missed {
            "warns"
        } else {
            "falls short"
        }
    }

    fn cells(&self) -> [String; 7] {
        let percent =
            |part: u32, all: u32| format!("{:.0} %", 100.0 * f64::from(part) / f64::from(all));
        let missed = self.jobs - self.covered;
        [
            self.name.to_owned(),
            self.verdict().to_owned(),
            format!("{:.0} %", 100.0 * self.arrived),
            percent(self.covered, self.jobs),
            format!("{:.2} %", 100.0 * self.half_width),
            if missed == 0 {
                "no miss".to_owned()
            } else {
                percent(self.missed_with_warning, missed)
            },
            percent(self.warned, self.jobs),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict__by_coverage_or_warnings() {
        let of = |covered, missed_with_warning| {
            Counts { jobs: 100, covered, missed_with_warning, ..Counts::default() }.verdict()
        };
        assert_eq!(
            [of(93, 0), of(92, 8), of(92, 7), of(0, 95)],
            ["covers", "warns", "falls short", "warns"]
        );
    }
}
