//! Coverage over the real sender: jobs of ATP's state machines on a simulated network, whose
//! losses are those of short queues, of random drops, and of jobs that end at their sampling rate.
//!
//! Each row of the table is a test. `ATP_COVERAGE_JOBS=1000` prints the table of the book instead,
//! with as many jobs in each row, and the measurements of `study`.

mod alarms;
mod answers;
mod coverage;
mod data;
mod facts;
mod job;
mod lossy;
mod plan;
mod rows;
mod simulated;
mod study;

use std::env;
use std::process::ExitCode;
use std::thread;

use coverage::Coverage;
use libtest_mimic::{Arguments, Failed, Trial};
use rows::{ROWS, Row};

/// The number of jobs of a row in a test. Fewer wouldn't show that a row falls short.
const JOBS: u64 = 200;

fn main() -> ExitCode {
    if let Ok(jobs) = env::var("ATP_COVERAGE_JOBS") {
        let jobs = jobs.parse().expect("ATP_COVERAGE_JOBS is a number of jobs");
        print_table(jobs);
        study::print_ways(jobs);
        study::print_quarters(jobs);
        return ExitCode::SUCCESS;
    }
    let trial = |row: &'static Row| Trial::test(format!("coverage__{}", row.name), || test(row));
    let trials = ROWS.iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn coverage(row: &Row, jobs: u64) -> Coverage {
    let mut coverage = Coverage::default();
    (0..jobs).for_each(|number| coverage.add(&job::run(row, number)));
    coverage
}

fn test(row: &Row) -> Result<(), Failed> {
    let coverage = coverage(row, JOBS);
    let line = coverage.line(row);
    println!("{line}");
    let is_quiet = !row.is_fair() || row.is_heavy() || coverage.may_be_quiet();
    let complaint = match (coverage.may_hold(), is_quiet) {
        (true, true) => return Ok(()),
        (false, _) => "the row falls short",
        (true, false) => "false alarms",
    };
    Err(format!("{complaint}\n{}\n{line}", Coverage::HEAD).into())
}

fn print_table(jobs: u64) {
    println!("{}", Coverage::HEAD);
    let of = |row: &'static Row| thread::spawn(move || (row, coverage(row, jobs)));
    let running: Vec<_> = ROWS.iter().map(of).collect();
    let mut rows = Vec::new();
    for row in running {
        let (row, coverage) = row.join().expect("a row");
        println!("{}", coverage.line(row));
        rows.push((row, coverage));
    }
    alarms::print(&rows);
}
