//! `atp-sim run`: one workload under one or several schemes, side by side.

use super::{
    Given, documents, notes, run_table, say, schemes,
    traffic::{MESSAGES_OF_ALL_MAX, TrafficOptions},
    values::{NamedSizes, number, sampling_rate, sizes, slow, whole},
};
use anyhow::{Context, Result, bail};
use atp_proto::sender::MESSAGES_MAX;
use atp_sim::{
    engine::US,
    experiment::{
        CoflowOutcome, Outcome, Place, Point, Rate, Scheme, Stragglers, Summary, Traffic,
        msr_of_share,
    },
    files,
    net::Unit,
    parallel,
};
use clap::Args;
use serde::Serialize;
use std::{path::PathBuf, time::Instant};
use switch_profiles::Profile;

const TRAFFIC: &str = "Traffic";
const NETWORK: &str = "Network";

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Options {
    /// What hosts run: one scheme, or several with commas between them (--help names all)
    /// [default: atp,dctcp-es,dctcp-ss,udp]
    #[arg(
        long = "scheme",
        value_name = "SCHEME,...",
        value_delimiter = ',',
        default_values_t = default_schemes(),
        hide_default_value = true,
        long_help = schemes::help()
    )]
    schemes: Vec<Scheme>,
    /// Hosts and switches: fat-tree, leaf-spine or star:HOSTS, or with numbers, as in fat-tree:8,4,6,6,4
    /// (pods; edge switches, hosts of each and aggregation switches of a pod; cores of each of these) and
    /// leaf-spine:9,16,4 (leaves, hosts of each, spines)
    #[arg(long, default_value_t, help_heading = NETWORK)]
    network: Place,
    /// The rate of every line, Gbit/s, 1 to 400
    #[arg(long, default_value = "40", value_parser = whole(1, 400), help_heading = NETWORK)]
    gbit: u64,
    /// Hosts whose line is slower in both directions: their share, and how many times slower, as in
    /// 0.1:4
    #[arg(
        long,
        value_name = "SHARE:TIMES",
        value_parser = slow,
        default_value = "0:1",
        help_heading = NETWORK
    )]
    slow_hosts: (f64, f64),
    /// The same of links between switches
    #[arg(
        long,
        value_name = "SHARE:TIMES",
        value_parser = slow,
        default_value = "0:1",
        help_heading = NETWORK
    )]
    slow_links: (f64, f64),
    /// Every packet takes a way of its own; else all of a flow go the same
    #[arg(long, help_heading = NETWORK)]
    spray: bool,
    /// The queue profile of ATP's switches, a file as switch-profiles/default.toml [default: that one]
    #[arg(long, value_name = "FILE", help_heading = NETWORK)]
    profile: Option<PathBuf>,
    /// The profile's limits count packets, as Linux does, instead of bytes, as switches do
    #[arg(long, help_heading = NETWORK)]
    packet_limits: bool,
    /// What the ports of a switch share, bytes, 10,000 or more; pFabric's and NDP's have buffers of their own
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1500000",
        value_parser = whole(10_000, 1 << 40),
        help_heading = NETWORK
    )]
    buffer: u64,
    #[command(flatten, next_help_heading = TRAFFIC)]
    traffic: TrafficOptions,
    /// How long messages are: fbkv (Facebook's key-value pool), fbhd (its Hadoop), a number of bytes, or a
    /// file whose first line is the mean and whose others are `bytes share`, the share of messages that
    /// have no more. Between lines shares rise evenly; the mean is only compared with theirs
    #[arg(long, default_value = "fbkv", value_parser = sizes, help_heading = TRAFFIC)]
    sizes: NamedSizes,
    /// The share of its line that a host's messages would take as UDP, 0.001 to 10
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.6",
        value_parser = number(0.001, 10.0),
        help_heading = TRAFFIC
    )]
    load: f64,
    /// For how long messages and background traffic come, and queues are looked at, simulated
    /// microseconds, 1 to 10,000,000
    #[arg(
        long,
        value_name = "US",
        default_value = "1000",
        value_parser = whole(1, 10_000_000),
        help_heading = TRAFFIC
    )]
    duration_us: u64,
    /// The minimal sampling rate of every job: the share of its messages that must arrive, above 0, up to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.5",
        value_parser = sampling_rate,
        help_heading = TRAFFIC
    )]
    msr: f64,
    /// The share of hosts whose job is exact, over DCTCP, whatever the others run, 0 to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0",
        value_parser = number(0.0, 1.0),
        help_heading = TRAFFIC
    )]
    exact: f64,
    /// How late ATP's senders take their hosts to be, microseconds, 10 to 25,000: least timeouts are five times
    /// that, DCTCP's here are 200 us. Hosts of a kernel have 1000 unless told otherwise
    #[arg(
        long,
        value_name = "US",
        default_value = "40",
        value_parser = whole(10, 25_000),
        help_heading = NETWORK
    )]
    timer_granularity_us: u64,
    /// How long ATP's receipts wait for more to tell, microseconds, 1 to 100,000. A kernel's: 2000
    #[arg(
        long,
        value_name = "US",
        default_value = "20",
        value_parser = whole(1, 100_000),
        help_heading = NETWORK
    )]
    receipt_delay_us: u64,
    /// Everything random follows from it: the same one brings the same messages, and the same result
    #[arg(long, default_value = "1", value_parser = whole(0, u64::MAX), help_heading = TRAFFIC)]
    seed: u64,
    /// Write settings and results as JSON to this file too; - is standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
}

