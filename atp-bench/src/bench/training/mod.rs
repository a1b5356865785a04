//! `cargo xtask bench training`: trains a small model on several hosts of the testbed, with
//! gradients over ATP and over gloo, beside exact traffic.
//!
//! A cell is a scenario, a model, a number of ranks, a scheme and a seed. Each has a network of its
//! own, and a line in a results file. Cells that are in the file aren't measured again.

mod cell;
mod chart;
mod demonstration;
mod rank;
mod row;
mod scenario;
mod scheme;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use atp_output::note;
pub use demonstration::main as demonstrate;
use testbed::interrupt;

use super::options::{DaemonOption, require_root};
use crate::installed;
use crate::job::progress::Progress;
use crate::result_file::ResultFile;
use cell::Conditions;
use row::{Cell, Outcome, Rows};
use scenario::Scenario;
use scheme::{Model, SCHEMES, Scheme};

#[derive(clap::Args)]
pub struct Args {
    /// Networks
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "SCENARIO",
        default_value = "even,slow-link,bursts"
    )]
    scenarios: Vec<Scenario>,
    /// Models, trained on the digits of scikit-learn
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "MODEL",
        default_value = "mlp,conv"
    )]
    models: Vec<Model>,
    /// Ways to exchange gradients [default: all]
    #[arg(long, value_delimiter = ',', value_name = "SCHEME", default_values = names(),
          hide_default_value = true, value_parser = clap::builder::PossibleValuesParser::new(names()))]
    schemes: Vec<String>,
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "2,4",
          value_parser = clap::value_parser!(u8).range(2..=16))]
    ranks: Vec<u8>,
    /// Seeds for two ranks; more ranks get the first one
    #[arg(long, value_delimiter = ',', value_name = "SEED", default_value = "1,2,3")]
    seeds: Vec<u64>,
    /// File of results, a line for each cell; cells that are in it aren't measured again [default:
    /// target/bench/training.jsonl]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Training time after which a cell ends, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "120",
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    limit_s: u64,
    /// Write a picture to this file: accuracy over training time
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Most steps of a training, for a try
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    #[command(flatten)]
    daemon: DaemonOption,
}

/// The time of measuring exact traffic alone.
const ALONE_TIME: Duration = Duration::from_secs(15);

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    require_root("makes network namespaces and loads eBPF programs")?;
    let conditions = Conditions {
        launch: args.daemon.launch()?,
        limit: Duration::from_secs(args.limit_s),
        alone: ALONE_TIME,
    };
    testbed::collective_python()?;
    let plot = args.plot.as_deref().map(ResultFile::at).transpose()?;
    let default = || installed::target().join("bench/training.jsonl");
    let mut rows = Rows::open(&args.results.clone().unwrap_or_else(default))?;
    let cells = cells(args);
    measure(&conditions, &cells, &mut rows)?;
    table::print(&cells, &rows);
    note!("Results: {}", rows.path().display());
    plot.map_or(Ok(()), |file| draw(&cells, &rows, &file))?;
    require_success(&cells, &rows)
}

/// Fails if a cell has failed.
fn require_success(cells: &[Cell], rows: &Rows) -> Result<()> {
    let failed: Vec<String> = cells
        .iter()
        .filter_map(|cell| Some(format!("{} ({})", cell.name(), rows.failure(cell)?)))
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

/// Writes the picture, and says where.
fn draw(cells: &[Cell], rows: &Rows, file: &ResultFile) -> Result<()> {
    file.write_text(&chart::svg(&table::panels(cells, rows))?)?;
    note!("Picture: {}", file.path().display());
    Ok(())
}

/// Measures the cells that aren't in the file.
fn measure(conditions: &Conditions, cells: &[Cell], rows: &mut Rows) -> Result<()> {
    let limit_s = conditions.limit.as_secs_f64();
    let missing: Vec<&Cell> = cells.iter().filter(|cell| !rows.has(cell, limit_s)).collect();
    let progress = Progress::new();
    let there = cells.len() - missing.len();
    if there > 0 {
        progress.line(&format!("{there} cells are in {} already", rows.path().display()));
    }
    let begun = Instant::now();
    let mut is_broken = false;
    for (number, &cell) in missing.iter().enumerate() {
        progress.begin(&cell.name());
        let measured = conditions.measure(cell);
        // A network may fail once in an hour of cells, but not twice in a row.
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
            table::describe(&outcome),
            (left_s / 60.0).ceil()
        ));
        rows.add(cell.clone(), outcome)?;
    }
    Ok(())
}

