//! `atp-sim book`: draws the book's pictures of figures from its numbers.

use anyhow::{Context, Result, anyhow};
use atp_output::say;
use atp_sim::figures::book_pictures;
use clap::Args;
use std::path::PathBuf;

const CSV_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Options {
    /// The folder of figures.csv, for figure-N.svg
    #[arg(long, default_value = "docs/src/results/figures")]
    folder: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let csv = options.folder.join("figures.csv");
    let pictures = book_pictures(&super::read_file(&csv, CSV_BYTES_MAX)?)
        .map_err(|reason| anyhow!("{}: {reason}", csv.display()))?;
    for (number, svg) in pictures {
        let path = options.folder.join(format!("figure-{number}.svg"));
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        say!("{}", path.display());
    }
    Ok(())
}