fn default_schemes() -> Vec<Scheme> {
    ["atp", "dctcp-es", "dctcp-ss", "udp"].map(|name| name.parse().expect("known schemes")).to_vec()
}

/// One scheme's row.
#[derive(Debug, Serialize)]
pub struct Row {
    pub scheme: String,
    pub summary: Summary,
    coflows: Vec<CoflowOutcome>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Of this run on this machine, seconds: not a result.
    pub wall_s: f64,
}

pub fn run(options: &Options, given: &Given) -> Result<()> {
    let point = options.point()?;
    given.refuse_idle(&point, &options.schemes)?;
    let to_stdout = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let file = options.json.as_ref().filter(|_| !to_stdout);
    // What can't be written is known before anything is run.
    if let Some(path) = file {
        files::check(path).with_context(|| format!("can't write {}", path.display()))?;
    }
    let rows = run_all(&point, &options.schemes);
    if rows.iter().all(|row| row.outcome.jobs.iter().all(|job| job.messages == 0)) {
        bail!("there was no message to send: choose a longer --duration-us, or more --load")
    }
    let of_options = [given.partly_idle(&point, &options.schemes), options.sizes.note.clone()];
    notes::print(&point, &rows, of_options.into_iter().flatten());
    let text = documents::of_run(&point, &rows)?;
    // Before the table: whoever reads that may go away.
    if let Some(path) = file {
        files::replace(path, &format!("{text}\n"))
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    if to_stdout {
        say!("{text}");
    } else {
        say!("{}", run_table::table(&rows));
        say!("{}", run_table::what(&point, &options.traffic.words(&point, &options.sizes)));
        let more = [run_table::exact_table(&rows), run_table::coflow_table(&rows)];
        for table in more.into_iter().flatten() {
            say!("{table}");
        }
    }
    Ok(())
}

impl Options {
    fn point(&self) -> Result<Point> {
        let rate = u32::try_from(self.gbit).ok().and_then(Rate::gbit_per_s);
        let rate = rate.context("lines have 1 to 400 Gbit/s")?;
        let msr = msr_of_share(self.msr);
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
            sizes: self.sizes.sizes.clone(),
            load: self.load,
            duration_ps: self.duration_us * US,
            msr: msr.context("a sampling rate is 0 to 1")?,
            scheme: Scheme::default(),
            exact_share: self.exact,
            timer_granularity_ns: self.timer_granularity_us * 1_000,
            receipt_delay_ns: self.receipt_delay_us * 1_000,
            seed: self.seed,
            ..Point::default()
        };
        let point = self.traffic.apply(point)?;
        // Those of files and vectors are counted there.
        if !matches!(point.traffic, Traffic::Drawn) {
            return Ok(point);
        }
        let messages = point.messages_of_a_job();
        if messages > f64::from(MESSAGES_MAX) / 2.0 {
            bail!("a job would have some {messages:.0} messages: choose a shorter --duration-us")
        }
        let all = messages * point.place.hosts() as f64;
        if all > MESSAGES_OF_ALL_MAX as f64 {
            bail!(
                "all jobs together would have some {all:.0} messages, more than {MESSAGES_OF_ALL_MAX}: \
                 choose a shorter --duration-us, or fewer hosts"
            )
        }
        Ok(point)
    }
}

/// All schemes on all cores.
pub fn run_all(point: &Point, schemes: &[Scheme]) -> Vec<Row> {
    parallel::map(schemes, |&scheme, watch| {
        let started = Instant::now();
        let outcome = Point { scheme, ..point.clone() }.run_watched(watch);
        Row {
            scheme: scheme.to_string(),
            summary: outcome.summary(),
            coflows: outcome.coflows(),
            outcome,
            wall_s: started.elapsed().as_secs_f64(),
        }
    })
}
