//! The schemes of the comparison, and one run of a scheme.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use atp_common::wire::MEMBER_HEADER_LEN;
use testbed::{Daemon, Host, Launch, Pair, Signal};

use super::cpu::Clock;
use super::endpoint::Ready;
use super::process::Worker;
use super::tally::Tally;

/// The length of a long message, bytes.
const LONG_MESSAGE_BYTES: usize = 64 << 10;
/// The packets of a message that leaves as one GSO buffer.
const BURST_PACKETS: u32 = atp_common::laws::burst::PACKETS_MAX;
/// The depth of a queue that takes a GSO buffer.
const QUEUE_PACKETS_DEEP: u32 = 2 * BURST_PACKETS;
/// The length of a short message, bytes.
const SHORT_MESSAGE_BYTES: usize = 100;
/// The bytes of one write of the TCP sender.
const TCP_WRITE_BYTES: usize = 128 << 10;
/// The length of the ATP header. Raw UDP carries as much extra payload, for equal packet sizes.
const HEADER_BYTES: usize = atp_common::wire::HEADER_LEN;

/// The schemes of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scheme {
    /// `sendmmsg` of 64 packets, and a sink that waits in `recvmmsg`
    RawUdp,
    /// Raw UDP with a sink that polls. The sender wakes no process, so this is its maximum rate
    RawUdpNap,
    /// Raw UDP whose packets each hold as many messages of 100 bytes as a packed packet does
    RawUdpPacked,
    /// iperf3: one stream with CUBIC, writes of 128 KiB
    Iperf3,
    /// iperf3, segmented at the sender's port and merged at the receiver's
    Iperf3Segmented,
    /// One stream with CUBIC, writes of 128 KiB, by this program
    Tcp,
    /// This program's TCP, segmented at the sender's port and merged at the receiver's
    TcpSegmented,
    /// One packet a message, acknowledged and paced by the library itself
    LibraryUserspace,
    /// One packet a message, over the eBPF datapath
    LibraryEbpf,
    /// Messages of 100 bytes, which share packets, over the eBPF datapath
    LibraryShort,
    /// Messages of 100 bytes, one packet each, over the eBPF datapath
    LibraryShortUnpacked,
    /// Messages of 64 KiB, acknowledged and paced by the library itself
    LibraryUserspace64k,
    /// Messages of 64 KiB, over the eBPF datapath
    LibraryEbpf64k,
    /// Messages of 44 packets, not copied, each a GSO buffer, over the eBPF datapath with deep
    /// queues
    LibraryBurst,
    /// Messages of 44 packets, segmented at the sender's port and merged at the receiver's
    LibraryBurstSegmented,
}

impl Scheme {
    /// The scheme's name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The scheme's name in the table and in JSON.
    pub fn title(self) -> String {
        match self {
            Self::Iperf3 => "iperf3 TCP (CUBIC)".to_owned(),
            Self::Iperf3Segmented => "iperf3 TCP (CUBIC), segmented".to_owned(),
            Self::Tcp => "in-process TCP (CUBIC)".to_owned(),
            Self::TcpSegmented => "in-process TCP (CUBIC), segmented".to_owned(),
            _ => self.name(),
        }
    }

    /// Whether daemons must run on both hosts.
    pub fn needs_daemons(self) -> bool {
        self.queue_packets().is_some()
    }

    /// The depth of an approximate queue in the daemons' profile, packets. A queue of depth one
    /// takes no bursts.
    const fn queue_packets(self) -> Option<u32> {
        match self {
            Self::LibraryEbpf
            | Self::LibraryEbpf64k
            | Self::LibraryShort
            | Self::LibraryShortUnpacked => Some(1),
            Self::LibraryBurst | Self::LibraryBurstSegmented => Some(QUEUE_PACKETS_DEEP),
            _ => None,
        }
    }

    /// Whether the application sends the same memory every time, as the TCP sender does.
    const fn shares_messages(self) -> bool {
        matches!(self, Self::LibraryBurst | Self::LibraryBurstSegmented)
    }

    /// Whether the sender's port segments GSO buffers, and the receiver's port merges packets.
    const fn is_segmented(self) -> bool {
        matches!(self, Self::Iperf3Segmented | Self::TcpSegmented | Self::LibraryBurstSegmented)
    }

    fn roles(self) -> (&'static str, &'static str) {
        match self {
            Self::RawUdp | Self::RawUdpNap | Self::RawUdpPacked => ("udp-send", "udp-receive"),
            Self::Iperf3 | Self::Iperf3Segmented => ("iperf3-send", "iperf3-receive"),
            Self::Tcp | Self::TcpSegmented => ("tcp-send", "tcp-receive"),
            _ => ("job-send", "job-receive"),
        }
    }
}

