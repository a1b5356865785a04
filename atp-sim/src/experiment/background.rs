//! Adds a point's background traffic to its network.

use super::Point;
use crate::{
    engine::S,
    net::{FlowId, HostId, duration_ps},
    scheme::{
        background::{BackgroundSender, Schedule},
        udp::{self, UdpReceiver},
        wire_bytes,
    },
    simulation::{NewFlow, Simulation},
    workload::{Background, Between},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// IP and UDP headers.
const HEADER_BYTES: u32 = 28;

/// The background traffic of a simulation.
pub(super) struct Added {
    pub(super) flows: Vec<FlowId>,
    /// The schedule of each kind of background traffic.
    pub(super) schedules: Vec<Schedule>,
}

/// Adds the flows of background traffic. No job waits for them.
///
/// # Panics
/// If a share is 0 or less, a queue is above 7, or a pair has one host twice.
pub(super) fn add(point: &Point, simulation: &mut Simulation) -> Added {
    // A separate generator keeps the jobs the same with and without background traffic.
    let mut rng = ChaCha8Rng::seed_from_u64(point.seed ^ 0xbac6);
    let mut flows = Vec::new();
    let mut schedules = Vec::new();
    for background in &point.background {
        let dscp = |queue| point.profile().dscp_of_queue(queue);
        let intervals = background.intervals.iter();
        let schedule = Schedule::new(
            intervals.map(|interval| (interval.from_ps, dscp(interval.queue))).collect(),
        );
        schedules.push(schedule.clone());
        for (source, destination) in background.pairs(point.network_spec.hosts() as u32, &mut rng) {
            let gap_ps = gap_ps(point, background);
            let phase_ps = rng.random_range(0..gap_ps);
            let messages = Box::new(background.packets(gap_ps, phase_ps));
            flows.push(simulation.add(
                NewFlow {
                    sprayed: point.load_balancing.sprays(udp::SPEC.sprays),
                    path_seed: point.seed,
                    ..NewFlow::new(source, destination, messages, 0)
                },
                |route| {
                    let sender = BackgroundSender::new(route, schedule.clone());
                    (Box::new(sender), Box::<UdpReceiver>::default())
                },
            ));
        }
    }
    Added { flows, schedules }
}

/// The time between two packets of a flow.
fn gap_ps(point: &Point, background: &Background) -> u64 {
    assert!(background.share > 0.0, "a share of {}", background.share);
    let packet_ps =
        duration_ps(wire_bytes(background.payload_bytes + HEADER_BYTES), point.rate.bits_per_s());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::US,
        experiment::NetworkSpec,
        net::topology::Star,
        workload::{Interval, PAYLOAD_BYTES_MAX},
    };
    use switch_profiles::Profile;

    fn kind(source: HostId, share: f64, intervals: &[(u64, u64, u8)]) -> Background {
        let interval = |&(from, until, queue): &(u64, u64, u8)| Interval {
            from_ps: from * US,
            until_ps: until * US,
            queue,
        };
        Background {
            between: Between::Pairs(vec![(source, 0)]),
            share,
            payload_bytes: PAYLOAD_BYTES_MAX,
            intervals: intervals.iter().map(interval).collect(),
        }
    }

    fn simulation(background: Vec<Background>) -> (Simulation, Vec<FlowId>) {
        let network_spec = NetworkSpec::Star(Star { hosts: 4 });
        let profile = Some(Profile::paper());
        let point = Point { network_spec, background, profile, ..Point::default() };
        let mut simulation =
            Simulation::new(&network_spec.topology(point.rate), point.port_queues());
        let flows = add(&point, &mut simulation).flows;
        (simulation, flows)
    }

    /// Background traffic uses its share of the line in its intervals, and nothing outside them.
    #[test]
    fn add__uses_its_share_in_its_intervals() {
        for share in [0.01, 0.3, 0.5, 1.0] {
            let (mut simulation, _) =
                simulation(vec![kind(1, share, &[(0, 400, 4), (600, 800, 2)])]);
            let mut sent_before = 0;
            // The last packet of an interval arrives up to 3 us later.
            for (until_us, lasts_us) in [(403, 400.0), (600, 0.0), (803, 200.0), (1_000, 0.0)] {
                simulation.run_on(until_us * US);
                let sent_bytes = simulation.port(0, 0).sent_bytes;
                let expected = share * lasts_us * 5_000.0;
                let got = (sent_bytes - sent_before) as f64;
                assert!((got - expected).abs() <= 1_538.0, "{share}: {got} of {expected} bytes");
                sent_before = sent_bytes;
            }
            assert_eq!(simulation.packets_in_flight(), 0);
        }
    }

    /// Two flows together exceed the line, and the flow in the lower queue loses packets. When they
    /// swap queues, the other flow loses packets.
    #[test]
    fn add__sets_the_dscp_of_the_present_queue() {
        let (mut simulation, flows) = simulation(vec![
            kind(1, 0.8, &[(0, 200, 4), (200, 400, 3)]),
            kind(2, 0.8, &[(0, 200, 3), (200, 400, 4)]),
        ]);
        let mut before = [0, 0];
        for (until_us, loses) in [(200, 0), (400, 1)] {
            simulation.run_on(until_us * US);
            let dropped = [0, 1].map(|at| simulation.dropped(flows[at]));
            let now = [dropped[0] - before[0], dropped[1] - before[1]];
            // 0.6 of a line for 200 us, in packets of 1,538 bytes.
            assert!((now[loses] as f64 / 390.0 - 1.0).abs() < 0.05, "{now:?} at {until_us} us");
            assert!(now[1 - loses] <= 2, "{now:?} at {until_us} us");
            before = dropped;
        }
    }
}
