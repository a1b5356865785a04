//! Options of `atp-sim run` about what is sent, besides sizes and load.

use anyhow::{Result, bail};
use atp_proto::sender::MESSAGES_MAX;
use atp_sim::{
    engine::S,
    experiment::{AllReduce, Pattern, Point, Traffic},
    workload::{Background, Coflows, Gaps, Scale, Shape, Trace},
};
use clap::{Args, ValueEnum};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Each is a job with state of its own.
const TRANSFERS_MAX: usize = 100_000;
const MESSAGES_OF_ALL_MAX: u64 = 50_000_000;
/// No trace is longer.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct TrafficOptions {
    /// Who sends to whom: random, permutation, incast, incast:SENDERS, fan-in:SENDERS (groups of so many to
    /// one), ring-allreduce or tree-allreduce.
    /// An all-reduce sums a vector of all hosts; each of its transfers is a job, and begins when those
    /// that it builds on have what MSR asks for
    #[arg(long, default_value = "random", value_parser = who)]
    pattern: Who,
    /// The vector of an all-reduce, bytes per host
    #[arg(long, default_value_t = 1_000_000)]
    vector_bytes: u64,
    /// What lies between messages
    #[arg(long, value_enum, default_value_t = GapsOption::Poisson)]
    gaps: GapsOption,
    /// Messages from a file of lines `at_us source destination bytes`, instead of drawn ones; those from
    /// one host to another are a job
    #[arg(long, conflicts_with = "coflows")]
    trace: Option<PathBuf>,
    /// Coflows from a file of the coflow benchmark's format, instead of drawn messages: spread over the
    /// hosts, begun in --duration-us, and scaled to --load; each transfer is a job
    #[arg(long)]
    coflows: Option<PathBuf>,
    /// Only so many of them
    #[arg(long, requires = "coflows")]
    coflows_first: Option<usize>,
    /// Flows that nobody waits for, on top: [FLOWSx]SHARE@QUEUE[:FROM-UNTIL][,QUEUE:FROM-UNTIL...], as
    /// 3x0.8@4:0-600,3:600-900 for three that take 0.8 of their lines, in queue 4 for 600 us and then in
    /// queue 3. Can be given several times
    #[arg(long)]
    background: Vec<Background>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GapsOption {
    /// Exponential
    Poisson,
    /// Those of Facebook's key-value pool, scaled to the load
    Keyvalue,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Pattern(Pattern),
    AllReduce(Shape),
}

impl TrafficOptions {
    /// `point` with this traffic; its load, duration, sizes and network are known.
    ///
    /// # Errors
    /// Which file can't be read, or what in it makes no sense on this network.
    pub fn apply(&self, point: Point) -> Result<Point> {
        let hosts = point.place.hosts() as u32;
        let traffic = self.traffic(&point, hosts)?;
        if let Traffic::Trace(trace) = &traffic {
            if trace.hosts() > hosts {
                bail!("the trace has host {}, the network {hosts} hosts", trace.hosts() - 1)
            }
            let transfers = trace.jobs.len();
            if transfers > TRANSFERS_MAX {
                bail!(
                    "{transfers} transfers: choose fewer coflows, up to {TRANSFERS_MAX} transfers"
                )
            }
            let all = trace.jobs.iter().map(|job| job.messages.len() as u64);
            limit_messages(all.clone().max().unwrap_or(0), all.sum())?;
        }
        let pattern = match self.pattern {
            Who::Pattern(pattern) => pattern,
            Who::AllReduce(_) => Pattern::Random,
        };
        let gaps = match self.gaps {
            GapsOption::Poisson => Gaps::Poisson,
            GapsOption::Keyvalue => Gaps::KeyValue,
        };
        let until_ps = point.duration_ps;
        let until = |background: &Background| background.clone().until(until_ps);
        let background = self.background.iter().map(until).collect();
        Ok(Point { traffic, pattern, gaps, background, ..point })
    }

