//! `atp-sim figure`: runs the paper's figures and writes them as JSON, CSV and SVG.

use super::{figure_tables, repeat::RepeatOptions};
use anyhow::{Context, Result, bail};
use atp_output::say;
use atp_sim::figures::{Extent, NUMBERS, Timeline, figure, redraw, write, write_timeline};
use atp_sim::scheme::Scheme;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
pub struct Options {
    /// The numbers of the paper's figures, 5 to 14; 15 to 18, which separate the causes of figures
    /// 5, 6, 9 and 13; 19, synchronized bursts; or all
    #[arg(required = true)]
    figures: Vec<String>,
    /// The folder for figure-N.json, figure-N.csv and figure-N.svg
    /// [default: target/figures, with --quick target/figures/quick]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Check in seconds that the figures run: 12 hosts instead of 192, one seed instead of three,
    /// and a fifth of the duration. The numbers differ. Figure 10 is always complete, with one seed
    #[arg(long)]
    quick: bool,
    /// Run these schemes instead of the figure's, with the settings of its first one. Use another
    /// --out then: the files have the same names. Not for figure 10
    #[arg(
        long = "scheme",
        value_name = "SCHEME,...",
        value_delimiter = ',',
        requires = "out",
        conflicts_with = "draw"
    )]
    schemes: Vec<Scheme>,
    /// Redraw the SVG from the JSON file in the folder, without a run. Not for figure 10
    #[arg(long, conflicts_with_all = ["quick", "seeds", "fresh"])]
    draw: bool,
    #[command(flatten)]
    repeat: RepeatOptions,
}

pub fn run(options: &Options) -> Result<()> {
    let extent = if options.quick { Extent::Quick } else { Extent::Full };
    // A quick run must not overwrite the results of a long one.
    let default = if options.quick { "target/figures/quick" } else { "target/figures" };
    let out = options.out.clone().unwrap_or_else(|| default.into());
    let numbers = numbers(&options.figures)?;
    if options.draw {
        return draw_all(&numbers, &out);
    }
    std::fs::create_dir_all(&out)
        .with_context(|| format!("cannot create the folder {}", out.display()))?;
    let seeds = options.repeat.seeds(extent);
    let mut runs = options.repeat.runs(&out)?;
    for number in numbers {
        if number == 10 && options.schemes.is_empty() {
            timeline(&Timeline::figure_10(), &out)?;
            continue;
        }
        let Some(mut figure) = figure(number, extent) else {
            bail!("figure {number} can't be run with --scheme: it shows one job of ATP")
        };
        if !options.schemes.is_empty() {
            figure = figure.of_schemes(&options.schemes);
        }
        let (title, note) = (&figure.title, extent.note());
        let description = options.repeat.description(&runs, &figure.points(seeds), extent);
        say!("Figure {number}: {title}{note} ({description})");
        let started = Instant::now();
        let series = figure.run(&mut runs, seeds)?;
        write(&figure, extent, seeds, &series, &out)?;
        for (caption, table) in figure_tables::all(&figure, &series) {
            say!("{caption}:\n{table}");
        }
        say!("The paper: {}.", figure.claim);
        say!("{:.0} s\n", started.elapsed().as_secs_f64());
    }
    say!("written to {}", out.display());
    Ok(())
}

/// Draws all figures whose files exist. An error of one figure does not stop the others.
fn draw_all(numbers: &[u32], out: &Path) -> Result<()> {
    const NO_FILE: &str =
        "figure 10 cannot be redrawn from its file: run it without --draw, which takes seconds";
    if numbers.iter().all(|number| *number == 10) {
        bail!("{NO_FILE}")
    }
    let (mut missing, mut wrong) = (Vec::new(), Vec::new());
    let mut drawn = 0;
    for &number in numbers {
        if number == 10 {
            say!("{NO_FILE}");
            continue;
        }
        match redraw(number, |extent| figure(number, extent), out) {
            Ok(()) => drawn += 1,
            Err(error) if error.is_missing() => missing.push(number),
            Err(error) => wrong.push(format!("{:#}", anyhow::Error::new(error))),
        }
    }
    if drawn > 0 {
        say!("drawn in {}", out.display());
    }
    if !missing.is_empty() {
        let file = |folder: &Path, number| folder.join(format!("figure-{number}.json"));
        let quick = out.join("quick");
        let is_quick = missing.iter().any(|number| file(&quick, *number).exists());
        let numbers: Vec<String> = missing.iter().map(u32::to_string).collect();
        let or =
            if is_quick { format!(", or use --out {}", quick.display()) } else { String::new() };
        wrong.push(format!(
            "no file figure-N.json in {} for N = {}: run these figures without --draw first{or}",
            out.display(),
            numbers.join(", ")
        ));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "))
    }
    Ok(())
}

fn timeline(timeline: &Timeline, out: &Path) -> Result<()> {
    say!("Figure {}: {}", timeline.number, timeline.title());
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
    for phase in Timeline::phases(&samples) {
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
    say!("Each queue of background traffic has two rows of means: until the job's TLR asks for a");
    say!("higher queue, and from then on. The paper: {}.", timeline.claim);
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
            _ => bail!("there is no figure {word:?}: choose from {NUMBERS:?}, or all"),
        })
        .collect()
}
