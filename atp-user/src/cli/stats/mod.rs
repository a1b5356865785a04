//! `atp-user stats`: the screen, or text and JSON for scripts.

mod app;
mod columns;
mod format;
mod input;
mod keyboard;
mod print;
mod source;
mod terminal;
#[cfg(test)]
mod tests;
mod views;

use self::{app::App, source::Source};
use super::ControlSocket;
use anyhow::{Result, bail};
use approxlib::control::HostStats;
use atp_options::quantity;
use atp_output::{draws, has_color, say, write};
use std::{
    io::{IsTerminal, stdin, stdout},
    thread,
    time::Duration,
};

/// The arguments of `stats`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    control: ControlSocket,
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Print one JSON object and exit
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,
    /// Print a JSON object per interval, one per line
    #[arg(long, conflicts_with = "once")]
    jsonl: bool,
    /// The time between two updates
    #[arg(
        long, value_name = "TIME", value_parser = quantity::duration, default_value = "1s"
    )]
    interval: Duration,
    /// Draw without color; so does the environment's NO_COLOR
    #[arg(long)]
    no_color: bool,
}

/// The shortest interval: a terminal draws no faster, and the daemon reads its counters less often.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Shows the screen on a terminal that can draw it. Prints otherwise, once or at every interval.
pub fn main(args: &Args) -> Result<()> {
    if args.interval < INTERVAL_MIN {
        bail!("--interval {:?} is too short: give at least {INTERVAL_MIN:?}", args.interval);
    }
    let mut source = Source::connect(&args.control.socket)?;
    let is_text = args.once || args.json || args.jsonl;
    if !is_text && draws(&stdout()) && stdin().is_terminal() {
        let color = !args.no_color && has_color(&stdout());
        return terminal::run(source, App::new(color), args.interval);
    }
    // Scripts rely on it: the first values are not older than this call.
    let mut stats = source.read_fresh()?;
    loop {
        print(args, &stats)?;
        if args.once || args.json {
            return Ok(());
        }
        thread::sleep(args.interval);
        let reading = source.read();
        let Some(next) = reading.stats else {
            bail!(reading.trouble.unwrap_or_default());
        };
        stats = next;
    }
}

fn print(args: &Args, stats: &HostStats) -> Result<()> {
    match args.json || args.jsonl {
        true => say!("{}", serde_json::to_string(stats)?),
        false => write(print::text(stats))?,
    }
    Ok(())
}
