//! `cargo xtask bench laws`: the rate laws and the paper's variants, side by side on the testbed.
//!
//! A cell is a law or variant, an MSR and a message size. It is measured twice: a job by itself beside
//! exact traffic, again and again until there are enough requests for a percentile; then a job
//! beside another one of another MSR, which begins when the first is half done.

mod cell;
mod setting;
mod summary;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use atp_common::laws::{RateLaw, Rule, Variant};
use atp_user::cli::{law, quantity};
use switch_profiles::Profile;

use crate::json_file::JsonFile;
use crate::run::messages::Messages;
use crate::run::progress::Progress;
use crate::testbed::{Options, Testbed, interrupt};
use crate::{build, run, setup};
pub use cell::machine_load;
use cell::{Cell, Conditions, Run};
use setting::Setting;
use summary::Results;

#[derive(clap::Args)]
pub struct Args {
    /// Rate laws, each with all of the protocol around it
    #[arg(long, value_delimiter = ',', value_name = "LAW", default_values = default_laws(),
          value_parser = law::among(&RateLaw::ALL))]
    laws: Vec<RateLaw>,
    /// Variants of the paper, with the default law; `full` is among the laws
    #[arg(long, value_delimiter = ',', value_name = "VARIANT", default_value = "base,rc,mrdf,fix-prio",
          value_parser = law::among(&Variant::ALL))]
    variants: Vec<Variant>,
    /// No variants but the whole
    #[arg(long, conflicts_with = "variants")]
    no_variants: bool,
    /// A row more for each of these rules: the default without it
    #[arg(long, value_delimiter = ',', value_name = "RULE", value_parser = law::among(&Rule::ALL))]
    without: Vec<Rule>,
    /// Minimal sampling rates
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8,0.95,0.99", value_parser = run::msr)]
    msr: Vec<f64>,
    /// Sizes of messages, in packets of 1400 bytes
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "1,16",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    packets: Vec<u32>,
    /// The MSR of the job that comes later; one of 0.95 beside a job of the same
    #[arg(long, value_name = "MSR", default_value = "0.5", value_parser = run::msr)]
    beside: f64,
    /// How many hosts send; half of them for each job when there are two
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u8).range(2..=32))]
    senders: u8,
    /// Of every link: 200mbit, 1gbit
    #[arg(long, default_value = "200mbit", value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Of the receiver's port, by exact traffic
    #[arg(long, default_value = "0.3", value_parser = load)]
    load: f64,
    /// How long a job would take if nothing were lost and all of its messages were sent
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    job: std::time::Duration,
    /// How long exact requests are watched beside a job by itself, at least
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::duration)]
    watch: std::time::Duration,
    /// The shortest epoch
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    epoch: String,
    /// How many times everything is measured; what is printed are medians
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Decides the content of messages and when exact requests are due; each repetition adds 1
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write the results to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Take this daemon instead of building one
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// The queue profile of the switch and the daemons [default: switch-profiles/default.toml]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Message bytes in one packet.
const PAYLOAD_BYTES: usize = 1_400;
/// Fewer would make an MSR of 0.99 one of 1.
const MESSAGES_PER_SENDER_MIN: usize = 100;

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    let json = args.json.as_deref().map(JsonFile::at).transpose()?;
    if !setup::Machine::this().is_root() {
        bail!("this benchmark runs a daemon in each of its hosts: run it as root");
    }
    setup::ensure(setup::BENCH)?;
    let daemon = args.daemon.clone().map_or_else(build::daemon, Ok)?;
    let default_profile = setup::paths().workspace.join("switch-profiles/default.toml");
    let path = args.profile.as_deref().unwrap_or(&default_profile);
    let rate_bits_per_s = args.rate * 8;
    let mut testbed = Testbed::build(&Options {
        senders: args.senders.into(),
        rate_bits_per_s,
        nic_rate_bits_per_s: rate_bits_per_s,
        profile: Profile::load(path)?,
    })?;
    for note in testbed.notes() {
        println!("switch: {note}");
    }
    let load_before = cell::machine_load()?;
    let cells = measure(args, &daemon, &mut testbed)?;
    drop(testbed);
    let results = Results::new(args.rate, args.load, &args.epoch, load_before, cells);
    results.print();
    json.map_or(Ok(()), |file| file.write(&results))
}

