//! One process of the benchmark: the sender or the receiver of one scheme. It prints its address
//! and, at its end, its counts as lines of JSON.

use std::io::{IsTerminal, stdout};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use super::endpoint::{Sink, Stream, print_line};
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

pub fn main(args: Args) -> Result<()> {
    if stdout().is_terminal() {
        bail!("a benchmark's worker is started by `cargo xtask bench library`, not by hand");
    }
    if let Some(cpu) = args.cpu {
        stay_on(cpu)?;
    }
    // iperf3 is a child process, the only one that a worker starts.
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
    print_line(&tally)
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
