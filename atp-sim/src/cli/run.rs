//! `atp-sim run`: runs one workload under one or several schemes and compares them.

use super::{
    ExplicitOptions, documents, notes,
    rows::run_all,
    run_table, schemes, seed_rows,
    traffic::{MESSAGES_OF_ALL_MAX, TrafficOptions},
    values::{NamedSizes, number, profile, sampling_rate, share_and_slowdown, sizes, whole_number},
};
use anyhow::{Context, Result, bail};
use atp_output::say;
use atp_proto::sender::MESSAGES_MAX;
use atp_sim::{
    engine::US,
    experiment::{
        LoadBalancing, NetworkSpec, Point, Rate, Scheme, Stragglers, Traffic, msr_from_fraction,
    },
    files,
    net::Unit,
};
use clap::Args;
use std::path::PathBuf;
use switch_profiles::Profile;

const TRAFFIC: &str = "Traffic";
const NETWORK: &str = "Network";

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Options {
    /// The transport that hosts run: one scheme, or several separated by commas (--help lists all)
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
    /// The network of hosts and switches: fat-tree, leaf-spine or star:HOSTS.
    /// fat-tree and leaf-spine also take their dimensions.
    /// fat-tree:8,4,6,6,4 has 8 pods; a pod has 4 edge switches with 6 hosts each, and
    /// 6 aggregation switches with 4 core switches each.
    /// leaf-spine:9,16,4 has 9 leaves with 16 hosts each, and 4 spines
    #[arg(long, default_value_t, help_heading = NETWORK)]
    network: NetworkSpec,
    /// The rate of every line, Gbit/s, 1 to 400
    #[arg(long, default_value = "40", value_parser = whole_number(1, 400), help_heading = NETWORK)]
    gbit: u64,
    /// The share of hosts with a slower line, and how many times slower it is in both directions:
    /// 0.1:4 makes a tenth of the lines four times slower
    #[arg(
        long,
        value_name = "SHARE:TIMES",
        value_parser = share_and_slowdown,
        default_value = "0:1",
        help_heading = NETWORK
    )]
    slow_hosts: (f64, f64),
    /// The share of slower links between switches, and how many times slower they are
    #[arg(
        long,
        value_name = "SHARE:TIMES",
        value_parser = share_and_slowdown,
        default_value = "0:1",
        help_heading = NETWORK
    )]
    slow_links: (f64, f64),
    /// The choice of paths: spray (every packet takes its own), ecmp (all packets of a flow take
    /// one, chosen by hash) or own (the scheme's own choice: NDP sprays, others take one)
    #[arg(long, value_name = "CHOICE", default_value_t, help_heading = NETWORK)]
    load_balancing: LoadBalancing,
    /// The queue profile of ATP's switches: default, paper, one-queue, or a file in the format of
    /// switch-profiles/default.toml. The scheme atp takes its law from it, as a daemon does. One
    /// queue for all traffic is that of other schemes too, except pFabric, NDP and Aeolus
    /// [default: paper for atp:paper and other names with a colon, default for the rest]
    #[arg(long, value_name = "FILE", help_heading = NETWORK, value_parser = profile)]
    profile: Option<Profile>,
    /// Count the profile's limits in packets, as Linux does, not in bytes, as switches do
    #[arg(long, help_heading = NETWORK)]
    packet_limits: bool,
    /// The buffer that a switch's ports share, bytes, 10,000 or more.
    /// Ports of pFabric and NDP have small buffers of their own instead
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1500000",
        value_parser = whole_number(10_000, 1 << 40),
        help_heading = NETWORK
    )]
    buffer: u64,
    /// The ECN threshold of switches, packets (DCTCP's K): a queue that marks packets marks those
    /// that find this number waiting, 1 to 100,000. It also applies to exact jobs beside ATP
    /// [default: 65, and the profile's for ATP]
    #[arg(long, value_name = "PACKETS", value_parser = whole_number(1, 100_000), help_heading = NETWORK)]
    ecn_threshold_packets: Option<u64>,
    #[command(flatten, next_help_heading = TRAFFIC)]
    traffic: TrafficOptions,
    /// The distribution of message sizes: fbkv (Facebook's key-value pool), fbhd (Facebook's
    /// Hadoop), a number of bytes, or a file.
    /// The file's first line is the mean size. Each further line is `bytes share`: the share of
    /// messages of at most that size. The share rises linearly between lines. The simulator checks
    /// the mean but does not use it
    #[arg(long, default_value = "fbkv", value_parser = sizes, help_heading = TRAFFIC)]
    sizes: NamedSizes,
    /// The share of a host's line that its messages would use if sent over UDP, 0.001 to 10
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.6",
        value_parser = number(0.001, 10.0),
        help_heading = TRAFFIC
    )]
    load: f64,
    /// The time in which messages and background traffic arrive and queues are measured, simulated
    /// microseconds, 1 to 10,000,000
    #[arg(
        long,
        value_name = "US",
        default_value = "1000",
        value_parser = whole_number(1, 10_000_000),
        help_heading = TRAFFIC
    )]
    duration_us: u64,
    /// The minimal sampling rate (MSR) of every job: the share of its messages that must arrive,
    /// above 0, up to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.5",
        value_parser = sampling_rate,
        help_heading = TRAFFIC
    )]
    msr: f64,
    /// The share of sending hosts whose job is exact, 0 to 1. Exact jobs need every message, and
    /// use DCTCP under every scheme
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0",
        value_parser = number(0.0, 1.0),
        help_heading = TRAFFIC
    )]
    exact: f64,
    /// The timer granularity that ATP's senders assume for hosts, microseconds, 10 to 25,000.
    /// The minimal retransmission timeout is five times this; DCTCP's is 200 us in this simulator.
    /// Kernel hosts assume 1000 by default
    #[arg(
        long,
        value_name = "US",
        default_value = "40",
        value_parser = whole_number(10, 25_000),
        help_heading = NETWORK
    )]
    timer_granularity_us: u64,
    /// The time for which ATP's receivers delay a receipt to combine it with later ones,
    /// microseconds, 1 to 100,000. Kernel hosts use 2000 by default
    #[arg(
        long,
        value_name = "US",
        default_value = "20",
        value_parser = whole_number(1, 100_000),
        help_heading = NETWORK
    )]
    receipt_delay_us: u64,
    /// The seed of everything random. The same seed gives the same messages and the same results
    #[arg(
        long,
        default_value = "1",
        value_parser = whole_number(0, u64::MAX),
        help_heading = TRAFFIC
    )]
    seed: u64,
    /// The number of seeds, 1 to 10,000: every scheme runs with --seed and the seeds after it. With
    /// two or more, the table shows means over the seeds with their 95 % intervals (Student's t),
    /// and ratios of paired seeds
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        value_parser = whole_number(1, 10_000),
        help_heading = TRAFFIC
    )]
    seeds: u64,
    /// Also write settings and results as JSON to this file. With -, print the JSON instead of the
    /// table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
}