/// The conditions of every run.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub seconds: f64,
    pub payload_bytes: u32,
    pub msr: f64,
    /// Send buffer of the library, bytes; None for its default.
    pub buffer: Option<u64>,
    /// The maximum rate of a lane, as the daemon's option and in bytes per second.
    pub rate_max: String,
    pub rate_max_bytes_per_s: u64,
    /// The command line of the daemon, if a scheme needs one.
    pub daemon: Option<Launch>,
    /// The processors of the sender's and the receiver's processes.
    pub cpus: Option<(usize, usize)>,
}

/// The measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub sender: Tally,
    pub receiver: Tally,
    /// Processor time of both daemons.
    pub daemons_cpu_s: f64,
    /// Processor time of ksoftirqd, machine-wide.
    pub softirq_cpu_s: f64,
}

impl Run {
    /// Packets counted by the receiver, per second; `None` for TCP.
    pub fn packets_per_s(&self) -> Option<f64> {
        let packets = self.receiver.packets;
        (packets > 0).then(|| packets as f64 / self.active_s())
    }

    /// The longer of both ends' durations. A receiver that waited for a processor reads everything
    /// at once, and its own duration would be too short.
    fn active_s(&self) -> f64 {
        self.receiver.active_s.max(self.sender.active_s)
    }

    /// Packets sent, per second.
    pub fn offered_packets_per_s(&self) -> Option<f64> {
        let Tally { packets, active_s, .. } = self.sender;
        (packets > 0).then(|| packets as f64 / active_s)
    }

    /// Delivered application bits per second.
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.receiver.bytes as f64 * 8.0 / self.active_s()
    }

    /// Packets counted by the receiver, per second of the sender's processor time.
    pub fn packets_per_sender_cpu_s(&self) -> Option<f64> {
        let packets = self.receiver.packets;
        (packets > 0).then(|| packets as f64 / self.sender.cpu_s)
    }

    /// Packets counted by the receiver, per second of its processor time.
    pub fn packets_per_receiver_cpu_s(&self) -> Option<f64> {
        let packets = self.receiver.packets;
        (packets > 0).then(|| packets as f64 / self.receiver.cpu_s)
    }

    /// Processor time of sender, receiver, daemons and ksoftirqd together.
    pub fn cpu_s(&self) -> f64 {
        self.sender.cpu_s + self.receiver.cpu_s + self.daemons_cpu_s + self.softirq_cpu_s
    }

    /// Delivered application bits per second of processor time.
    pub fn goodput_bits_per_cpu_s(&self) -> f64 {
        self.receiver.bytes as f64 * 8.0 / self.cpu_s()
    }
}

/// Runs one scheme once on its own link, so that its packets meet no other run's in a queue.
pub fn run(scheme: Scheme, conditions: &Conditions, dir: &Path) -> Result<Run> {
    let pair = Pair::new()?;
    if scheme.is_segmented() {
        // The sender's port segments GSO buffers, like a network card without offloads. The
        // receiver's port merges packets, as network cards' drivers do. A veth merges only if its
        // peer segments.
        pair.a.offload("tx-udp-segmentation off tso off")?;
        pair.b.offload("gro on")?;
    }
    let daemons = match scheme.queue_packets() {
        Some(packets) => Some(Daemons::start(conditions, &pair, dir, packets)?),
        None => None,
    };
    let control = |of: fn(&Daemons) -> &Daemon| match &daemons {
        Some(daemons) => vec!["--control".to_owned(), of(daemons).socket().display().to_string()],
        None => Vec::new(),
    };
    let clock = Clock::of(
        daemons.iter().flat_map(|both| [both.sender.process_id(), both.receiver.process_id()]),
    );
    let softirq = Clock::of_softirq_threads()?;
    let before = (clock.read_s()?, softirq.read_s()?);

    let (send, receive) = scheme.roles();
    let cpu = |of: fn((usize, usize)) -> usize| conditions.cpus.map(of);
    let mut args = vec!["--at".to_owned(), format!("{}:0", pair.b.ipv4)];
    args.extend((scheme == Scheme::RawUdpNap).then(|| "--nap".to_owned()));
    args.extend(control(|both| &both.receiver));
    let mut receiver = Worker::start(&pair.b, cpu(|(_, to)| to), receive, &args)?;
    let Ready { at } = receiver.line()?;

    let mut args = vec!["--to".to_owned(), at.to_string()];
    args.extend(sender_args(scheme, conditions));
    args.extend(control(|both| &both.sender));
    let mut sender = Worker::start(&pair.a, cpu(|(from, _)| from), send, &args)?;
    let (mut sender, mut receiver): (Tally, Tally) = (sender.line()?, receiver.line()?);
    if scheme == Scheme::RawUdpPacked {
        // The sink counts bytes of packets, but goodput is that of messages.
        let bytes = (short_messages(conditions) * SHORT_MESSAGE_BYTES) as u64;
        (sender.bytes, receiver.bytes) = (sender.packets * bytes, receiver.packets * bytes);
    }
    let run = Run {
        sender,
        receiver,
        daemons_cpu_s: clock.read_s()? - before.0,
        softirq_cpu_s: softirq.read_s()? - before.1,
    };
    daemons.map_or(Ok(()), Daemons::stop)?;
    Ok(run)
}

