//! The options of `atp-sim run` that choose the traffic, except sizes and load.

use super::values::{NamedSizes, whole_number};
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

/// The limit of transfers, because each is a job with its own state.
const TRANSFERS_MAX: usize = 100_000;
pub const MESSAGES_OF_ALL_MAX: u64 = 50_000_000;
/// The size limit of a trace file.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct TrafficOptions {
    /// The pattern of senders and receivers.
    /// random: every host sends to a random other host.
    /// permutation: every host sends to another host and receives from one.
    /// incast: all hosts send to host 0.
    /// incast:SENDERS: SENDERS hosts send to host 0.
    /// fan-in:SENDERS: random groups of SENDERS senders and one receiver.
    /// ring-allreduce, tree-allreduce: the vectors of all hosts are summed, in a ring or along a
    /// tree. Each transfer of an all-reduce is a job. It begins when the transfers it depends on
    /// have the messages that the MSR requires
    #[arg(long, default_value = "random", value_parser = pattern)]
    pattern: PatternOption,
    /// The length of each host's vector in an all-reduce, bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1000000",
        value_parser = whole_number(1, 100_000_000_000)
    )]
    vector_bytes: u64,
    /// The distribution of times between messages
    #[arg(long, value_enum, default_value_t = GapsOption::Poisson)]
    gaps: GapsOption,
    /// Read messages from a file instead of drawing them. Each line is `at_us source destination
    /// bytes [coflow]`: a time in microseconds, two host numbers from 0, 1 to 67,108,864 bytes, and
    /// optionally a coflow's number.
    /// The messages from one host to another are a job. Jobs with the same coflow number are a
    /// coflow, which is complete when its last job is complete
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["coflows", "pattern", "vector_bytes", "gaps", "sizes", "load"]
    )]
    trace: Option<PathBuf>,
    /// Read coflows from a file in the format of coflow-benchmark instead of drawing messages.
    /// They are mapped to the hosts, start within --duration-us, and are scaled to --load. Each
    /// transfer is a job. A coflow is complete when its last job is complete
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pattern", "vector_bytes", "gaps"])]
    coflows: Option<PathBuf>,
    /// Use only the first NUMBER coflows of the file [default: all]
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "coflows",
        conflicts_with = "trace",
        value_parser = whole_number(1, u32::MAX.into())
    )]
    coflows_first: Option<u64>,
    /// Add background flows: [FLOWSx]SHARE@QUEUE[:FROM-UNTIL][,QUEUE:FROM-UNTIL...]. 0.5@4 is one
    /// flow that uses half of its line, in queue 4, for all of --duration-us.
    /// 3x0.8@4:0-600,3:600-900 are three flows that use 0.8 of their lines, in queue 4 for 600 us
    /// and then in queue 3 until 900 us. Repeat the option for several kinds of flows. Only ATP's
    /// switches have more than one queue
    #[arg(long, value_name = "FLOWS")]
    background: Vec<Background>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GapsOption {
    /// Exponentially distributed times
    Poisson,
    /// The distribution of Facebook's key-value pool, scaled to the load
    Keyvalue,
}

#[derive(Clone, Copy, Debug)]
enum PatternOption {
    Pattern(Pattern),
    AllReduce(Shape),
}

