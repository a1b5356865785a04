//! `atp-sim figure`: the paper's figures as JSON, CSV and SVG.

use super::say;
use anyhow::{Context, Result, bail};
use atp_sim::figures::{Extent, Known, NUMBERS, Series, Timeline, figure, write, write_timeline};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
pub struct Options {
    /// Which ones: numbers of the paper's figures (5 to 14), or all
    #[arg(required = true)]
    figures: Vec<String>,
    /// The folder for figure-N.json, figure-N.csv and figure-N.svg
    #[arg(long, default_value = "target/figures")]
    out: PathBuf,
    /// Twelve hosts and one seed: that it runs, and which way things point
    #[arg(long)]
    quick: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let extent = if options.quick { Extent::Quick } else { Extent::Full };
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("can't make the folder {}", options.out.display()))?;
    let numbers = numbers(&options.figures)?;
    let mut known = Known::default();
    for number in numbers {
        if number == 10 {
            timeline(&Timeline::figure_10(), &options.out)?;
            continue;
        }
        let Some(figure) = figure(number, extent) else { bail!("there is no figure {number}") };
        say!("Figure {number}: {} ({} runs)", figure.title, figure.runs.len());
        let started = Instant::now();
        let series = figure.run(&mut known);
        write(&figure, &series, &options.out)?;
        say!("{}", table(figure.axis, &series));
        say!("{}; the paper: {}", figure.metric.label(), figure.claim);
        say!("{:.0} s\n", started.elapsed().as_secs_f64());
    }
    say!("written to {}", options.out.display());
    Ok(())
}

fn timeline(timeline: &Timeline, out: &Path) -> Result<()> {
    say!("Figure {}: {}", timeline.number, timeline.title);
    let started = Instant::now();
    let samples = timeline.run();
    write_timeline(timeline, &samples, out)?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "until [us]",
        "background queue",
        "queue",
        "TLR",
        "loss",
        "rate [Gbit/s]",
        "sent [Gbit/s]",
    ]);
    for phase in timeline.phases(&samples) {
        let background = phase.background_queue.map_or("-".to_owned(), |queue| queue.to_string());
        table.add_row([
            format!("{:.0}", phase.until_us),
            background,
            format!("{:.2}", phase.queue),
            format!("{:.3}", phase.tlr),
            format!("{:.3}", phase.loss),
            format!("{:.1}", phase.rate_gbit_per_s),
            format!("{:.1}", phase.sent_gbit_per_s),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    say!("{table}");
    say!("means from when background traffic comes into a queue until the job's TLR has left it,");
    say!("and from then on; the paper: {}", timeline.claim);
    say!("{:.0} s\n", started.elapsed().as_secs_f64());
    Ok(())
}

fn numbers(words: &[String]) -> Result<Vec<u32>> {
    if words.iter().any(|word| word == "all") {
        return Ok(NUMBERS.to_vec());
    }
    words
        .iter()
        .map(|word| match word.parse() {
            Ok(number) if NUMBERS.contains(&number) => Ok(number),
            _ => bail!("{word:?}: the figures that can be drawn are {NUMBERS:?}, or all"),
        })
        .collect()
}

fn table(axis: &str, series: &[Series]) -> Table {
    let mut table = Table::new();
    let places = series.first().map_or(&[][..], |series| &series.cells[..]);
    let header = [format!("scheme \\ {axis}")].into_iter();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header.chain(places.iter().map(|cell| cell.x.to_string())));
    for series in series {
        let cells = series.cells.iter().map(|cell| {
            let missing = cell.jobs - cell.jobs_complete;
            let mean = cell.mean.map_or("-".to_owned(), |mean| format!("{mean:.1}"));
            if missing == 0 { mean } else { format!("{mean} ({missing} jobs never)") }
        });
        table.add_row([series.scheme.clone()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
