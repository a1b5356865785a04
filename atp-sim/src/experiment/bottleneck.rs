//! An ATP job of several senders through one port. `cargo xtask bench reality` runs the same job on
//! the kernel testbed.

use super::msr_from_fraction;
use crate::{
    engine::{NS, S, US},
    net::{
        ETHERNET_BYTES, FlowId, PortQueues, Unit,
        topology::{Lines, Star},
    },
    scheme::{
        Endpoint, LawChoice,
        atp::{AtpReceiver, AtpSender, AtpSettings, HostAdvice},
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};
use atp_common::units::{Msr, Rate};
use atp_proto::{GroupConfig, ReceiverConfig};
use serde::{Deserialize, Serialize};
use switch_profiles::{PortRole, Profile};

/// The description of a job. Each sender has all its messages at the start, and its own MSR's share
/// of them to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The number of hosts that send to one host.
    pub senders: u32,
    /// The rate of every line as Linux counts it: an IP packet and 14 bytes.
    pub rate_bytes_per_s: u64,
    /// The latency of each line in each direction, with that of the host or switch at its end.
    pub latency_ns: u64,
    /// The number of messages of each sender.
    pub messages: u32,
    /// The size of each message, a multiple of a full packet's payload.
    pub message_bytes: u32,
    /// The minimal sampling rate, above 0 and up to 1.
    pub msr: f64,
    /// Whether the port marks exact packets. Kernels without sch_red cannot.
    pub marks: bool,
    /// The shortest epoch.
    pub epoch_ns_min: u64,
    /// The maximal delay of a receipt.
    pub receipt_delay_ns: u64,
    /// The time between samples of the laws.
    pub sample_us: u64,
    /// The time between two computations of advice, nanoseconds; 0: no advice.
    pub advice_ns: u64,
    /// Packets with which a sender begins at once; 0: it begins at its rate.
    pub window_packets: u32,
    /// Whether the port has the paper's queues, not those of the default profile.
    pub paper_queues: bool,
}

/// The outcome of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BottleneckOutcome {
    /// The time until the last sender knew that the job was complete, seconds.
    pub completion_s: f64,
    /// Data packets sent.
    pub packets_sent: u64,
    /// The share of data packets that were dropped.
    pub dropped_share: f64,
    /// The target loss rate, the mean over senders and time.
    pub tlr: f64,
    /// The loss of the last evaluated epoch, the mean over senders and time.
    pub loss: f64,
    /// The rate of each sender, the mean over senders and time, bytes per second.
    pub rate_bytes_per_s: f64,
}

/// The bytes of a frame that Linux counts beyond the IP packet.
const LINUX_LINK_BYTES: u32 = 14;
/// The headers of an ATP packet: ATP, UDP and IP.
const HEADER_BYTES: u32 = 32 + 8 + 20;
/// The message bytes of a full packet.
const PAYLOAD_BYTES: u32 = 1_400;
const TIME_LIMIT_PS: u64 = 600 * S;
/// The time between checks for the end, which is the precision of completion times.
const CHECK_INTERVAL_PS: u64 = 100 * US;

/// Sums over samples of the laws.
#[derive(Default)]
struct Samples {
    count: f64,
    tlr: f64,
    loss: f64,
    rate: f64,
}

impl Bottleneck {
    /// Runs the job.
    ///
    /// # Panics
    /// If its MSR isn't above 0 and at most 1.
    pub fn run(&self) -> BottleneckOutcome {
        let (mut simulation, flows) = self.build();
        let mut samples = Samples::default();
        let has_ended =
            |simulation: &Simulation| flows.iter().all(|flow| simulation.sender(*flow).has_ended());
        let mut at_ps = 0;
        while !has_ended(&simulation) && at_ps < TIME_LIMIT_PS {
            at_ps += CHECK_INTERVAL_PS;
            simulation.run_on(at_ps);
            if at_ps % (self.sample_us * US) < CHECK_INTERVAL_PS {
                samples.add(flows.iter().map(|flow| simulation.sender(*flow)));
            }
        }
        // All data packets are full. Control packets are not counted.
        let probes = flows.iter().filter_map(|flow| simulation.sender(*flow).probe());
        let sent_bytes: u64 = probes.map(|probe| probe.sent_bytes).sum();
        let packets_sent = sent_bytes / u64::from(PAYLOAD_BYTES + HEADER_BYTES + LINUX_LINK_BYTES);
        let dropped: u64 = flows.iter().map(|flow| simulation.dropped(*flow)).sum();
        BottleneckOutcome {
            completion_s: at_ps as f64 / S as f64,
            packets_sent,
            dropped_share: dropped as f64 / packets_sent.max(1) as f64,
            tlr: samples.tlr / samples.count,
            loss: samples.loss / samples.count,
            rate_bytes_per_s: samples.rate / samples.count,
        }
    }

