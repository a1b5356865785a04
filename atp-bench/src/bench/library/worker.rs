//! One process of the benchmark: a sender or a receiver of one scheme. It prints its address, and
//! at its end its counts, as lines of JSON.

use std::io::{IsTerminal, Write, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::{iperf3, job, tcp, udp};

#[derive(clap::Args)]
pub struct Args {
    /// Stay on this processor
    #[arg(long)]
    cpu: Option<usize>,
    #[command(subcommand)]
    role: Role,
}

/// The role of a worker.
#[derive(clap::Subcommand)]
enum Role {
    UdpSend(Stream),
    UdpReceive(Sink),
    TcpSend(Stream),
    TcpReceive(Sink),
    Iperf3Send(Stream),
    Iperf3Receive(Sink),
    JobSend(job::SendArgs),
    JobReceive(job::ReceiveArgs),
}

/// A sender without a library.
#[derive(clap::Args)]
pub struct Stream {
    #[arg(long)]
    pub to: SocketAddr,
    /// Bytes of one packet's payload, or of one write
    #[arg(long)]
    pub bytes: usize,
    #[arg(long)]
    pub seconds: f64,
}

/// A receiver without a library.
#[derive(clap::Args)]
pub struct Sink {
    #[arg(long)]
    pub at: SocketAddr,
    /// UDP: poll with short sleeps instead of waiting for the next packet
    #[arg(long)]
    pub nap: bool,
}

/// The counts of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Packets sent or received; 0 for TCP.
    pub packets: u64,
    /// Retransmitted packets among those sent.
    pub packets_again: u64,
    /// Application bytes sent or received.
    pub bytes: u64,
    /// The time from the first to the last of them.
    pub active_s: f64,
    /// User and system time of the process, all threads.
    pub cpu_s: f64,
}

/// The line of a receiver that is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub at: SocketAddr,
}

pub fn main(args: Args) -> Result<()> {
    if stdout().is_terminal() {
        bail!("a benchmark's worker is started by `cargo xtask bench library`, not by hand");
    }
    if let Some(cpu) = args.cpu {
        stay_on(cpu)?;
    }
    // iperf3 is a process of its own, the only one that a worker starts.
    let of = match args.role {
        Role::Iperf3Send(_) | Role::Iperf3Receive(_) => UsageWho::RUSAGE_CHILDREN,
        _ => UsageWho::RUSAGE_SELF,
    };
    let started_s = cpu_s(of)?;
    let mut tally = match args.role {
        Role::UdpSend(stream) => udp::send(&stream),
        Role::UdpReceive(sink) => udp::receive(&sink),
        Role::TcpSend(stream) => tcp::send(&stream),
        Role::TcpReceive(sink) => tcp::receive(&sink),
        Role::Iperf3Send(stream) => iperf3::send(&stream),
        Role::Iperf3Receive(sink) => iperf3::receive(&sink),
        Role::JobSend(args) => job::send(&args),
        Role::JobReceive(args) => job::receive(&args),
    }?;
    tally.cpu_s = cpu_s(of)? - started_s;
    say(&tally)
}

/// Prints the address to send to.
pub fn say_ready(at: SocketAddr) -> Result<()> {
    say(&Ready { at })
}

fn say(line: &impl Serialize) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush().context("the benchmark doesn't listen any more")
}

fn stay_on(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("can't stay on CPU {cpu}"))
}

fn cpu_s(of: UsageWho) -> Result<f64> {
    let usage = getrusage(of)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}

/// Counts arrivals and remembers the first and the last moment.
#[derive(Debug)]
pub struct Arrivals {
    span: Option<(Instant, Instant)>,
    packets: u64,
    bytes: u64,
}

impl Arrivals {
    pub const fn new() -> Self {
        Self { span: None, packets: 0, bytes: 0 }
    }

    /// How long ago the last arrival was; `None` before the first.
    pub fn idle(&self) -> Option<Duration> {
        self.span.map(|(_, last)| last.elapsed())
    }

    pub fn count(&mut self, packets: u64, bytes: u64) {
        let now = Instant::now();
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        self.packets += packets;
        self.bytes += bytes;
    }

    pub fn tally(&self) -> Tally {
        let active = self.span.map_or(Duration::ZERO, |(first, last)| last - first);
        Tally {
            packets: self.packets,
            bytes: self.bytes,
            active_s: active.as_secs_f64(),
            ..Tally::default()
        }
    }
}

/// A daemon's control socket, or none.
#[derive(clap::Args)]
pub struct Control {
    /// The daemon's socket [default: none, the userspace datapath]
    #[arg(long)]
    pub control: Option<PathBuf>,
}

impl Control {
    /// The datapath that the library must report; another one would be another measurement.
    pub fn wanted_datapath(&self) -> &'static str {
        if self.control.is_some() { "ebpf" } else { "userspace" }
    }
}