/// All cells: those of one network after each other, first without a training.
fn cells(args: &Args) -> Vec<Cell> {
    let steps_max = args.steps.map_or(usize::MAX, |steps| steps as usize);
    let mut cells = Vec::new();
    for &scenario in &args.scenarios {
        cells.push(Cell::alone(scenario));
        for &ranks in &args.ranks {
            let seeds = if ranks == 2 { args.seeds.len() } else { 1 };
            for &model in &args.models {
                for &seed in &args.seeds[..seeds] {
                    cells.extend(args.schemes.iter().map(|scheme| Cell {
                        scenario,
                        model: Some(model),
                        ranks: ranks.into(),
                        scheme: scheme.clone(),
                        seed,
                        steps: model.steps().min(steps_max),
                    }));
                }
            }
        }
    }
    let mut distinct = Vec::new();
    for cell in cells {
        if !distinct.contains(&cell) {
            distinct.push(cell);
        }
    }
    distinct
}

fn names() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().map(|scheme: &Scheme| scheme.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    fn cells_of(line: &str) -> Vec<Cell> {
        cells(&parse_line::<Args>(line).unwrap())
    }

    #[test]
    fn cells__two_ranks_with_all_seeds_and_four_with_one() {
        let cells = cells_of("");
        let count = |ranks| cells.iter().filter(|cell| cell.ranks == ranks).count();
        assert_eq!(count(2), 3 * 2 * SCHEMES.len() * 3);
        assert_eq!(count(4), 3 * 2 * SCHEMES.len());
        assert_eq!(count(0), 3, "exact traffic alone, once for each network");
        assert!(cells.iter().filter(|cell| cell.ranks == 4).all(|cell| cell.seed == 1));
    }

    #[test]
    fn cells__each_once() {
        let line = "--scenarios even --models mlp --ranks 2 --schemes gloo,atp,gloo --seeds 7,7";
        let cells = cells_of(line);
        assert_eq!(cells.len(), 1 + 2);
        assert_eq!(cells[0].name(), "even, exact traffic alone");
        assert_eq!(cells[1].name(), "even, mlp, 2 ranks, gloo, seed 7");
        assert_eq!(cells[2].name(), "even, mlp, 2 ranks, atp, seed 7");
    }

    #[test]
    fn require_success__names_the_cells_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        let cells = cells_of("--scenarios even --models mlp --ranks 2 --schemes gloo --seeds 1");
        rows.add(cells[0].clone(), Outcome::default()).unwrap();
        rows.add(cells[1].clone(), Outcome::failure("rank 1: it fell".to_owned())).unwrap();
        let refusal = require_success(&cells, &rows).unwrap_err().to_string();
        assert!(
            refusal.starts_with(
                "1 of 2 cells failed: even, mlp, 2 ranks, gloo, seed 1 (rank 1: it fell)"
            ),
            "{refusal}"
        );
        rows.add(cells[1].clone(), Outcome::default()).unwrap();
        require_success(&cells, &rows).unwrap();
    }

    #[test]
    fn args__reject_bad_values() {
        for (line, said) in [
            ("--schemes gloo,pigeon", "pigeon"),
            ("--scenarios sunny", "slow-link"),
            ("--models vgg", "conv"),
            ("--ranks 1", "1 is not in 2..=16"),
            ("--limit-s 0", "0 is not in"),
            ("--steps 0", "0 is not in"),
        ] {
            let refusal = parse_line::<Args>(line).err().unwrap_or_else(|| panic!("`{line}`"));
            assert!(refusal.contains(said), "{line}: {refusal}");
        }
    }
}