fn default_schemes() -> Vec<Scheme> {
    ["atp", "dctcp-es", "dctcp-ss", "udp"]
        .map(|name| name.parse().expect("the default schemes are valid names"))
        .to_vec()
}

pub fn run(options: &Options, explicit_options: &ExplicitOptions) -> Result<()> {
    let Some(last) = options.seed.checked_add(options.seeds - 1) else {
        bail!("--seeds: there are fewer seeds from --seed {} on: choose a lower one", options.seed)
    };
    let points: Vec<Point> =
        (options.seed..=last).map(|seed| options.point(seed)).collect::<Result<_>>()?;
    let Some(point) = points.first().cloned() else { bail!("--seeds: choose 1 or more") };
    explicit_options.refuse_without_effect(&point, &options.schemes)?;
    let to_stdout = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let file = options.json.as_ref().filter(|_| !to_stdout);
    // Refuse an unwritable file before the run, which may be long.
    if let Some(path) = file {
        files::check(path)
            .with_context(|| format!("cannot write the results to {}", path.display()))?;
    }
    let rows = run_all(&points, &options.schemes);
    if rows.iter().all(|row| row.outcome.jobs.iter().all(|job| job.messages == 0)) {
        bail!("no host has a message to send: choose a longer --duration-us or a higher --load")
    }
    let notes = [
        explicit_options.partly_without_effect(&point, &options.schemes),
        options.sizes.note.clone(),
    ];
    notes::print(&point, &rows, notes.into_iter().flatten());
    let seed_rows = (points.len() > 1).then(|| seed_rows::of(&rows, &options.schemes));
    let text = match &seed_rows {
        Some(seed_rows) => documents::of_seeds(&points, seed_rows)?,
        None => documents::of_run(&point, &rows)?,
    };
    // Write the file first: printing fails if the reader of standard output has exited.
    if let Some(path) = file {
        files::replace(path, &format!("{text}\n"))
            .with_context(|| format!("cannot write the results to {}", path.display()))?;
    }
    if to_stdout {
        say!("{text}");
    } else {
        let traffic = options.traffic.description(&point, &options.sizes);
        if let Some(seed_rows) = &seed_rows {
            for table in seed_rows::tables(seed_rows) {
                say!("{table}");
            }
            say!("{}", seed_rows::caption(&points, &options.schemes, &traffic));
            return Ok(());
        }
        say!("{}", run_table::table(&rows));
        say!("{}", run_table::caption(&point, &traffic));
        let more = [run_table::exact_table(&rows), run_table::coflow_table(&rows)];
        for table in more.into_iter().flatten() {
            say!("{table}");
        }
    }
    Ok(())
}