    fn traffic(&self, point: &Point, hosts: u32) -> Result<Traffic> {
        if let Some(path) = &self.trace {
            let trace: Trace = read(path)?;
            return Ok(Traffic::Trace(trace.into()));
        }
        if let Some(path) = &self.coflows {
            let coflows: Coflows = read(path)?;
            let coflows = coflows.first(self.coflows_first.unwrap_or(usize::MAX));
            let bits_per_s = point.load * point.rate.bits_per_s() as f64 * f64::from(hosts);
            let scale = Scale {
                hosts,
                bytes: bits_per_s / 8.0 * (point.duration_ps as f64 / S as f64),
                duration_ps: point.duration_ps,
                sizes: point.sizes.clone(),
                seed: point.seed,
            };
            limit_messages(0, (scale.bytes / scale.sizes.mean(f64::from)) as u64)?;
            return Ok(Traffic::Trace(Arc::new(coflows.trace(&scale))));
        }
        let Who::AllReduce(shape) = self.pattern else { return Ok(Traffic::Drawn) };
        let bytes = self.vector_bytes;
        if !(1..=100_000_000_000).contains(&bytes) {
            bail!("--vector-bytes {bytes}: choose 1 to 100,000,000,000")
        }
        let transfers = u64::from(hosts) * 2 * u64::from(hosts - 1);
        if shape == Shape::Ring && transfers > TRANSFERS_MAX as u64 {
            bail!("a ring of {hosts} hosts has {transfers} transfers: choose fewer hosts")
        }
        // A ring's transfer is a part of the vector, a tree's all of it.
        let (each, transfers) = match shape {
            Shape::Ring => (bytes.div_ceil(u64::from(hosts)), transfers),
            Shape::Tree => (bytes, 2 * u64::from(hosts - 1)),
        };
        let messages = (each as f64 / point.sizes.mean(f64::from)).ceil() as u64;
        limit_messages(messages, messages.saturating_mul(transfers))?;
        Ok(Traffic::AllReduce(AllReduce { shape, bytes }))
    }
}

/// What a job may have, and what fits into some GiB.
fn limit_messages(of_a_job: u64, of_all: u64) -> Result<()> {
    if of_a_job > u64::from(MESSAGES_MAX) / 2 {
        bail!("a job would have some {of_a_job} messages: choose longer ones, or fewer bytes")
    }
    if of_all > MESSAGES_OF_ALL_MAX {
        bail!("there would be some {of_all} messages, and {MESSAGES_OF_ALL_MAX} are the most")
    }
    Ok(())
}

fn read<T: std::str::FromStr<Err = String>>(path: &Path) -> Result<T> {
    let text = super::read_file(path, FILE_BYTES_MAX)?;
    text.parse().map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn who(text: &str) -> Result<Who, String> {
    let pattern = match text.split_once(':') {
        None => match text {
            "random" => Pattern::Random,
            "permutation" => Pattern::Permutation,
            "incast" => Pattern::Incast(None),
            "ring-allreduce" => return Ok(Who::AllReduce(Shape::Ring)),
            "tree-allreduce" => return Ok(Who::AllReduce(Shape::Tree)),
            _ => return Err(unknown()),
        },
        Some(("incast", senders)) => match senders.parse() {
            Ok(senders @ 1..) => Pattern::Incast(Some(senders)),
            _ => return Err(format!("{senders:?} is no number of senders")),
        },
        Some(("fan-in", senders)) => match senders.parse() {
            Ok(senders @ 1..) => Pattern::FanIn(senders),
            _ => return Err(format!("{senders:?} is no number of senders")),
        },
        Some(_) => return Err(unknown()),
    };
    Ok(Who::Pattern(pattern))
}

fn unknown() -> String {
    "choose random, permutation, incast, incast:SENDERS, fan-in:SENDERS, ring-allreduce or \
     tree-allreduce"
        .to_owned()
}