    fn build(&self) -> (Simulation, Vec<FlowId>) {
        let profile = if self.paper_queues { Profile::paper() } else { Profile::default() };
        // Scale the rate so that a full packet takes as long as with Linux's accounting.
        let ip_bytes = u64::from(PAYLOAD_BYTES + HEADER_BYTES);
        let bits_per_s = self.rate_bytes_per_s * 8 * (ip_bytes + u64::from(ETHERNET_BYTES))
            / (ip_bytes + u64::from(LINUX_LINK_BYTES));
        let lines = Lines {
            host_bits_per_s: bits_per_s,
            switch_bits_per_s: bits_per_s,
            propagation_ps: self.latency_ns * NS,
            switching_ps: 0,
        };
        let topology = Star { hosts: self.senders + 1 }.topology(&lines);
        // Give the switch the buffer of queue 0, because only one port is ever full.
        let exact_packets = profile.depth_packets(0, PortRole::ToHost);
        let packet_bytes = u64::from(profile.mtu_bytes() + ETHERNET_BYTES);
        let buffer_bytes = u64::from(exact_packets) * packet_bytes;
        let queues = PortQueues::of_profile(&profile, Unit::Packets, buffer_bytes);
        let queues = if self.marks { queues } else { queues.without_marks() };
        let mut simulation = Simulation::new(&topology, queues);
        let msr = msr_from_fraction(self.msr).expect("an MSR");
        let receiver =
            ReceiverConfig { receipt_delay_ns: self.receipt_delay_ns, ..Default::default() };
        let depth_packets = profile.advised_depth_packets();
        let advice = HostAdvice::new(self.advice_ns, depth_packets);
        let advice = (self.advice_ns > 0).then_some(advice);
        let flows = (1..=self.senders).map(|source| {
            let sizes = Sizes::Fixed(self.message_bytes);
            let messages = Arrivals::at_once(1, &sizes, self.messages, 0);
            let new = NewFlow::new(source, 0, Box::new(messages), msr.needed(self.messages));
            simulation.add(new, |route| {
                let settings = self.settings(&profile, msr, route.flow);
                (
                    Box::new(AtpSender::new(route, settings, 0)),
                    Box::new(AtpReceiver::new(route, receiver, advice)),
                )
            })
        });
        let flows = flows.collect();
        (simulation, flows)
    }

    fn settings(&self, profile: &Profile, msr: Msr, flow: FlowId) -> AtpSettings {
        let group = GroupConfig { total: Some(self.messages), ..GroupConfig::new(0, msr) };
        let rate_max = Rate::from_bytes_per_s(self.rate_bytes_per_s);
        let settings = AtpSettings::new(LawChoice::PAPER, flow, group, rate_max, profile);
        let mut settings = AtpSettings { epoch_ns_min: self.epoch_ns_min, ..settings };
        settings.config.initial_window_packets = self.window_packets;
        settings
    }
}

impl Samples {
    fn add<'a>(&mut self, senders: impl Iterator<Item = &'a dyn Endpoint>) {
        let share = |q16: u32| f64::from(q16) / 65_536.0;
        for probe in senders.filter(|sender| !sender.has_ended()).filter_map(Endpoint::probe) {
            self.count += 1.0;
            self.tlr += share(probe.tlr.q16());
            self.loss += share(probe.loss.q16());
            self.rate += probe.rate.bytes_per_s() as f64;
        }
    }
}
