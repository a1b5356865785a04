//! `cargo xtask bench kafka`: carries windows of a topic to another host over ATP and over TCP,
//! beside exact traffic.
//!
//! A cell is a scheme, an MSR, a load and a round. Each has a network and a broker of its own, and
//! a line in a results file. Cells that are in the file aren't measured again.

mod cell;
mod chart;
mod demonstration;
mod engine;
mod figure;
mod flink;
mod plan;
mod programs;
mod receivers;
mod rounds;
mod row;
mod scheme;
mod summary;
mod table;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use atp_options::quantity;
use atp_output::note;
pub use demonstration::main as demonstrate;
pub use engine::Engine;
use testbed::interrupt;

use super::options::require_root;
use crate::installed;
use crate::job::msr;
use crate::job::progress::Progress;
use crate::result_file::ResultFile;
use cell::Conditions;
use row::{Cell, Outcome, Rows};
use scheme::Scheme;

#[derive(clap::Args)]
pub struct Args {
    /// Schemes, in this order, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "SCHEME",
        default_value = "atp,tcp-full,tcp-sample"
    )]
    schemes: Vec<Scheme>,
    /// Minimal sampling rates (MSR); tcp-full has all records
    #[arg(long, value_delimiter = ',', value_name = "MSR", default_value = "0.5,0.8,0.95",
          value_parser = msr)]
    msrs: Vec<f64>,
    /// Accepted errors of averages for ATP, as shares of them: cells beside those with an MSR
    #[arg(long, value_delimiter = ',', value_name = "SHARE", value_parser = accepted_error)]
    errors: Vec<f64>,
    /// Offered records, as shares of what the receiver's port can carry beside exact traffic
    #[arg(long, value_delimiter = ',', value_name = "SHARE", default_value = "0.5,1.1,1.5",
          value_parser = load)]
    loads: Vec<f64>,
    /// Windows that are measured of each partition, a second each
    #[arg(long, value_name = "SECONDS", default_value = "25",
          value_parser = clap::value_parser!(u32).range(4..=3_600))]
    seconds: u32,
    /// Number of runs of each cell, for medians and ranges; each has other records
    #[arg(long, value_name = "COUNT", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Rate of the receiver's port; other ports have five times that
    #[arg(long, value_name = "RATE", default_value = "200mbit",
          value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Bytes of a record's value; shorter ones need more processor time at the same load
    #[arg(long, value_name = "BYTES", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(8..=100_000))]
    value_bytes: u32,
    /// Program that answers windows at the receiving host
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    engine: Engine,
    /// File of results, a line for each cell; cells that are in it aren't measured again [default:
    /// target/bench/kafka.jsonl]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write a picture to this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    require_root("makes network namespaces")?;
    let conditions = conditions()?;
    let plot = args.plot.as_deref().map(ResultFile::at).transpose()?;
    let default = || installed::target().join("bench/kafka.jsonl");
    let mut rows = Rows::open(&args.results.clone().unwrap_or_else(default))?;
    let cells = plan::cells(args);
    measure(&conditions, &cells, &mut rows)?;
    table::print(&cells, &rows);
    note!("Results: {}", rows.path().display());
    plot.map_or(Ok(()), |file| draw(&cells, &rows, &file))?;
    require_success(&cells, &rows)
}

/// The programs that `cargo xtask` built, and the datapath, which is printed.
fn conditions() -> Result<Conditions> {
    let launch = match installed::object_or_reason() {
        Ok(_) => Some(installed::launch()?),
        Err(reason) => {
            note!("datapath: userspace, because the eBPF one can't be built here: {reason}");
            None
        }
    };
    installed::kafka()?;
    installed::kafka_load()?;
    Ok(Conditions { launch, jars: installed::kafka_jars()? })
}

/// Writes the picture, and says where.
fn draw(cells: &[Cell], rows: &Rows, file: &ResultFile) -> Result<()> {
    file.write_text(&chart::svg(&table::panels(cells, rows))?)?;
    note!("Picture: {}", file.path().display());
    Ok(())
}

