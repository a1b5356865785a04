//! `atp-sim map`: maps where one scheme completes jobs faster than another.

use super::{
    repeat::RepeatOptions,
    values::{NamedSizes, profile, sizes},
};
use anyhow::{Context, Result, bail};
use atp_output::{complain, say};
use atp_sim::{
    experiment::Scheme,
    figures::Extent,
    map::{Comparison, Map, MapResult, Measure, Setting, maps, points, run as run_maps, write},
    statistics::Estimate,
};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use std::{path::PathBuf, time::Instant};
use switch_profiles::Profile;

#[derive(Debug, Args)]
pub struct Options {
    /// The names of maps: fan-in, message-size, spread, msr, msr-spread, exact-share, buffer,
    /// ecn-threshold, slow-hosts, slow-links, or all
    #[arg(default_value = "all")]
    maps: Vec<String>,
    /// The scheme to evaluate; `atp-sim run --help` lists all schemes
    #[arg(long, default_value_t)]
    scheme: Scheme,
    /// The scheme to compare with
    #[arg(long, default_value = "dctcp-es")]
    against: Scheme,
    /// The distribution of message sizes, as for `atp-sim run`, with a mean of up to 10 MB
    /// [default: a mean of 10 kB]. The maps message-size, spread and msr-spread vary the sizes and
    /// do not take this option
    #[arg(long, value_parser = sizes)]
    sizes: Option<NamedSizes>,
    /// The queue profile of the switches, as for `atp-sim run` [default: the scheme's own]
    #[arg(long, value_name = "FILE", value_parser = profile)]
    profile: Option<Profile>,
    /// The folder for map-NAME.json, map-NAME.csv and map-NAME.svg
    /// [default: target/map, with --quick target/map/quick]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Check in seconds that the maps run: 8 hosts instead of 32, one seed instead of three, a
    /// fifth of the duration, and only the corners of each map. The numbers differ
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    repeat: RepeatOptions,
}

pub fn run(options: &Options) -> Result<()> {
    let extent = if options.quick { Extent::Quick } else { Extent::Full };
    let maps = chosen(&options.maps, options.sizes.is_some())?;
    if let Some(sizes) = &options.sizes {
        check(sizes)?;
    }
    let sizes = options.sizes.as_ref().map(|named| named.sizes.clone());
    let profile = options.profile.clone();
    let base = Setting { sizes, profile, ..Setting::base(extent) };
    let pair = Comparison { scheme: options.scheme, against: options.against };
    // A quick run must not overwrite the results of a long one.
    let default = if options.quick { "target/map/quick" } else { "target/map" };
    let out = options.out.clone().unwrap_or_else(|| default.into());
    std::fs::create_dir_all(&out)
        .with_context(|| format!("cannot create the folder {}", out.display()))?;
    let seeds = options.repeat.seeds(extent);
    let mut runs = options.repeat.runs(&out)?;
    let started = Instant::now();
    let points = points(&maps, pair, &base, extent, seeds);
    say!("{}", options.repeat.description(&runs, &points, extent));
    for drawn in run_maps(&maps, pair, &base, extent, seeds, &mut runs)? {
        write(&drawn, pair, extent, seeds, &out)?;
        let (name, note) = (drawn.map.name, extent.note());
        say!("{name}: mean completion, {} / {}{note}", pair.scheme, pair.against);
        say!("{}", table(&drawn));
        say!("{}\n", summary(&drawn, pair));
    }
    say!("{:.0} s, written to {}", started.elapsed().as_secs_f64(), out.display());
    Ok(())
}

/// The limit of the mean message size. A map with this mean takes a quarter of an hour on two
/// cores, because every job has fifty messages.
const MEAN_BYTES_MAX: f64 = 10_000_000.0;

/// Refuses sizes that would take too long, and prints the warning about a table.
fn check(chosen: &NamedSizes) -> Result<()> {
    let mean_bytes = chosen.sizes.mean(f64::from);
    if mean_bytes > MEAN_BYTES_MAX {
        bail!(
            "--sizes: a mean of {mean_bytes:.0} bytes would take hours, because a map's jobs have 50 \
             messages or more: choose a mean of up to {MEAN_BYTES_MAX} bytes"
        )
    }
    if let Some(note) = &chosen.note {
        complain!("note: {note}");
    }
    Ok(())
}

/// The chosen maps. With `--sizes`, `all` leaves out the maps that vary the sizes.
fn chosen(words: &[String], has_sizes: bool) -> Result<Vec<Map>> {
    if words.iter().any(|word| word == "all") {
        let is_out = |map: &Map| has_sizes && map.varies_sizes();
        let (out, left): (Vec<Map>, Vec<Map>) = maps().into_iter().partition(is_out);
        if !out.is_empty() {
            let names: Vec<&str> = out.iter().map(|map| map.name).collect();
            complain!(
                "note: --sizes leaves out {}, which vary the message sizes",
                names.join(", ")
            );
        }
        return Ok(left);
    }
    let find = |word: &String| match maps().into_iter().find(|map| map.name == *word) {
        Some(map) if has_sizes && map.varies_sizes() => {
            bail!(
                "--sizes has no effect on the map {word}, which varies the message sizes; leave it out"
            )
        }
        Some(map) => Ok(map),
        None => {
            let names: Vec<&str> = maps().iter().map(|map| map.name).collect();
            bail!("there is no map {word:?}: choose from {}, or all", names.join(", "))
        }
    };
    words.iter().map(find).collect()
}

fn table(drawn: &MapResult) -> Table {
    let Map { x_axis, y_axis, .. } = drawn.map;
    let mut table = Table::new();
    let mut rows: Vec<&[_]> = drawn.cells.chunk_by(|one, next| one.y == next.y).collect();
    rows.reverse();
    let first = rows.first().copied().unwrap_or_default();
    let header = [format!("{} \\ {}", y_axis.label(), x_axis.label())].into_iter();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header.chain(first.iter().map(|cell| x_axis.text(cell.x))));
    for row in rows {
        let values = row.iter().map(|cell| {
            Measure::Completion.ratio(cell).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
        });
        let y = row.first().map_or(String::new(), |cell| y_axis.text(cell.y));
        table.add_row([y].into_iter().chain(values));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Smaller relative differences count as equal, and so do those whose interval contains 0.
const EQUAL_WITHIN: f64 = 0.02;

fn summary(drawn: &MapResult, Comparison { scheme, against }: Comparison) -> String {
    let ratios: Vec<Estimate> =
        drawn.cells.iter().filter_map(|cell| Measure::Completion.ratio(cell)).collect();
    let is_faster = |ratio: &&Estimate| ratio.mean < 1.0 - EQUAL_WITHIN && ratio.high() < 1.0;
    let is_slower = |ratio: &&Estimate| ratio.mean > 1.0 + EQUAL_WITHIN && ratio.low() > 1.0;
    let faster = ratios.iter().filter(is_faster).count();
    let slower = ratios.iter().filter(is_slower).count();
    let never = drawn.cells.len() - ratios.len();
    let wasted = |of: Measure| {
        let shares: Vec<f64> = drawn.cells.iter().filter_map(|cell| of.of(cell)).collect();
        100.0 * shares.iter().sum::<f64>() / shares.len().max(1) as f64
    };
    format!(
        "{scheme} completes jobs faster than {against} in {faster} of {} cells and slower in {slower}; in \
         {never}, a job never completed. On average, {scheme} wasted {:.1} % of its data and {against} \
         {:.1} %.",
        drawn.cells.len(),
        wasted(Measure::Wasted),
        wasted(Measure::WastedAgainst)
    )
}
