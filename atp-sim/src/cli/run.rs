//! `atp-sim run`: one workload under one or several schemes, side by side.

use super::say;
use super::traffic::TrafficOptions;
use anyhow::{Context, Result, bail};
use atp_common::units::Msr;
use atp_proto::sender::MESSAGES_MAX;
use atp_sim::{
    engine::US,
    experiment::{Outcome, Place, Point, Rate, Scheme, Stragglers},
    net::Unit,
    parallel,
    workload::Sizes,
};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::{fs::File, io::Write, path::PathBuf, time::Instant};
use switch_profiles::Profile;

/// No table of sizes is longer.
const SIZES_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct Options {
    /// What hosts run, one after the other: atp, atp:VARIANT, atp:VARIANT:LAW,
    /// atp:VARIANT:LAW:-RULE, udp, dctcp-es, dctcp-ss, pfabric-es, pfabric-ss, ndp-es, ndp-ss, mlt-es,
    /// aeolus-es, aeolus-ss
    #[arg(long = "scheme", value_delimiter = ',', default_values_t = default_schemes())]
    schemes: Vec<Scheme>,
    /// The network: fat-tree, leaf-spine, star:HOSTS, or with numbers, as in fat-tree:8,4,6,6,4
    /// (pods, edge switches, hosts, aggregation switches, cores) and leaf-spine:9,16,4
    #[arg(long, default_value_t)]
    network: Place,
    /// The rate of every line, Gbit/s
    #[arg(long, default_value_t = 40)]
    gbit: u32,
    #[command(flatten)]
    traffic: TrafficOptions,
    /// How long messages are: fbkv, fbhd, a number of bytes, or a file of lines `bytes share` after a
    /// first line with the mean
    #[arg(long, default_value = "fbkv", value_parser = sizes)]
    sizes: Sizes,
    /// The share of its line that a host's messages would take as UDP
    #[arg(long, default_value_t = 0.6)]
    load: f64,
    /// For how long messages come, simulated microseconds
    #[arg(long, default_value_t = 1_000)]
    duration_us: u64,
    /// The minimal sampling rate of every job
    #[arg(long, default_value_t = 0.5)]
    msr: f64,
    /// The share of hosts whose job is exact, over DCTCP, whatever the others run
    #[arg(long, default_value_t = 0.0)]
    exact: f64,
    /// Hosts whose line is slower in both directions: their share, and how many times slower, as in
    /// 0.1:4
    #[arg(long, value_parser = slow, default_value = "0:1")]
    slow_hosts: (f64, f64),
    /// The same of links between switches
    #[arg(long, value_parser = slow, default_value = "0:1")]
    slow_links: (f64, f64),
    /// Every packet takes a way of its own; else all of a flow go the same
    #[arg(long)]
    spray: bool,
    /// The queue profile of ATP's switches [default: the shipped one]
    #[arg(long)]
    profile: Option<PathBuf>,
    /// Its limits count packets, as Linux does, instead of bytes, as switches do
    #[arg(long)]
    packet_limits: bool,
    /// Bytes of buffer that the ports of a switch share
    #[arg(long, default_value_t = 1_500_000)]
    buffer: u64,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write everything as JSON to this file too; - is standard output, instead of the table
    #[arg(long)]
    json: Option<PathBuf>,
}

fn default_schemes() -> Vec<Scheme> {
    ["atp", "dctcp-es", "dctcp-ss", "udp"].map(|name| name.parse().expect("known schemes")).to_vec()
}

/// One scheme's row.
#[derive(Debug, Serialize)]
struct Row {
    scheme: String,
    #[serde(flatten)]
    outcome: Outcome,
    /// Of this run on this machine, seconds: not a result.
    wall_s: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let point = options.point()?;
    let to_stdout = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    // What can't be written is known before anything is run.
    let file =
        options.json.as_ref().filter(|_| !to_stdout).map(|path| {
            File::create(path).with_context(|| format!("can't write {}", path.display()))
        });
    let file = file.transpose()?;
    let rows = run_all(&point, &options.schemes);
    if !to_stdout {
        say!("{}", table(&rows));
    }
    let text = serde_json::to_string_pretty(&rows)?;
    match file {
        Some(mut file) => writeln!(file, "{text}").context("can't write the JSON file")?,
        None if to_stdout => say!("{text}"),
        None => {}
    }
    Ok(())
}

