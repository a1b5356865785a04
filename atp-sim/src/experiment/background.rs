//! A point's background traffic on its network.

use super::Point;
use crate::{
    engine::S,
    net::{FlowId, HostId, duration_ps},
    scheme::{background::BackgroundSender, udp::UdpReceiver, wire_bytes},
    simulation::{NewFlow, Simulation},
    workload::{Background, Between, PAYLOAD_BYTES},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;

/// Adds the flows. Nobody needs what they carry.
///
/// # Panics
/// If a share is 0 or less, a queue is above 7, or a pair is of one host.
pub(super) fn add(point: &Point, simulation: &mut Simulation) -> Vec<FlowId> {
    // Chances of its own: jobs are the same with it and without.
    let mut rng = ChaCha8Rng::seed_from_u64(point.seed ^ 0xbac6);
    let mut flows = Vec::new();
    for background in &point.background {
        for (source, destination) in background.pairs(point.place.hosts() as u32, &mut rng) {
            let gap_ps = gap_ps(point, background);
            let phase_ps = rng.random_range(0..gap_ps);
            let messages = Box::new(background.packets(gap_ps, phase_ps));
            let dscp = |queue| point.profile.dscp_of_queue(queue);
            let intervals = background.intervals.iter();
            let dscps =
                intervals.map(|interval| (interval.from_ps, dscp(interval.queue))).collect();
            flows.push(simulation.add(
                NewFlow {
                    sprayed: point.sprayed,
                    ..NewFlow::new(source, destination, messages, 0)
                },
                |route| {
                    (Box::new(BackgroundSender::new(route, dscps)), Box::<UdpReceiver>::default())
                },
            ));
        }
    }
    flows
}

/// From packet to packet.
fn gap_ps(point: &Point, background: &Background) -> u64 {
    assert!(background.share > 0.0, "a share of {}", background.share);
    let packet_ps = duration_ps(wire_bytes(PAYLOAD_BYTES + HEADER_BYTES), point.rate.bits_per_s());
    ((packet_ps as f64 / background.share) as u64).clamp(1, S)
}

impl Background {
    fn pairs(&self, hosts: HostId, rng: &mut ChaCha8Rng) -> Vec<(HostId, HostId)> {
        match &self.between {
            Between::Pairs(pairs) => pairs.clone(),
            Between::Drawn(number) => (0..*number)
                .map(|_| {
                    let source = rng.random_range(0..hosts);
                    (source, (source + rng.random_range(1..hosts)) % hosts)
                })
                .collect(),
        }
    }
}