/// Runs every cell `repetitions` times, each time all of them.
fn measure(
    args: &Args,
    daemon: &std::path::Path,
    testbed: &mut Testbed,
) -> Result<Vec<(Cell, Vec<Run>)>> {
    let settings = settings(args);
    let mut cells: Vec<(Cell, Vec<Run>)> = Vec::new();
    for (setting, packets, msr) in grid(&settings, &args.packets, &args.msr) {
        let beside = if msr == args.beside { 0.95 } else { args.beside };
        cells.push((Cell { setting, msr, packets, beside }, Vec::new()));
    }
    let progress = Progress::new();
    let mut jobs = 0;
    for repetition in 0..args.repetitions {
        let seed = args.seed.wrapping_add(repetition.into());
        let files = messages(args, testbed, seed)?;
        for setting in &settings {
            progress.begin(&format!("{}: starting a daemon in each host", setting.name()));
            let mut options = setting.options();
            options.extend(["--epoch".to_owned(), args.epoch.clone()]);
            testbed.start_daemons(daemon, args.profile.as_deref(), &options)?;
            for (cell, runs) in cells.iter_mut().filter(|(cell, _)| cell.setting == *setting) {
                let index = args.packets.iter().position(|count| *count == cell.packets);
                let (path, count) = &files[index.context("a size that isn't asked for")?];
                let mut conditions = Conditions {
                    testbed,
                    progress: &progress,
                    messages: path,
                    count: *count,
                    message_bytes: cell.packets as usize * PAYLOAD_BYTES,
                    rate_bytes_per_s: args.rate,
                    load: args.load,
                    watch: args.watch,
                    seed,
                    jobs: &mut jobs,
                };
                let run = cell.measure(&mut conditions).with_context(|| cell.name())?;
                progress.line(&format!("{}: {}", cell.name(), run.describe()));
                runs.push(run);
            }
            testbed.stop_daemons();
        }
    }
    Ok(cells)
}

/// Writes the messages of each size; returns where they are and how many.
fn messages(args: &Args, testbed: &Testbed, seed: u64) -> Result<Vec<(PathBuf, usize)>> {
    let job_bytes = args.rate as f64 * (1.0 - args.load) * args.job.as_secs_f64();
    let write = |packets: &u32| -> Result<(PathBuf, usize)> {
        let bytes = *packets as usize * PAYLOAD_BYTES;
        let least = MESSAGES_PER_SENDER_MIN * usize::from(args.senders);
        let count = (job_bytes as usize / bytes).max(least);
        let path = testbed.folder().join(format!("messages-{packets}"));
        Messages::of_size(count, bytes, seed).write(&path)?;
        Ok((path, count))
    };
    args.packets.iter().map(write).collect()
}

/// Neither TFRC, which is for networks without priority queues, nor none, which is the variant `base`.
fn default_laws() -> impl Iterator<Item = &'static str> {
    let laws = RateLaw::ALL.into_iter();
    let laws = laws.filter(|(law, _)| !matches!(law, RateLaw::Tfrc | RateLaw::None));
    laws.map(|(_, name)| name)
}

/// Laws first, then variants of the default law, then the default without rules.
fn settings(args: &Args) -> Vec<Setting> {
    let laws = args.laws.iter().map(|&law| law::Choice { law, ..law::Choice::default() });
    let variants = args.variants.iter().filter(|_| !args.no_variants);
    let variants = variants.map(|&variant| law::Choice { variant, ..law::Choice::default() });
    let without = args.without.iter();
    let without =
        without.map(|&rule| law::Choice { without: vec![rule], ..law::Choice::default() });
    let mut settings: Vec<Setting> = Vec::new();
    for choice in laws.chain(variants).chain(without) {
        if !settings.iter().any(|setting| setting.choice() == &choice) {
            settings.push(Setting::new(choice));
        }
    }
    settings
}

fn grid(
    settings: &[Setting],
    packets: &[u32],
    msrs: &[f64],
) -> impl Iterator<Item = (Setting, u32, f64)> {
    settings.iter().flat_map(move |setting| {
        packets
            .iter()
            .flat_map(move |packets| msrs.iter().map(move |msr| (setting.clone(), *packets, *msr)))
    })
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.01..=0.9).contains(&load) => Ok(load),
        _ => Err(format!("`{text}` is not a load from 0.01 to 0.9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        let words = ["laws"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    fn names(line: &str) -> Vec<String> {
        settings(&parse(line).unwrap()).iter().map(Setting::name).collect()
    }

    #[test]
    fn settings__each_once() {
        let every = ["paper", "frugal", "pi", "base", "rc", "mrdf", "fix-prio"];
        assert_eq!(names(""), every);
        assert_eq!(names("--laws pi,pi --no-variants"), ["pi"]);
        let without = "--laws paper --variants full --without starvation-recovery,evaluate-late";
        assert_eq!(
            names(without),
            ["paper", "without starvation-recovery", "without evaluate-late"]
        );
    }

    #[test]
    fn grid__every_combination() {
        let args = parse("").unwrap();
        let cells = grid(&settings(&args), &args.packets, &args.msr).count();
        assert_eq!(cells, 7 * 2 * 4);
    }

    #[test]
    fn args__refuse_what_makes_no_sense() {
        for line in ["--msr 0", "--load 1", "--laws fast", "--packets 0", "--senders 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
