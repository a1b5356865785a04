//! An ATP job of some senders through one port, as `cargo xtask bench reality` runs it on the kernel's
//! testbed as well.

use super::msr_of_share;
use crate::{
    engine::{NS, S, US},
    net::{
        ETHERNET_BYTES, FlowId, PortQueues, Queueing, Unit,
        topology::{Lines, Star},
    },
    scheme::{
        Endpoint, LawChoice,
        atp::{AtpReceiver, AtpSender, AtpSettings},
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};
use atp_common::units::{Msr, Rate};
use atp_proto::{GroupConfig, ReceiverConfig};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use switch_profiles::Profile;

/// A job: each sender has its messages from the start, and guarantees the MSR of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Hosts that send to one.
    pub senders: u32,
    /// Every line's rate as Linux shapes it: an IP packet and 14 bytes.
    pub rate_bytes_per_s: u64,
    /// Of each line in each direction, with what host or switch take at its end.
    pub latency_ns: u64,
    /// Of each sender.
    pub messages: u32,
    /// Of each message: as many as fill packets.
    pub message_bytes: u32,
    /// 0 to 1.
    pub msr: f64,
    /// The port marks exact packets; kernels without sch_red can't.
    pub marks: bool,
    /// The shortest epoch.
    pub epoch_ns_min: u64,
    /// How long a receipt may wait for more to tell.
    pub receipt_delay_ns: u64,
    /// How often the laws are looked at.
    pub sample_us: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BottleneckOutcome {
    /// From the start until the last sender knew that its job has what it needs, seconds.
    pub completion_s: f64,
    /// Packets of data that senders put on their lines.
    pub packets_sent: u64,
    /// Of them, dropped.
    pub dropped_share: f64,
    /// The target loss rate, on the average over senders and time.
    pub tlr: f64,
    /// The loss of the last epoch that was evaluated, averaged like that.
    pub loss: f64,
    /// The rate of each sender, averaged like that, bytes per second.
    pub rate_bytes_per_s: f64,
}

/// What Linux counts of a frame beyond the IP packet.
const LINUX_LINK_BYTES: u32 = 14;
/// Headers of an ATP packet: ATP's, UDP's, IP's.
const HEADER_BYTES: u32 = 32 + 8 + 20;
/// Message bytes of a full one.
const PAYLOAD_BYTES: u32 = 1_400;
const PATIENCE_PS: u64 = 600 * S;
/// How often it is looked whether senders have ended: what completion times are exact to.
const LOOK_PS: u64 = 100 * US;

/// Sums of what the laws were seen to say.
#[derive(Default)]
struct Seen {
    count: f64,
    tlr: f64,
    loss: f64,
    rate: f64,
}

impl Bottleneck {
    /// Runs it.
    ///
    /// # Panics
    /// If its MSR isn't above 0 and at most 1.
    pub fn run(&self) -> BottleneckOutcome {
        let (mut simulation, flows) = self.build();
        let mut seen = Seen::default();
        let has_ended =
            |simulation: &Simulation| flows.iter().all(|flow| simulation.sender(*flow).has_ended());
        let mut at_ps = 0;
        while !has_ended(&simulation) && at_ps < PATIENCE_PS {
            at_ps += LOOK_PS;
            simulation.run_on(at_ps);
            if at_ps % (self.sample_us * US) < LOOK_PS {
                seen.look(flows.iter().map(|flow| simulation.sender(*flow)));
            }
        }
        // Control packets aren't counted; the others are full.
        let probes = flows.iter().filter_map(|flow| simulation.sender(*flow).probe());
        let sent_bytes: u64 = probes.map(|probe| probe.sent_bytes).sum();
        let packets_sent = sent_bytes / u64::from(PAYLOAD_BYTES + HEADER_BYTES + LINUX_LINK_BYTES);
        let dropped: u64 = flows.iter().map(|flow| simulation.dropped(*flow)).sum();
        BottleneckOutcome {
            completion_s: at_ps as f64 / S as f64,
            packets_sent,
            dropped_share: dropped as f64 / packets_sent.max(1) as f64,
            tlr: seen.tlr / seen.count,
            loss: seen.loss / seen.count,
            rate_bytes_per_s: seen.rate / seen.count,
        }
    }

    fn build(&self) -> (Simulation, Vec<FlowId>) {
        let profile = Profile::default();
        // A full packet takes as long as it does where only some of its frame counts.
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
        // The buffer is what queue 0 may hold: only one port is ever full, and little else waits there.
        let exact_packets = profile.queues().first().map_or(0, |queue| queue.limit_packets);
        let packet_bytes = u64::from(profile.mtu_bytes() + ETHERNET_BYTES);
        let buffer_bytes = u64::from(exact_packets) * packet_bytes;
        let mut queues = PortQueues::of_profile(&profile, Unit::Packets, buffer_bytes);
        if let (false, Queueing::Priority(limits)) = (self.marks, &mut queues.queueing) {
            Rc::make_mut(limits).limits[0].mark_from = u32::MAX;
        }
        let mut simulation = Simulation::new(&topology, queues);
        let msr = msr_of_share(self.msr).expect("an MSR");
        let receiver =
            ReceiverConfig { receipt_delay_ns: self.receipt_delay_ns, ..Default::default() };
        let flows = (1..=self.senders).map(|source| {
            let sizes = Sizes::Fixed(self.message_bytes);
            let messages = Arrivals::at_once(1, &sizes, self.messages, 0);
            let new = NewFlow::new(source, 0, Box::new(messages), msr.needed(self.messages));
            simulation.add(new, |route| {
                let settings = self.settings(&profile, msr, route.flow);
                (
                    Box::new(AtpSender::new(route, settings, 0)),
                    Box::new(AtpReceiver::new(route, receiver)),
                )
            })
        });
        let flows = flows.collect();
        (simulation, flows)
    }

    fn settings(&self, profile: &Profile, msr: Msr, flow: FlowId) -> AtpSettings {
        let group = GroupConfig { total: Some(self.messages), ..GroupConfig::new(0, msr) };
        let rate_max = Rate::from_bytes_per_s(self.rate_bytes_per_s);
        let settings = AtpSettings::new(LawChoice::default(), flow, group, rate_max, profile);
        AtpSettings { epoch_ns_min: self.epoch_ns_min, ..settings }
    }
}

impl Seen {
    fn look<'a>(&mut self, senders: impl Iterator<Item = &'a dyn Endpoint>) {
        let share = |q16: u32| f64::from(q16) / 65_536.0;
        for probe in senders.filter(|sender| !sender.has_ended()).filter_map(Endpoint::probe) {
            self.count += 1.0;
            self.tlr += share(probe.tlr.q16());
            self.loss += share(probe.loss.q16());
            self.rate += probe.rate.bytes_per_s() as f64;
        }
    }
}
