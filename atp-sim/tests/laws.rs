//! Compares ATP's control laws on a network with their equations.

use atp_common::laws::rate;
use atp_sim::{
    engine::{MS, US},
    experiment::{NetworkSpec, Point, Scheme, msr_from_fraction},
    net::{duration_ps, topology::Star},
    scheme::wire_bytes,
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// A port with a fraction of Rmax.
#[derive(Clone, Copy, Debug)]
struct Narrow {
    /// The inverse of the fraction.
    times: u64,
    /// The latency of each line.
    latency_ps: u64,
}

/// The round trip of a fabric, some microseconds.
const NEAR: Narrow = Narrow { times: 4, latency_ps: 100_000 };
/// Round trips of at least a hundred packets. Rounding to packets and the queue are negligible
/// there.
const FAR: [Narrow; 2] =
    [Narrow { times: 4, latency_ps: 25 * US }, Narrow { times: 16, latency_ps: 100 * US }];

impl Narrow {
    /// One endless sender to this port.
    fn lane(self, scheme: &str, msr: f64) -> Simulation {
        let msr = msr_from_fraction(msr).unwrap();
        let scheme: Scheme = scheme.parse().unwrap();
        let point = Point {
            scheme,
            msr,
            network_spec: NetworkSpec::Star(Star { hosts: 2 }),
            ..Point::default()
        };
        let mut topology = point.network_spec.topology(point.rate);
        let switch = &mut topology.switches[0];
        switch.links[0].bits_per_s /= self.times;
        for link in switch.links.iter_mut().chain(&mut topology.host_links) {
            link.latency_ps = link.latency_ps.max(self.latency_ps);
        }
        let mut simulation = Simulation::new(&topology, point.port_queues());
        let messages = Arrivals::at_once(1, &Sizes::Fixed(1_400), 500_000, 0);
        let new = NewFlow::new(1, 0, Box::new(messages), 500_000);
        simulation.add(new, |route| scheme.ends(route, &point.environment(), 500_000));
        simulation
    }

    /// The ratio of packets that arrive at the port to packets that it sends, in steady state.
    fn overdrive(self, scheme: &str, msr: f64) -> f64 {
        let mut simulation = self.lane(scheme, msr);
        // Begin after at least a hundred round trips.
        let begin_ps = (5 * MS).max(100 * 4 * self.latency_ps);
        simulation.run_on(begin_ps);
        let before = simulation.port(0, 0);
        simulation.run_on(3 * begin_ps);
        let after = simulation.port(0, 0);
        let seconds = 2.0 * begin_ps as f64 / 1e12;
        let bits = (after.sent_bytes - before.sent_bytes) as f64 * 8.0;
        let busy = bits / (40e9 / self.times as f64) / seconds;
        assert!(busy > 0.97, "{scheme}, {self:?}: the port is busy for {busy} of the time");
        let arrived = after.arrived_packets - before.arrived_packets;
        arrived as f64 / (after.sent_packets - before.sent_packets) as f64
    }

    /// The mean rate of the recurrence `next(rate, loss, delivered)`, relative to the port's rate,
    /// with Rmax = 1. Each decision uses the epoch before, because the ACKs of an epoch arrive by
    /// the end of the next one.
    fn cycle(self, mut next: impl FnMut(f64, f64, f64) -> f64) -> f64 {
        let carried = 1.0 / self.times as f64;
        let (mut now, mut sum) = (1.0f64, 0.0);
        let seen = |rate: f64| ((1.0 - carried / rate).max(0.0), rate.min(carried));
        let mut before = seen(now);
        for _ in 0..10_000 {
            let (loss, delivered) = core::mem::replace(&mut before, seen(now));
            now = next(now, loss, delivered);
            sum += now;
        }
        sum / 10_000.0 / carried
    }
}

const TARGETS: [f64; 5] = [0.05, 0.2, 0.35, 0.5, 0.7];

/// The rates by NetApprox §4.2, Eq. 2 and 3.
fn paper(tlr: f64) -> impl FnMut(f64, f64, f64) -> f64 {
    move |rate, loss, _| {
        if loss <= tlr { rate + step() * (1.0 - rate) } else { rate * (1.0 - loss / 2.0) }
    }
}

fn step() -> f64 {
    f64::from(rate::DEFAULT_STEP.q16()) / 65_536.0
}

/// Eq. 2 and 3 have no fixed point. The rate oscillates about the rate whose loss is the TLR: the
/// port's rate over `1 - TLR`.
#[test]
fn paper__oscillates_as_its_equations_do() {
    for tlr in TARGETS {
        let (overdrive, cycle) =
            (NEAR.overdrive("atp:rc:paper", 1.0 - tlr), NEAR.cycle(paper(tlr)));
        let ratio = overdrive / cycle;
        assert!((0.95..1.08).contains(&ratio), "TLR {tlr}: {overdrive}, by the equations {cycle}");
    }
}

/// `frugal` oscillates too. An increase ends at `1.25 / (1 - TLR)` of the delivered rate plus a
/// packet per epoch.
#[test]
fn frugal__oscillates_as_its_equations_do() {
    for narrow in FAR {
        for tlr in TARGETS {
            let mut as_paper = paper(tlr);
            let cycle = narrow.cycle(|rate, loss, delivered| {
                let next = as_paper(rate, loss, delivered);
                // A packet per round trip of four lines: 1,446 bytes as laws count them, of 5 GB/s.
                let packet = 1_446.0 / 5e9 / (4.0 * narrow.latency_ps as f64 / 1e12);
                let end = 1.25 * delivered / (1.0 - tlr) + packet;
                if next > rate { next.min(end).max(rate) } else { next }
            });
            let overdrive = narrow.overdrive("atp:rc:frugal", 1.0 - tlr);
            let ratio = overdrive / cycle;
            assert!(
                (0.92..1.06).contains(&ratio),
                "{narrow:?}, TLR {tlr}: {overdrive}, by the equations {cycle}"
            );
        }
    }
}

/// `pi` has a fixed point where its step is 0. With `T = 0.2 + 0.4 TLR` and a port of `c Rmax`:
///
/// ```text
/// (T - loss) / 4 + Rmax / (1024 R) = 0
/// loss = 1 - c Rmax / R
/// ```
///
/// The solution is:
///
/// ```text
/// R = (c + 1 / 256) Rmax / (1 - T)
/// ```
#[test]
fn pi__converges_to_its_fixed_point() {
    for narrow in FAR {
        for tlr in TARGETS {
            let fixed = (1.0 + narrow.times as f64 / 256.0) / (1.0 - (0.2 + 0.4 * tlr));
            let overdrive = narrow.overdrive("atp:rc:pi", 1.0 - tlr);
            let ratio = overdrive / fixed;
            assert!(
                (0.995..1.005).contains(&ratio),
                "{narrow:?}, TLR {tlr}: {overdrive}, not {fixed}"
            );
        }
    }
}

/// The packets per round trip of a TCP flow with a loss event every `interval` packets: RFC 5348
/// §3.1 with `b = 1` and `t_RTO = 4 R`.
fn tfrc_packets(interval: f64) -> f64 {
    let p = 1.0 / interval;
    let timeouts = 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    1.0 / ((2.0 * p / 3.0).sqrt() + timeouts)
}

/// `polite` (TFRC) fills the port, and has loss events as often as a TCP flow of the same rate, for
/// any TLR. All losses within a round trip are one loss event (RFC 5348 §5.2).
#[test]
fn polite__loses_as_often_as_its_equation_says() {
    for (times, latency_us) in [(4, 10), (16, 25), (16, 50)] {
        for tlr in [0.05, 0.5] {
            let narrow = Narrow { times, latency_ps: latency_us * US };
            // The round trip includes a packet's time at 40 Gbit/s and on the narrow port, and the
            // ACK's time on two lines.
            let round_trip_ps = 4 * narrow.latency_ps
                + (1 + times) * duration_ps(wire_bytes(1_460), 40_000_000_000)
                + 2 * duration_ps(wire_bytes(60), 40_000_000_000);
            let mut simulation = narrow.lane("atp:rc:polite", 1.0 - tlr);
            let (begin, end) = (200, 2_500);
            simulation.run_on(begin * round_trip_ps);
            let before = simulation.port(0, 0);
            let (mut dropped, mut events, mut ends) = (before.dropped_packets, 0, 0);
            for tenth in 10 * begin..10 * end {
                simulation.run_on(tenth * round_trip_ps / 10);
                let now = simulation.port(0, 0).dropped_packets;
                if now > dropped && tenth >= ends {
                    (events, ends) = (events + 1, tenth + 10);
                }
                dropped = now;
            }
            let came = (simulation.port(0, 0).arrived_packets - before.arrived_packets) as f64;
            let packets = came / (end - begin) as f64;
            let ratio = packets / tfrc_packets(came / f64::from(events));
            assert!(
                (0.82..1.08).contains(&ratio),
                "{narrow:?}, TLR {tlr}: {ratio}, {events} events"
            );
        }
    }
}

/// A host's daemon takes its law from the profile of its switches.
#[test]
fn run__in_one_queue_atp_has_the_profile_s_law() {
    let of = |scheme: &str| {
        let profile = Some(switch_profiles::Profile::one_queue());
        let network_spec = NetworkSpec::Star(Star { hosts: 4 });
        let scheme = scheme.parse().unwrap();
        let outcome = Point { scheme, profile, network_spec, ..Point::default() }.run();
        let times = outcome.jobs.iter().map(|job| job.completion_ps).collect::<Vec<_>>();
        (outcome.events, outcome.packets_dropped, times)
    };
    assert_eq!(of("atp"), of("atp:full:yield+advice+window"));
    assert_ne!(of("atp"), of("atp:paper+advice+window"));
}
