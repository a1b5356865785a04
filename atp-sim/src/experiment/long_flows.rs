//! Long DCTCP flows through one port. `cargo xtask bench ns3` runs the same scenario in ns-3.

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

/// A star whose host 0 receives from all other hosts, which always have data to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongFlows {
    /// The number of senders, with one flow each.
    pub senders: u32,
    /// The rate of every line.
    pub gbit_per_s: u32,
    /// The latency of each line in each direction, switch latency included.
    pub latency_ns: u64,
    /// The switch marks a packet if at least this many packets wait.
    pub mark_from_packets: u32,
    /// The minimal retransmission timeout.
    pub timeout_us_min: u64,
    /// The time before the measurement, because all flows begin at once in slow start.
    pub warm_up_us: u64,
    /// The duration of the measurement.
    pub measure_us: u64,
}

/// The results of the measurement. Fields that include the warm-up say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongFlowsOutcome {
    /// By flow: stream bytes delivered to the receiving application.
    pub delivered_bytes: Vec<u64>,
    /// The mean number of packets that waited for the line to host 0, without the packet on the
    /// line.
    pub queue_mean_packets: f64,
    /// Packets that this port marked.
    pub marked_packets: u64,
    /// Packets that this port dropped.
    pub dropped_packets: u64,
    /// Packets that the switch forwarded through any port, warm-up included.
    pub forwarded_packets: u64,
    /// Simulated events, warm-up included.
    pub events: u64,
}

/// A message fills one segment.
const MESSAGE_BYTES: u32 = 1_448;
const BUFFER_BYTES: u64 = 1_500_000;

impl LongFlows {
    /// Runs the scenario.
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
