//! Options of `atp-sim run` about what is sent, besides sizes and load.

use super::values::{NamedSizes, whole};
use anyhow::{Result, bail};
use atp_proto::sender::MESSAGES_MAX;
use atp_sim::{
    engine::{S, US},
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
pub const MESSAGES_OF_ALL_MAX: u64 = 50_000_000;
/// No trace is longer.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct TrafficOptions {
    /// Who sends to whom: random (every host to another one), permutation (no two to the same), incast (all
    /// to host 0), incast:SENDERS (so many to it), fan-in:SENDERS (groups of so many to one),
    /// ring-allreduce or tree-allreduce.
    /// An all-reduce sums a vector of all hosts; each of its transfers is a job, and begins when those
    /// that it builds on have what MSR asks for
    #[arg(long, default_value = "random", value_parser = who)]
    pattern: Who,
    /// The vector of an all-reduce, bytes per host
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1000000",
        value_parser = whole(1, 100_000_000_000)
    )]
    vector_bytes: u64,
    /// What lies between messages
    #[arg(long, value_enum, default_value_t = GapsOption::Poisson)]
    gaps: GapsOption,
    /// Messages from a file of lines `at_us source destination bytes`, instead of drawn ones: microseconds,
    /// hosts from 0, 1 to 67,108,864 bytes. Those from one host to another are a job. With a number as
    /// fifth word, jobs of the same number are a coflow, which is done when the last of them has what it
    /// needs
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["coflows", "pattern", "vector_bytes", "gaps", "sizes", "load"]
    )]
    trace: Option<PathBuf>,
    /// Coflows from a file of the coflow benchmark's format, instead of drawn messages: spread over the
    /// hosts, begun in --duration-us, and scaled to --load; each transfer is a job. A coflow is done when
    /// the last of its jobs has what it needs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pattern", "vector_bytes", "gaps"])]
    coflows: Option<PathBuf>,
    /// Only so many of them, from the first [default: all]
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "coflows",
        conflicts_with = "trace",
        value_parser = whole(1, u32::MAX.into())
    )]
    coflows_first: Option<u64>,
    /// Flows that nobody waits for, on top: [FLOWSx]SHARE@QUEUE[:FROM-UNTIL][,QUEUE:FROM-UNTIL...], as
    /// 3x0.8@4:0-600,3:600-900 for three that take 0.8 of their lines, in queue 4 for 600 us and then in
    /// queue 3, or 0.5@4 for all of --duration-us. Can be given several times. Only ATP's switches have
    /// more than one queue
    #[arg(long, value_name = "FLOWS")]
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
        if let Who::Pattern(Pattern::Incast(Some(senders)) | Pattern::FanIn(senders)) = self.pattern
            && senders >= hosts
        {
            bail!("{senders} senders to one: the network has {hosts} hosts, choose fewer")
        }
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
        let until_ps = match &traffic {
            Traffic::Trace(trace) => point.duration_ps.max(trace.last_ps()),
            _ => point.duration_ps,
        };
        let until = |background: &Background| background.clone().until(until_ps);
        let background: Vec<_> = self.background.iter().map(until).collect();
        if background.iter().any(Background::is_silent) {
            bail!(
                "--background: all of it would come after {} us, when messages have come: choose earlier \
                 times, or a longer --duration-us",
                until_ps / US
            )
        }
        Ok(Point { traffic, pattern, gaps, background, ..point })
    }

    /// For a caption: what `point` sends, and for how long where that is up to `--duration-us`.
    pub fn words(&self, point: &Point, sizes: &NamedSizes) -> String {
        let drawn = format!("{sizes} at load {} for {} us", point.load, point.duration_ps / US);
        match (&point.traffic, &self.trace, &self.coflows) {
            (Traffic::AllReduce(all_reduce), ..) => {
                let shape = match all_reduce.shape {
                    Shape::Ring => "ring",
                    Shape::Tree => "tree",
                };
                format!("{shape} all-reduce of {} bytes, messages of {sizes}", all_reduce.bytes)
            }
            (_, Some(path), _) => format!("messages of {}", path.display()),
            (_, _, Some(path)) => format!("coflows of {}, messages of {drawn}", path.display()),
            _ => drawn,
        }
    }

    fn traffic(&self, point: &Point, hosts: u32) -> Result<Traffic> {
        if let Some(path) = &self.trace {
            let trace: Trace = read(path)?;
            return Ok(Traffic::Trace(trace.into()));
        }
        if let Some(path) = &self.coflows {
            let coflows: Coflows = read(path)?;
            let first = self.coflows_first.and_then(|first| usize::try_from(first).ok());
            let coflows = coflows.first(first.unwrap_or(usize::MAX));
            let bits_per_s = point.load * point.rate.bits_per_s() as f64 * f64::from(hosts);
            let scale = Scale {
                hosts,
                bytes: bits_per_s / 8.0 * (point.duration_ps as f64 / S as f64),
                duration_ps: point.duration_ps,
                sizes: point.sizes.clone(),
                seed: point.seed,
            };
            limit_messages(0, (scale.bytes / scale.sizes.mean(f64::from)) as u64)?;
            let trace = coflows.trace(&scale);
            if trace.jobs.is_empty() {
                bail!(
                    "{}: on {hosts} hosts no coflow sends anything to another host",
                    path.display()
                )
            }
            return Ok(Traffic::Trace(Arc::new(trace)));
        }
        let Who::AllReduce(shape) = self.pattern else { return Ok(Traffic::Drawn) };
        let bytes = self.vector_bytes;
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
