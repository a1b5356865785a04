//! `cargo xtask bench laws`: compares the rate laws and the paper's variants on the testbed.
//!
//! A cell is a law or variant, an MSR and a message size. Each cell has two measurements. First a
//! job runs alone beside exact traffic, repeated until there are enough requests for a percentile.
//! Then two jobs of different MSR run; the second begins when the first is half done.

mod cell;
mod setting;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use atp_common::laws::{RateLaw, Rule, Variant};
use atp_options::{law, quantity};
use atp_output::say;
use switch_profiles::Profile;

use super::options::{DaemonOption, JsonOption, require_root};
use crate::job;
use crate::job::messages::Messages;
use crate::job::progress::Progress;
use crate::machine_state::machine_load;
use cell::{Cell, Conditions, Run};
use setting::Setting;
use summary::Results;
use testbed::{Launch, Options, Testbed, interrupt};

#[derive(clap::Args)]
pub struct Args {
    /// Rate laws, each with the full protocol
    #[arg(long, value_delimiter = ',', value_name = "LAW", default_values = default_laws(),
          value_parser = law::among(&RateLaw::ALL))]
    laws: Vec<RateLaw>,
    /// Variants of the paper, with the default law; `full` is among the laws
    #[arg(long, value_delimiter = ',', value_name = "VARIANT", default_value = "base,rc,mrdf,fix-prio",
          value_parser = law::among(&Variant::ALL))]
    variants: Vec<Variant>,
    /// Leave out the variants
    #[arg(long, conflicts_with = "variants")]
    no_variants: bool,
    /// Rules to leave out of the default law, one at a time
    #[arg(long, value_delimiter = ',', value_name = "RULE", value_parser = law::among(&Rule::ALL))]
    without: Vec<Rule>,
    /// Minimal sampling rates
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8,0.95,0.99", value_parser = job::msr)]
    msr: Vec<f64>,
    /// Sizes of messages, in packets of 1400 bytes
    #[arg(long, value_delimiter = ',', value_name = "COUNT", default_value = "1,16",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    packets: Vec<u32>,
    /// MSR of the job that begins later; 0.95 if the first has this MSR too
    #[arg(long, value_name = "MSR", default_value = "0.5", value_parser = job::msr)]
    beside: f64,
    /// Number of sending hosts; two jobs get half of them each
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u8).range(2..=32))]
    senders: u8,
    /// Rate of every link: 200mbit, 1gbit
    #[arg(long, default_value = "200mbit", value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Share of the receiver's port that exact traffic uses
    #[arg(long, default_value = "0.3", value_parser = load)]
    load: f64,
    /// Duration of a job if every message is sent once, without loss
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    job: std::time::Duration,
    /// Minimum time of measuring exact requests beside a job alone
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::duration)]
    watch: std::time::Duration,
    /// Shortest epoch
    #[arg(long, value_name = "TIME", default_value = "2ms")]
    epoch: String,
    /// Number of repetitions; medians are printed
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Seed for the messages and the times of exact requests; each repetition adds 1
    #[arg(long, default_value = "1")]
    seed: u64,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    daemon: DaemonOption,
    /// Queue profile of the switch and the daemons [default: paper]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Message bytes in one packet.
const PAYLOAD_BYTES: usize = 1_400;
/// Laws decide alone in the paper's queues, without advice.
const PROFILE: &str = "paper";
/// The minimum number of messages: with fewer, an MSR of 0.99 would need all of them.
const MESSAGES_PER_SENDER_MIN: usize = 100;

pub fn main(args: &Args) -> Result<()> {
    interrupt::install()?;
    let json = args.json.open()?;
    require_root("runs a daemon in each of its hosts")?;
    let launch = args.daemon.launch()?;
    let path = args.profile.as_deref().unwrap_or(Path::new(PROFILE));
    let rate_bits_per_s = args.rate * 8;
    let mut testbed = Testbed::build(&Options {
        senders: args.senders.into(),
        rate_bits_per_s,
        nic_rate_bits_per_s: rate_bits_per_s,
        receiver_rate_bits_per_s: None,
        profile: Profile::load(path)?,
    })?;
    for note in testbed.notes() {
        say!("switch: {note}");
    }
    let load_before = machine_load()?;
    let cells = measure(args, &launch, &mut testbed)?;
    drop(testbed);
    let results = Results::new(args.rate, args.load, &args.epoch, load_before, cells);
    results.print();
    json.map_or(Ok(()), |file| file.write_json(&results))
}

/// Runs all cells, `repetitions` times.
fn measure(args: &Args, launch: &Launch, testbed: &mut Testbed) -> Result<Vec<(Cell, Vec<Run>)>> {
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
            let mut launch = launch.clone();
            launch.options.extend(setting.options().into_iter().map(Into::into));
            launch.options.extend(["--epoch".into(), args.epoch.clone().into()]);
            launch.options.extend(["--advice".into(), "off".into()]);
            testbed.start_daemons(&launch, args.profile.as_deref().or(Some(Path::new(PROFILE))))?;
            for (cell, runs) in cells.iter_mut().filter(|(cell, _)| cell.setting == *setting) {
                let index = args.packets.iter().position(|count| *count == cell.packets);
                let (path, count) = &files[index.context("no messages of that size")?];
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

/// Writes the messages of each size; returns each file and its number of messages.
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

/// All laws except TFRC, which is for networks without priority queues, and none, which is the
/// variant `base`.
fn default_laws() -> impl Iterator<Item = &'static str> {
    let laws = RateLaw::ALL.into_iter();
    let laws =
        laws.filter(|(law, _)| !matches!(law, RateLaw::Tfrc | RateLaw::Yield | RateLaw::None));
    laws.map(|(_, name)| name)
}

/// The laws, then the variants of the default law, then the default law without each rule.
fn settings(args: &Args) -> Vec<Setting> {
    let default = law::Choice { law: Some(RateLaw::default()), ..law::Choice::default() };
    let laws = args.laws.iter();
    let laws = laws.map(|&law| law::Choice { law: Some(law), ..default.clone() });
    let variants = args.variants.iter().filter(|_| !args.no_variants);
    let variants = variants.map(|&variant| law::Choice { variant, ..default.clone() });
    let without = args.without.iter();
    let without = without.map(|&rule| law::Choice { without: vec![rule], ..default.clone() });
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
    use crate::parse_line::parse_line;

    fn parse(line: &str) -> Result<Args, String> {
        parse_line(line)
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
    fn args__reject_bad_values() {
        for line in ["--msr 0", "--load 1", "--laws fast", "--packets 0", "--senders 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
