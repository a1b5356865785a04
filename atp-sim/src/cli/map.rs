//! `atp-sim map`: where one scheme is done sooner than another.

use super::{
    say,
    values::{NamedSizes, sizes},
};
use anyhow::{Context, Result, bail};
use atp_sim::{
    experiment::Scheme,
    figures::Extent,
    map::{Drawn, Map, Measure, Pair, Setting, maps, run as run_maps, write},
};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use std::{path::PathBuf, time::Instant};

#[derive(Debug, Args)]
pub struct Options {
    /// Which ones: fan-in, message-size, spread, msr, msr-spread, exact-share, buffer, slow-hosts,
    /// slow-links, or all
    #[arg(default_value = "all")]
    maps: Vec<String>,
    /// Whose map it is; `atp-sim run --help` names all schemes
    #[arg(long, default_value_t)]
    scheme: Scheme,
    /// What it is held against
    #[arg(long, default_value = "dctcp-es")]
    against: Scheme,
    /// How long messages are, as for `atp-sim run`, up to 10 MB on the average, instead of 10 kB: not for
    /// message-size, spread and msr-spread, which vary that
    #[arg(long, value_parser = sizes)]
    sizes: Option<NamedSizes>,
    /// The folder for map-NAME.json, map-NAME.csv and map-NAME.svg
    /// [default: target/map, with --quick target/map/quick]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Eight hosts instead of 32, one seed instead of three, a fifth of the time and the corners of each
    /// map: that it runs, in seconds
    #[arg(long)]
    quick: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let extent = if options.quick { Extent::Quick } else { Extent::Full };
    let maps = chosen(&options.maps, options.sizes.is_some())?;
    if let Some(sizes) = &options.sizes {
        check(sizes)?;
    }
    let sizes = options.sizes.as_ref().map(|named| named.sizes.clone());
    let base = Setting { sizes, ..Setting::base(extent) };
    let pair = Pair { scheme: options.scheme, against: options.against };
    // What took minutes isn't replaced by what took seconds.
    let default = if options.quick { "target/map/quick" } else { "target/map" };
    let out = options.out.clone().unwrap_or_else(|| default.into());
    std::fs::create_dir_all(&out)
        .with_context(|| format!("can't make the folder {}", out.display()))?;
    let started = Instant::now();
    for drawn in run_maps(&maps, pair, &base, extent) {
        write(&drawn, pair, extent, &out)?;
        let (name, note) = (drawn.map.name, extent.note());
        say!("{name}: mean completion, {} / {}{note}", pair.scheme, pair.against);
        say!("{}", table(&drawn));
        say!("{}\n", summary(&drawn, pair));
    }
    say!("{:.0} s, written to {}", started.elapsed().as_secs_f64(), out.display());
    Ok(())
}

/// A full map of such messages takes a quarter of an hour on two cores: every job has fifty of them.
const MEAN_BYTES_MAX: f64 = 10_000_000.0;

/// Refuses what would take too long, and notes what is odd about the rest.
fn check(chosen: &NamedSizes) -> Result<()> {
    let mean_bytes = chosen.sizes.mean(f64::from);
    if mean_bytes > MEAN_BYTES_MAX {
        bail!(
            "--sizes: messages have {mean_bytes:.0} bytes on the average, and a map's jobs have 50 of them \
             or more: choose up to {MEAN_BYTES_MAX} bytes"
        )
    }
    if let Some(note) = &chosen.note {
        eprintln!("note: {note}");
    }
    Ok(())
}

/// All are those that there are with sizes of their own.
fn chosen(words: &[String], has_sizes: bool) -> Result<Vec<Map>> {
    if words.iter().any(|word| word == "all") {
        let is_out = |map: &Map| has_sizes && map.is_of_lengths();
        let (out, left): (Vec<Map>, Vec<Map>) = maps().into_iter().partition(is_out);
        if !out.is_empty() {
            let names: Vec<&str> = out.iter().map(|map| map.name).collect();
            eprintln!(
                "note: with --sizes not {}, which vary how long messages are",
                names.join(", ")
            );
        }
        return Ok(left);
    }
    let find = |word: &String| match maps().into_iter().find(|map| map.name == *word) {
        Some(map) if has_sizes && map.is_of_lengths() => {
            bail!("--sizes says nothing here: the map {word} varies how long messages are")
        }
        Some(map) => Ok(map),
        None => {
            let names: Vec<&str> = maps().iter().map(|map| map.name).collect();
            bail!("{word:?} is no map: {}, or all", names.join(", "))
        }
    };
    words.iter().map(find).collect()
}

fn table(drawn: &Drawn) -> Table {
    let Map { across, up, .. } = drawn.map;
    let mut table = Table::new();
    let mut rows: Vec<&[_]> = drawn.cells.chunk_by(|one, next| one.y == next.y).collect();
    rows.reverse();
    let first = rows.first().copied().unwrap_or_default();
    let header = [format!("{} \\ {}", up.label(), across.label())].into_iter();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header.chain(first.iter().map(|cell| across.text(cell.x))));
    for row in rows {
        let values = row.iter().map(|cell| {
            Measure::Completion.of(cell).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
        });
        let y = row.first().map_or(String::new(), |cell| up.text(cell.y));
        table.add_row([y].into_iter().chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Times that differ by less are called alike.
const ALIKE: f64 = 0.02;

fn summary(drawn: &Drawn, Pair { scheme, against }: Pair) -> String {
    let ratios: Vec<f64> =
        drawn.cells.iter().filter_map(|cell| Measure::Completion.of(cell)).collect();
    let sooner = ratios.iter().filter(|ratio| **ratio < 1.0 - ALIKE).count();
    let later = ratios.iter().filter(|ratio| **ratio > 1.0 + ALIKE).count();
    let never = drawn.cells.len() - ratios.len();
    let wasted = |of: Measure| {
        let shares: Vec<f64> = drawn.cells.iter().filter_map(|cell| of.of(cell)).collect();
        100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64
    };
    format!(
        "{scheme} is sooner in {sooner} of {} places, later in {later}, without an answer in {never}; it \
         wasted {:.1} % on the average, {against} {:.1} %",
        drawn.cells.len(),
        wasted(Measure::Wasted),
        wasted(Measure::WastedAgainst)
    )
}