impl Options {
    fn point(&self, seed: u64) -> Result<Point> {
        let rate = u32::try_from(self.gbit).ok().and_then(Rate::gbit_per_s);
        let rate = rate.context("--gbit: choose 1 to 400 Gbit/s")?;
        let msr = msr_from_fraction(self.msr);
        let point = Point {
            network_spec: self.network,
            rate,
            stragglers: Stragglers {
                hosts_share: self.slow_hosts.0,
                hosts_slowdown: self.slow_hosts.1,
                links_share: self.slow_links.0,
                links_slowdown: self.slow_links.1,
            },
            load_balancing: self.load_balancing,
            buffer_bytes: self.buffer,
            ecn_threshold_packets: self
                .ecn_threshold_packets
                .and_then(|packets| u32::try_from(packets).ok()),
            profile: self.profile.clone(),
            unit: if self.packet_limits { Unit::Packets } else { Unit::Bytes },
            sizes: self.sizes.sizes.clone(),
            load: self.load,
            duration_ps: self.duration_us * US,
            msr: msr.context("--msr: choose a share above 0 and up to 1")?,
            scheme: Scheme::default(),
            exact_share: self.exact,
            timer_granularity_ns: self.timer_granularity_us * 1_000,
            receipt_delay_ns: self.receipt_delay_us * 1_000,
            seed,
            ..Point::default()
        };
        let point = self.traffic.apply(point)?;
        // `apply` has checked the number of messages of a file or a vector.
        if !matches!(point.traffic, Traffic::Drawn) {
            return Ok(point);
        }
        let messages = point.mean_messages_per_job();
        if messages > f64::from(MESSAGES_MAX) / 2.0 {
            bail!(
                "a job would have about {messages:.0} messages, more than {}: choose a shorter \
                 --duration-us or a lower --load",
                MESSAGES_MAX / 2
            )
        }
        let all = messages * point.network_spec.hosts() as f64;
        if all > MESSAGES_OF_ALL_MAX as f64 {
            bail!(
                "all jobs together would have about {all:.0} messages, more than \
                 {MESSAGES_OF_ALL_MAX}: choose a shorter --duration-us or fewer hosts"
            )
        }
        Ok(point)
    }
}
