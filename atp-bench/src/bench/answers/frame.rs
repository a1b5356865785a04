//! The processor time of a data frame: sent from Python, received, and answered. Beside it, pandas'
//! own answer, and the same frame sent by Arrow Flight.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use atp_output::{complain, note};
use serde::{Deserialize, Serialize};

use crate::bench::library::Worker;
use crate::bench::{languages::python::unpacked_wheel, program_output, table};
use crate::installed;
use crate::median::median;
use crate::result_file::ResultFile;

/// The ways, by their names in `frame.py`.
const WAYS: [(&str, &str); 5] = [
    ("pandas", "pandas: groupby, in memory"),
    ("flight", "Arrow Flight: do_get"),
    ("atp_ordered", "ATP: in order, MSR 1"),
    ("atp_shuffled", "ATP: shuffled, MSR 1"),
    ("atp_answer", "ATP: shuffled, MSR 1, avg(x) by key"),
];

/// One run of a way.
#[derive(Deserialize)]
struct Run {
    way: String,
    /// The time of one process, or of a sender and a receiver.
    cpu_s: Vec<f64>,
    /// The frame's size in memory.
    bytes: f64,
}

/// The medians of a way.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    sender_cpu_s: f64,
    receiver_cpu_s: Option<f64>,
    million_rows_per_cpu_s: f64,
    million_bytes_per_cpu_s: f64,
}

/// Measures a frame of `rows` rows, `repetitions` times.
pub fn run(rows: u32, repetitions: u32, json: Option<ResultFile>) -> Result<()> {
    let package = unpacked_wheel()?;
    let python = installed::target().join("bench-frame");
    make_environment(&python)?;
    let script = installed::workspace().join("atp-bench/src/bench/answers/frame.py");
    let mut measure = Command::new(python.join("bin/python"));
    measure.arg(script).args([rows, repetitions].map(|number| number.to_string()));
    measure.arg(installed::daemon()?).env("PYTHONPATH", package);
    let mut worker = Worker::spawn(measure, "frame.py")?;
    let mut runs: Vec<Run> = Vec::new();
    for round in 1..=repetitions {
        complain!("round {round}/{repetitions}");
        for _ in WAYS {
            runs.push(worker.line()?);
        }
    }
    let results: Vec<Row> =
        WAYS.iter().map(|way| Row::of(*way, rows, &runs)).collect::<Result<_>>()?;
    let header = ["way", "sender s", "receiver s", "M rows/CPU s", "MB/CPU s"];
    note!("{}", table(header, 1, results.iter().map(Row::cells)));
    json.map_or(Ok(()), |file| file.write_json(&results))
}

/// An environment with pandas and pyarrow of the versions that the tests have.
fn make_environment(folder: &Path) -> Result<()> {
    if !folder.join("bin/python").exists() {
        program_output(Command::new(installed::python()).args(["-m", "venv"]).arg(folder))?;
    }
    let requirements = installed::workspace().join("bindings/python/tests/requirements.txt");
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install"]);
    program_output(install.args(["--quiet", "--requirement"]).arg(requirements)).map(drop)
}

impl Row {
    fn of((way, name): (&str, &'static str), rows: u32, runs: &[Run]) -> Result<Self> {
        let own = || runs.iter().filter(|run| run.way == way);
        let of_end = |end: usize| median(own().filter_map(|run| run.cpu_s.get(end).copied()));
        let all = own().map(|run| run.cpu_s.iter().sum());
        let cpu_s = median(all).with_context(|| format!("frame.py has no {way}"))?;
        let bytes = own().next().map_or(0.0, |run| run.bytes);
        Ok(Self {
            name,
            sender_cpu_s: of_end(0).unwrap_or(cpu_s),
            receiver_cpu_s: of_end(1),
            million_rows_per_cpu_s: f64::from(rows) / 1e6 / cpu_s,
            million_bytes_per_cpu_s: bytes / 1e6 / cpu_s,
        })
    }

    fn cells(&self) -> [String; 5] {
        [
            self.name.to_owned(),
            format!("{:.2}", self.sender_cpu_s),
            self.receiver_cpu_s.map_or_else(String::new, |cpu_s| format!("{cpu_s:.2}")),
            format!("{:.1}", self.million_rows_per_cpu_s),
            format!("{:.0}", self.million_bytes_per_cpu_s),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of__takes_medians_of_both_ends_together() {
        let run = |cpu_s: &[f64]| Run { way: "a".into(), cpu_s: cpu_s.to_vec(), bytes: 9e6 };
        let runs = [run(&[1.0, 4.0]), run(&[2.0, 1.0]), run(&[3.0, 1.5])];
        let row = Row::of(("a", "A"), 9_000_000, &runs).unwrap();
        assert_eq!(row.cells(), ["A", "2.00", "1.50", "2.0", "2"]);
        assert!(Row::of(("b", "B"), 9_000_000, &runs).is_err());
    }
}