/// The short messages that share a packet.
fn short_messages(conditions: &Conditions) -> usize {
    conditions.payload_bytes as usize / (MEMBER_HEADER_LEN + SHORT_MESSAGE_BYTES)
}

fn sender_args(scheme: Scheme, conditions: &Conditions) -> Vec<String> {
    let payload_bytes = conditions.payload_bytes as usize;
    let bytes = match scheme {
        Scheme::RawUdp | Scheme::RawUdpNap => payload_bytes + HEADER_BYTES,
        Scheme::RawUdpPacked => {
            HEADER_BYTES + short_messages(conditions) * (MEMBER_HEADER_LEN + SHORT_MESSAGE_BYTES)
        }
        Scheme::LibraryShort | Scheme::LibraryShortUnpacked => SHORT_MESSAGE_BYTES,
        Scheme::Iperf3 | Scheme::Iperf3Segmented | Scheme::Tcp | Scheme::TcpSegmented => {
            TCP_WRITE_BYTES
        }
        Scheme::LibraryUserspace | Scheme::LibraryEbpf => payload_bytes,
        Scheme::LibraryBurst | Scheme::LibraryBurstSegmented => {
            payload_bytes * BURST_PACKETS as usize
        }
        _ => LONG_MESSAGE_BYTES,
    };
    let mut args = vec![format!("--bytes={bytes}"), format!("--seconds={}", conditions.seconds)];
    if scheme.roles().0 == "job-send" {
        args.push(format!("--payload={payload_bytes}"));
        args.extend((scheme == Scheme::LibraryShortUnpacked).then(|| "--unpacked".to_owned()));
        args.extend(scheme.shares_messages().then(|| "--shared".to_owned()));
        args.extend(conditions.buffer.map(|bytes| format!("--buffer={bytes}")));
        args.push(format!("--msr={}", conditions.msr));
        args.push(format!("--rate-max={}", conditions.rate_max_bytes_per_s));
    }
    args
}

/// The profile of a switch whose approximate queues hold `packets` packets each.
fn switch_profile(packets: u32) -> String {
    let mut profile =
        String::from("mtu_bytes = 1500\nport_buffer_bytes = 4_000_000\n[[queue]]\nnumber = 0\n");
    for queue in 1..=7 {
        let dscp = 4 * queue - 1;
        profile +=
            &format!("[[queue]]\nnumber = {queue}\ndscp = [{dscp}]\nlimit_mtus = {packets}\n");
    }
    profile
}

/// A daemon on each host.
struct Daemons {
    sender: Daemon,
    receiver: Daemon,
}

impl Daemons {
    fn start(conditions: &Conditions, pair: &Pair, dir: &Path, packets: u32) -> Result<Self> {
        let launch = conditions.daemon.as_ref().context("the daemon was not built")?;
        let profile = dir.join("profile.toml");
        std::fs::write(&profile, switch_profile(packets))?;
        let mut launch = launch.clone();
        launch.options.extend(["--rate-max".into(), conditions.rate_max.clone().into()]);
        launch.options.extend(["--profile".into(), profile.into()]);
        let start = |host: &Host| Daemon::start(host, &launch);
        Ok(Self { sender: start(&pair.a)?, receiver: start(&pair.b)? })
    }

    /// Asks the daemons to end, so that the benchmark also tests their shutdown.
    fn stop(self) -> Result<()> {
        self.sender.stop_by(Signal::SIGTERM)?;
        self.receiver.stop_by(Signal::SIGTERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch_profiles::Profile;

    #[test]
    fn switch_profile__is_one() {
        for packets in [1, QUEUE_PACKETS_DEEP] {
            let profile = Profile::parse(&switch_profile(packets), Path::new("made")).unwrap();
            assert!((1..=7).all(|queue| profile.path_depth_packets(queue) == packets));
        }
    }
}
