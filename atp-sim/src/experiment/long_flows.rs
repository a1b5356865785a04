//! Long DCTCP flows through one port: small enough that another simulator can be set up for the same
//! (`cargo xtask bench ns3`).

use crate::{
    engine::{NS, US},
    net::{
        PortQueues,
        topology::{Lines, Star},
    },
    scheme::dctcp::{DctcpReceiver, DctcpSender, DctcpSettings},
    simulation::{NewFlow, Simulation},
};
use serde::{Deserialize, Serialize};

/// A star whose host 0 receives from all others, each of which always has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongFlows {
    /// Hosts that send, a flow each.
    pub senders: u32,
    /// Every line's rate.
    pub gbit_per_s: u32,
    /// Of each line in each direction: with what the switch takes.
    pub latency_ns: u64,
    /// The switch marks a packet that finds so many waiting.
    pub mark_from_packets: u32,
    /// The least retransmission timeout.
    pub timeout_us_min: u64,
    /// What isn't measured: flows begin at once with their first windows.
    pub warm_up_us: u64,
    /// What is.
    pub measure_us: u64,
}

/// What was measured, in the time for it unless it is said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongFlowsOutcome {
    /// By flow: bytes of its stream that its receiver's application got.
    pub delivered_bytes: Vec<u64>,
    /// Packets that waited for the line to host 0, on the average over time; the one on the line isn't
    /// counted.
    pub queue_mean_packets: f64,
    /// Packets that this port marked.
    pub marked_packets: u64,
    /// Packets that it dropped.
    pub dropped_packets: u64,
    /// Packets that the switch forwarded by any port, warm-up included.
    pub forwarded_packets: u64,
    /// Events, warm-up included.
    pub events: u64,
}

/// A segment.
const MESSAGE_BYTES: u32 = 1_448;
const BUFFER_BYTES: u64 = 1_500_000;

impl LongFlows {
    /// Runs it.
    pub fn run(&self) -> LongFlowsOutcome {
        let (mut simulation, flows) = self.build();
        let delivered = |simulation: &Simulation| -> Vec<u64> {
            let progress = flows.iter().map(|flow| simulation.progress(*flow));
            progress.map(|flow| u64::from(flow.delivered) * u64::from(MESSAGE_BYTES)).collect()
        };
        simulation.run_on(self.warm_up_us * US);
        let (before, delivered_before) = (simulation.port(0, 0), delivered(&simulation));
        simulation.run_on(self.end_ps());
        let (after, delivered_after) = (simulation.port(0, 0), delivered(&simulation));
        let waited_packet_ps = after.waiting_packet_ps - before.waiting_packet_ps;
        LongFlowsOutcome {
            delivered_bytes: (delivered_after.into_iter().zip(delivered_before))
                .map(|(now, was)| now - was)
                .collect(),
            queue_mean_packets: waited_packet_ps as f64 / (self.measure_us * US) as f64,
            marked_packets: after.marked_packets - before.marked_packets,
            dropped_packets: after.dropped_packets - before.dropped_packets,
            forwarded_packets: simulation.ports().map(|port| port.sent_packets).sum(),
            events: simulation.events(),
        }
    }

    fn build(&self) -> (Simulation, Vec<u32>) {
        let lines = Lines {
            host_bits_per_s: self.bits_per_s(),
            switch_bits_per_s: self.bits_per_s(),
            propagation_ps: self.latency_ns * NS,
            switching_ps: 0,
        };
        let topology = Star { hosts: self.senders + 1 }.topology(&lines);
        let queues = PortQueues::single(self.mark_from_packets, BUFFER_BYTES);
        let mut simulation = Simulation::new(&topology, queues);
        let settings =
            DctcpSettings { timeout_ps_min: self.timeout_us_min * US, ..DctcpSettings::default() };
        let messages = self.more_than_the_line_carries();
        let flows = (1..=self.senders).map(|source| {
            let stream = (0..messages).map(|_| (0, MESSAGE_BYTES));
            let new = NewFlow::new(source, 0, Box::new(stream), messages);
            simulation.add(new, |route| {
                (Box::new(DctcpSender::new(route, settings)), Box::new(DctcpReceiver::new(route)))
            })
        });
        let flows = flows.collect();
        (simulation, flows)
    }

    fn more_than_the_line_carries(&self) -> u32 {
        let bits = u128::from(self.end_ps()) * u128::from(self.bits_per_s()) / 1_000_000_000_000;
        (bits / 8 / u128::from(MESSAGE_BYTES)) as u32 + 1
    }

    fn bits_per_s(&self) -> u64 {
        u64::from(self.gbit_per_s) * 1_000_000_000
    }

    fn end_ps(&self) -> u64 {
        (self.warm_up_us + self.measure_us) * US
    }
}
