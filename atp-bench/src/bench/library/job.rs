//! A sender and a receiver that use the library as an application does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use approxlib::{Event, Job, Receiver};

use super::endpoint::{Control, print_ready};
use super::tally::{Arrivals, Tally};

/// N until the time is up; then N becomes the number of sent messages. This makes the target loss
/// rate correct from the first packet on.
const MESSAGES_MAX: u32 = 1 << 24;
/// Messages between two readings of the clock, equal to the raw sender's.
const BATCH: usize = 64;
/// The idle limit of a stream that did not begin, or stopped before its end.
const SILENCE_MAX: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct SendArgs {
    #[arg(long)]
    to: SocketAddr,
    /// Bytes of one message
    #[arg(long)]
    bytes: usize,
    /// Message bytes in one packet
    #[arg(long)]
    payload: u32,
    #[arg(long)]
    seconds: f64,
    #[arg(long)]
    msr: f64,
    /// Highest rate without a daemon, bytes per second
    #[arg(long)]
    rate_max: u64,
    /// Send buffer of the library, bytes [default: the library's]
    #[arg(long)]
    buffer: Option<u64>,
    /// Send each message in a packet of its own
    #[arg(long)]
    unpacked: bool,
    /// Hand over messages without a copy
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    control: Control,
}

#[derive(clap::Args)]
pub struct ReceiveArgs {
    #[arg(long)]
    at: SocketAddr,
    #[command(flatten)]
    control: Control,
}

/// Sends messages for the given time.
pub fn send(args: &SendArgs) -> Result<Tally> {
    let mut builder = Job::builder();
    if let Some(bytes) = args.buffer {
        builder = builder.buffer_bytes(bytes);
    }
    let mut job = builder
        .messages(MESSAGES_MAX)
        .msr(args.msr)
        .payload_bytes(args.payload)
        .packing(!args.unpacked)
        .rate_max_bytes_per_s(args.rate_max)
        .control_socket(args.control.control.clone())
        .connect(args.to)?;
    let wanted = args.control.wanted_datapath();
    if job.datapath() != wanted {
        bail!("the sender's datapath is {}, not {wanted}", job.datapath());
    }
    let message: Arc<[u8]> = vec![0u8; args.bytes].into();
    let messages = vec![message; BATCH];
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < args.seconds {
        if args.shared {
            for message in &messages {
                job.send_shared(0, message.clone())?;
            }
        } else {
            job.send_all(0, &messages)?;
        }
    }
    let report = job.finish()?;
    Ok(Tally {
        packets: report.packets_sent,
        packets_retransmitted: report.packets_retransmitted,
        bytes: report.bytes_sent,
        active_s: report.elapsed_s,
        ..Tally::default()
    })
}

/// Counts messages until the job has ended.
pub fn receive(args: &ReceiveArgs) -> Result<Tally> {
    let mut receiver =
        Receiver::builder().control_socket(args.control.control.clone()).bind(args.at)?;
    let wanted = args.control.wanted_datapath();
    if receiver.datapath() != wanted {
        bail!("the receiver's datapath is {}, not {wanted}", receiver.datapath());
    }
    print_ready(receiver.local_addr()?)?;
    let mut arrivals = Arrivals::new();
    loop {
        match receiver.recv(Some(SILENCE_MAX))? {
            Some(Event::Message { data, .. }) => {
                arrivals.count(0, data.len() as u64);
                receiver.recycle(data);
            }
            Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
            Some(Event::Finished { .. } | Event::WindowEnded { .. }) => break,
            None => bail!("no message arrived within {SILENCE_MAX:?}"),
        }
    }
    // The library counts packets, including those of incomplete messages.
    Ok(Tally { packets: receiver.stats().packets_received, ..arrivals.tally() })
}