/// Measures the cells that aren't in the file.
fn measure(conditions: &Conditions, cells: &[Cell], rows: &mut Rows) -> Result<()> {
    let is_there = |cell: &&Cell| rows.get(cell).is_some_and(Outcome::is_good);
    let (there, missing): (Vec<&Cell>, Vec<&Cell>) =
        plan::interleaved(cells).into_iter().partition(is_there);
    let progress = Progress::new();
    if !there.is_empty() {
        let path = rows.path().display();
        progress.line(&format!("{} cells are in {path} already", there.len()));
    }
    let begun = Instant::now();
    let mut is_broken = false;
    for (number, &cell) in missing.iter().enumerate() {
        progress.begin(&cell.name());
        let measured = conditions.measure(cell, &progress);
        // A program may fail once, but not twice in a row.
        let was_broken = std::mem::replace(&mut is_broken, measured.is_err());
        let outcome = match measured {
            Err(error) if was_broken || interrupt::interrupted() => return Err(error),
            Err(error) => Outcome::failure(format!("{error:#}")),
            Ok(outcome) => outcome,
        };
        let done = number + 1;
        let left_s = begun.elapsed().as_secs_f64() / done as f64 * (missing.len() - done) as f64;
        progress.line(&format!(
            "{done} of {}: {}: {}; about {:.0} min left",
            missing.len(),
            cell.name(),
            table::describe(cell, &outcome),
            (left_s / 60.0).ceil()
        ));
        rows.add(cell.clone(), outcome)?;
    }
    Ok(())
}

/// Fails if a cell has no results.
fn require_success(cells: &[Cell], rows: &Rows) -> Result<()> {
    let failure = |cell: &Cell| {
        let outcome = rows.get(cell);
        outcome.map_or(Some("not measured"), |outcome| outcome.failed.as_deref())
    };
    let failed: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(format!("{} ({})", cell.name(), failure(cell)?)))
        .collect();
    ensure!(
        failed.is_empty(),
        "{} of {} cells failed: {}. The same command measures them again",
        failed.len(),
        cells.len(),
        failed.join("; ")
    );
    Ok(())
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load <= 4.0 => Ok(load),
        _ => Err(format!("`{text}` is not a load above 0, 4 at most")),
    }
}

fn accepted_error(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(error) if error > 0.0 && error < 1.0 => Ok(error),
        _ => Err(format!("`{text}` is not a share above 0 and below 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    #[test]
    fn args__reject_bad_values() {
        for (line, said) in [
            ("--schemes pigeon", "tcp-sample"),
            ("--msrs 0.5,2", "between 0 and 1"),
            ("--errors 1", "above 0 and below 1"),
            ("--loads 0", "above 0"),
            ("--loads NaN", "above 0"),
            ("--seconds 1", "1 is not in 4..=3600"),
            ("--rounds 0", "0 is not in"),
            ("--rate fast", "begin with a number"),
            ("--value-bytes 7", "7 is not in 8..=100000"),
        ] {
            let refusal = parse_line::<Args>(line).err().unwrap_or_else(|| panic!("`{line}`"));
            assert!(refusal.contains(said), "{line}: {refusal}");
        }
    }

    #[test]
    fn require_success__names_the_cells_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        let line = "--schemes atp --msrs 0.5 --loads 1.5";
        let cells = plan::cells(&parse_line::<Args>(line).unwrap());
        rows.add(cells[0].clone(), Outcome::new()).unwrap();
        rows.add(cells[1].clone(), Outcome::failure("it fell".to_owned())).unwrap();
        let refusal = require_success(&cells, &rows).unwrap_err().to_string();
        let begin = "1 of 2 cells failed: round 1, load 1.5, atp, MSR 0.5 (it fell)";
        assert!(refusal.starts_with(begin), "{refusal}");
        rows.add(cells[1].clone(), Outcome::new()).unwrap();
        require_success(&cells, &rows).unwrap();
    }
}