impl TrafficOptions {
    /// Adds this traffic to a point whose load, duration, sizes and network are set.
    ///
    /// # Errors
    /// If a file cannot be read, or the traffic does not fit the network.
    pub fn apply(&self, point: Point) -> Result<Point> {
        let hosts = point.network_spec.hosts() as u32;
        let traffic = self.traffic(&point, hosts)?;
        if let PatternOption::Pattern(Pattern::Incast(Some(senders)) | Pattern::FanIn(senders)) =
            self.pattern
            && senders >= hosts
        {
            bail!(
                "--pattern: {senders} senders and a receiver do not fit into a network of {hosts} \
                 hosts: choose fewer senders or more hosts"
            )
        }
        if let Traffic::Trace(trace) = &traffic {
            if trace.hosts() > hosts {
                bail!(
                    "the trace names host {}, but the network has only {hosts} hosts, counted from 0: \
                     choose a larger --network",
                    trace.hosts() - 1
                )
            }
            let transfers = trace.jobs.len();
            if transfers > TRANSFERS_MAX {
                bail!(
                    "the file has {transfers} transfers, more than {TRANSFERS_MAX}: choose fewer coflows"
                )
            }
            let all = trace.jobs.iter().map(|job| job.messages.len() as u64);
            limit_messages(all.clone().max().unwrap_or(0), all.sum())?;
        }
        let pattern = match self.pattern {
            PatternOption::Pattern(pattern) => pattern,
            PatternOption::AllReduce(_) => Pattern::Random,
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
                "--background: all intervals begin after {} us, when the last message has arrived: \
                 choose earlier intervals or a longer --duration-us",
                until_ps / US
            )
        }
        Ok(Point { traffic, pattern, gaps, background, ..point })
    }

    /// Describes the traffic of `point` for a caption.
    pub fn description(&self, point: &Point, sizes: &NamedSizes) -> String {
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
                    "{}: no coflow has a transfer between two of the {hosts} hosts: choose a larger \
                     --network",
                    path.display()
                )
            }
            return Ok(Traffic::Trace(Arc::new(trace)));
        }
        let PatternOption::AllReduce(shape) = self.pattern else { return Ok(Traffic::Drawn) };
        let bytes = self.vector_bytes;
        let transfers = u64::from(hosts) * 2 * u64::from(hosts - 1);
        if shape == Shape::Ring && transfers > TRANSFERS_MAX as u64 {
            bail!(
                "a ring of {hosts} hosts has {transfers} transfers, more than {TRANSFERS_MAX}: choose \
                 fewer hosts"
            )
        }
        // A ring's transfer carries a chunk of the vector, a tree's the complete vector.
        let (each, transfers) = match shape {
            Shape::Ring => (bytes.div_ceil(u64::from(hosts)), transfers),
            Shape::Tree => (bytes, 2 * u64::from(hosts - 1)),
        };
        let messages = (each as f64 / point.sizes.mean(f64::from)).ceil() as u64;
        limit_messages(messages, messages.saturating_mul(transfers))?;
        Ok(Traffic::AllReduce(AllReduce { shape, bytes }))
    }
}

/// Checks the number of messages of one job and of all jobs, which must fit into memory.
fn limit_messages(of_a_job: u64, of_all: u64) -> Result<()> {
    if of_a_job > u64::from(MESSAGES_MAX) / 2 {
        bail!(
            "a job would have about {of_a_job} messages, more than {}: choose longer messages or fewer \
             bytes",
            MESSAGES_MAX / 2
        )
    }
    if of_all > MESSAGES_OF_ALL_MAX {
        bail!(
            "there would be about {of_all} messages, more than {MESSAGES_OF_ALL_MAX}: choose longer \
             messages or fewer bytes"
        )
    }
    Ok(())
}

fn read<T: std::str::FromStr<Err = String>>(path: &Path) -> Result<T> {
    let text = super::read_file(path, FILE_BYTES_MAX)?;
    text.parse().map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn pattern(text: &str) -> Result<PatternOption, String> {
    let pattern = match text.split_once(':') {
        None => match text {
            "random" => Pattern::Random,
            "permutation" => Pattern::Permutation,
            "incast" => Pattern::Incast(None),
            "ring-allreduce" => return Ok(PatternOption::AllReduce(Shape::Ring)),
            "tree-allreduce" => return Ok(PatternOption::AllReduce(Shape::Tree)),
            _ => return Err(unknown()),
        },
        Some(("incast", senders)) => match senders.parse() {
            Ok(senders @ 1..) => Pattern::Incast(Some(senders)),
            _ => return Err(format!("{senders:?} is not a number of senders: choose 1 or more")),
        },
        Some(("fan-in", senders)) => match senders.parse() {
            Ok(senders @ 1..) => Pattern::FanIn(senders),
            _ => return Err(format!("{senders:?} is not a number of senders: choose 1 or more")),
        },
        Some(_) => return Err(unknown()),
    };
    Ok(PatternOption::Pattern(pattern))
}

fn unknown() -> String {
    "choose random, permutation, incast, incast:SENDERS, fan-in:SENDERS, ring-allreduce or \
     tree-allreduce"
        .to_owned()
}