impl Options {
    fn point(&self) -> Result<Point> {
        let Some(rate) = Rate::gbit_per_s(self.gbit) else {
            bail!("--gbit {}: lines have 1 to 400 Gbit/s", self.gbit)
        };
        if !(0.001..=10.0).contains(&self.load) {
            bail!("--load {}: choose 0.001 to 10 of a line", self.load)
        }
        if !(1..=10_000_000).contains(&self.duration_us) {
            bail!("--duration-us {}: choose 1 to 10,000,000", self.duration_us)
        }
        if self.buffer < 10_000 {
            bail!("--buffer {}: a switch has 10,000 bytes at least", self.buffer)
        }
        if !(0.0..=1.0).contains(&self.msr) {
            bail!("--msr {}: a sampling rate is 0 to 1", self.msr)
        }
        if !(0.0..=1.0).contains(&self.exact) {
            bail!("--exact {}: a share is 0 to 1", self.exact)
        }
        let msr = Msr::from_parts_per_billion((self.msr * 1e9).round() as u32);
        let profile = self.profile.as_deref().map_or(Ok(Profile::default()), Profile::load)?;
        let point = Point {
            place: self.network,
            rate,
            stragglers: Stragglers {
                hosts_share: self.slow_hosts.0,
                hosts_slowdown: self.slow_hosts.1,
                links_share: self.slow_links.0,
                links_slowdown: self.slow_links.1,
            },
            sprayed: self.spray,
            buffer_bytes: self.buffer,
            profile,
            unit: if self.packet_limits { Unit::Packets } else { Unit::Bytes },
            sizes: self.sizes.clone(),
            load: self.load,
            duration_ps: self.duration_us * US,
            msr: msr.context("a sampling rate is 0 to 1")?,
            scheme: Scheme::default(),
            exact_share: self.exact,
            seed: self.seed,
            ..Point::default()
        };
        let point = self.traffic.apply(point)?;
        let messages = point.messages_of_a_job();
        if messages > f64::from(MESSAGES_MAX) / 2.0 {
            bail!("a job would have some {messages:.0} messages: choose a shorter --duration-us")
        }
        Ok(point)
    }
}

/// All schemes on all cores.
fn run_all(point: &Point, schemes: &[Scheme]) -> Vec<Row> {
    parallel::map(schemes, |&scheme| {
        let started = Instant::now();
        let outcome = Point { scheme, ..point.clone() }.run();
        Row { scheme: scheme.to_string(), outcome, wall_s: started.elapsed().as_secs_f64() }
    })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "scheme",
        "jobs done",
        "JCT mean [us]",
        "JCT median",
        "JCT p99",
        "all done",
        "not delivered [%]",
        "packets dropped [%]",
        "wasted [%]",
        "exact mean [us]",
        "exact p99",
        "queue mean [B]",
        "queue max [kB]",
        "events [M]",
        "M events/s",
    ]);
    for Row { scheme, outcome, wall_s } in rows {
        let times = outcome.completions_us();
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let at = |share: f64| {
            let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            times.get(place).map_or("-".to_owned(), |us| format!("{us:.1}"))
        };
        let us = |ps: u64| format!("{:.1}", ps as f64 / US as f64);
        let exact = |ps: u64| if ps == 0 { "-".to_owned() } else { us(ps) };
        table.add_row([
            scheme.clone(),
            format!("{}/{}", outcome.complete(), outcome.approximate().count()),
            if times.is_empty() { "-".to_owned() } else { format!("{mean:.1}") },
            at(0.5),
            at(0.99),
            outcome.all_done_ps.map_or("-".to_owned(), us),
            format!("{:.2}", outcome.undelivered_share() * 100.0),
            format!("{:.2}", outcome.dropped_share() * 100.0),
            format!("{:.2}", outcome.spent.wasted_share() * 100.0),
            exact(outcome.exact_mean_ps),
            exact(outcome.exact_p99_ps),
            outcome.queue_mean_bytes.to_string(),
            format!("{:.1}", outcome.queue_max_bytes as f64 / 1e3),
            format!("{:.1}", outcome.events as f64 / 1e6),
            format!("{:.1}", outcome.events as f64 / 1e6 / wall_s),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn slow(text: &str) -> Result<(f64, f64), String> {
    let (share, slowdown) = text.split_once(':').unwrap_or((text, ""));
    match (share.parse(), slowdown.parse()) {
        (Ok(share), Ok(slowdown))
            if (0.0..=1.0).contains(&share) && (1.0..=1_000.0).contains(&slowdown) =>
        {
            Ok((share, slowdown))
        }
        _ => Err("choose SHARE:SLOWDOWN, a share of 0 to 1 and 1 to 1,000 times".to_owned()),
    }
}

fn sizes(text: &str) -> Result<Sizes, String> {
    match text {
        "fbkv" => Ok(Sizes::KeyValue),
        "fbhd" => Ok(Sizes::Hadoop),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => match number.parse() {
            Ok(bytes @ 1..=67_108_864) => Ok(Sizes::Fixed(bytes)),
            _ => Err("messages have 1 byte to 64 MiB".to_owned()),
        },
        path => {
            let text = super::read_file(path.as_ref(), SIZES_BYTES_MAX)
                .map_err(|error| format!("{error:#}"))?;
            Sizes::parse(&text).map_err(|error| format!("{path}: {error}"))
        }
    }
}
