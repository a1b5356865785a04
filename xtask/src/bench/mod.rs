//! Benchmarks: what a packet costs in the eBPF programs, and what the library makes of it.

mod datapath;
mod library;

use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Nanoseconds and verified instructions of every eBPF program, packet by packet
    Datapath(datapath::Args),
    /// Packets and bytes per second of the library, beside raw UDP and TCP
    Library(library::Args),
    /// One process of `bench library`; started by it
    #[command(hide = true)]
    Worker(library::worker::Args),
}

pub fn main(args: Args) -> Result<()> {
    match args.bench {
        Bench::Datapath(args) => datapath::main(&args),
        Bench::Library(args) => library::main(&args),
        Bench::Worker(args) => library::worker::main(args),
    }
}

/// Writes a benchmark's results for programs.
fn write_json(path: &Path, results: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(results)?;
    std::fs::write(path, text + "\n").with_context(|| format!("can't write {}", path.display()))
}

/// A table whose columns from `numbers` on hold numbers.
fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    numbers: usize,
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The middle value; the mean of both middle ones if their number is even. NaN for none.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn median__odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }
}
