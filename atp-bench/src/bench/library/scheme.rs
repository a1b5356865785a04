//! What is compared, and one run of it.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use testbed::{Daemon, Host, Launch, Pair, Signal};

use super::cpu::Clock;
use super::process::Worker;
use super::worker::{Ready, Tally};

/// Bytes of a long message.
const LONG_MESSAGE_BYTES: usize = 64 << 10;
/// Packets of a message that leaves as one superpacket.
const BURST_PACKETS: u32 = atp_common::laws::burst::PACKETS_MAX;
/// Deep enough for it.
const QUEUE_PACKETS_DEEP: u32 = 2 * BURST_PACKETS;
/// Bytes of one write of the TCP sender.
const TCP_WRITE_BYTES: usize = 128 << 10;
/// The ATP header: raw UDP carries it as payload, so that both send packets of one size.
const HEADER_BYTES: usize = atp_common::wire::HEADER_LEN;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scheme {
    /// `sendmmsg` of 64 packets, and a sink that waits in `recvmmsg`
    RawUdp,
    /// The same with a sink that never waits for a packet: the sender's processor wakes nobody,
    /// which is the most that it can send
    RawUdpNap,
    /// iperf3: one stream with CUBIC, writes of 128 KiB
    Iperf3,
    /// The same, cut into packets at the sender's port and merged at the receiver's
    Iperf3Segmented,
    /// One stream with CUBIC, writes of 128 KiB, by this program
    Tcp,
    /// The same, cut into packets at the sender's port and merged at the receiver's
    TcpSegmented,
    /// One packet a message, acknowledged and paced by the library itself
    LibraryUserspace,
    /// One packet a message, over the eBPF datapath
    LibraryEbpf,
    /// Messages of 64 KiB, acknowledged and paced by the library itself
    LibraryUserspace64k,
    /// Messages of 64 KiB, over the eBPF datapath
    LibraryEbpf64k,
    /// Messages of 44 packets, not copied, each a superpacket, over the eBPF datapath, as where queues
    /// are deep
    LibraryBurst,
    /// The same, cut into packets at the sender's port and merged at the receiver's
    LibraryBurstSegmented,
}

impl Scheme {
    /// As the command line has it.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// As the table and JSON have it.
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

    /// What the daemons are told of the switches: how many packets an approximate queue holds. One
    /// takes no bursts.
    const fn queue_packets(self) -> Option<u32> {
        match self {
            Self::LibraryEbpf | Self::LibraryEbpf64k => Some(1),
            Self::LibraryBurst | Self::LibraryBurstSegmented => Some(QUEUE_PACKETS_DEEP),
            _ => None,
        }
    }

    /// Whether the application hands over the same memory again and again, as TCP's sender does.
    const fn shares_messages(self) -> bool {
        matches!(self, Self::LibraryBurst | Self::LibraryBurstSegmented)
    }

    /// Whether the sender's port takes packets only: what was made as one is cut up there, and merged
    /// again at the receiver's.
    const fn is_segmented(self) -> bool {
        matches!(self, Self::Iperf3Segmented | Self::TcpSegmented | Self::LibraryBurstSegmented)
    }

    fn roles(self) -> (&'static str, &'static str) {
        match self {
            Self::RawUdp | Self::RawUdpNap => ("udp-send", "udp-receive"),
            Self::Iperf3 | Self::Iperf3Segmented => ("iperf3-send", "iperf3-receive"),
            Self::Tcp | Self::TcpSegmented => ("tcp-send", "tcp-receive"),
            _ => ("job-send", "job-receive"),
        }
    }
}

/// How every run is made.
#[derive(Clone, Debug)]
pub struct Conditions {
    pub seconds: f64,
    pub payload_bytes: u32,
    pub msr: f64,
    /// How much the library may hold; its default without.
    pub buffer: Option<u64>,
    /// The lanes' highest rate, as the daemon's option has it, and in bytes per second.
    pub rate_max: String,
    pub rate_max_bytes_per_s: u64,
    /// The daemon's program, if a scheme needs it.
    pub daemon: Option<Launch>,
    /// Where the sender's process stays, and the receiver's.
    pub cpus: Option<(usize, usize)>,
}

/// What one run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub sender: Tally,
    pub receiver: Tally,
    /// Processor time of both daemons.
    pub daemons_cpu_s: f64,
    /// Processor time of ksoftirqd, whoever it worked for.
    pub softirq_cpu_s: f64,
}

impl Run {
    /// Packets that the receiver counted, per second; `None` where it can't see packets.
    pub fn packets_per_s(&self) -> Option<f64> {
        let packets = self.receiver.packets;
        (packets > 0).then(|| packets as f64 / self.active_s())
    }

    /// The longer of both views: a receiver that the scheduler kept waiting finds everything at once.
    fn active_s(&self) -> f64 {
        self.receiver.active_s.max(self.sender.active_s)
    }

    /// Packets that the sender got rid of, per second.
    pub fn offered_packets_per_s(&self) -> Option<f64> {
        let Tally { packets, active_s, .. } = self.sender;
        (packets > 0).then(|| packets as f64 / active_s)
    }

    /// Application bits that arrived, per second.
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.receiver.bytes as f64 * 8.0 / self.active_s()
    }

    /// Packets that the receiver counted, for a second of the sender's processor time.
    pub fn packets_per_sender_cpu_s(&self) -> Option<f64> {
        let packets = self.receiver.packets;
        (packets > 0).then(|| packets as f64 / self.sender.cpu_s)
    }

    /// All that is counted: sender, receiver, daemons, ksoftirqd.
    pub fn cpu_s(&self) -> f64 {
        self.sender.cpu_s + self.receiver.cpu_s + self.daemons_cpu_s + self.softirq_cpu_s
    }

    /// Application bits for a second of processor time.
    pub fn goodput_bits_per_cpu_s(&self) -> f64 {
        self.receiver.bytes as f64 * 8.0 / self.cpu_s()
    }
}

/// Runs one scheme once. The link is made for it and goes with it, so no run sees what another
/// left in a queue.
pub fn run(scheme: Scheme, conditions: &Conditions, dir: &Path) -> Result<Run> {
    let pair = Pair::new()?;
    if scheme.is_segmented() {
        // The sender's port segments GSO buffers, as a network card without offloads would. The
        // receiver merges packets, as network cards' drivers do; a veth does so only if its peer
        // segments.
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
    let (sender, receiver) = (sender.line()?, receiver.line()?);
    let run = Run {
        sender,
        receiver,
        daemons_cpu_s: clock.read_s()? - before.0,
        softirq_cpu_s: softirq.read_s()? - before.1,
    };
    daemons.map_or(Ok(()), Daemons::stop)?;
    Ok(run)
}

fn sender_args(scheme: Scheme, conditions: &Conditions) -> Vec<String> {
    let payload_bytes = conditions.payload_bytes as usize;
    let bytes = match scheme {
        Scheme::RawUdp | Scheme::RawUdpNap => payload_bytes + HEADER_BYTES,
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
        args.extend(scheme.shares_messages().then(|| "--shared".to_owned()));
        args.extend(conditions.buffer.map(|bytes| format!("--buffer={bytes}")));
        args.push(format!("--msr={}", conditions.msr));
        args.push(format!("--rate-max={}", conditions.rate_max_bytes_per_s));
    }
    args
}

/// A switch whose approximate queues hold so many packets each.
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

    /// Asks them to end, so that a benchmark also shows whether they can.
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
            assert!((1..=7).all(|queue| profile.depth_packets(queue) == packets));
        }
    }
}
