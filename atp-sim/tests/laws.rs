//! ATP's control laws on a network, against what they come to on paper.

use atp_common::{laws::rate, units::Msr};
use atp_sim::{
    engine::MS,
    experiment::{Place, Point, Scheme},
    net::topology::{LeafSpine, Star},
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

/// A sender without an end, 40 Gbit/s, to a port of 10 Gbit/s: packets that came to the port for each
/// that it sent, over the last 20 of 25 ms.
fn overdrive(scheme: &str, msr: f64) -> f64 {
    let msr = Msr::from_parts_per_billion((msr * 1e9) as u32).unwrap();
    let scheme: Scheme = scheme.parse().unwrap();
    let point = Point { scheme, msr, place: Place::Star(Star { hosts: 2 }), ..Point::default() };
    let mut topology = point.place.topology(point.rate);
    topology.switches[0].links[0].bits_per_s /= 4;
    let mut simulation = Simulation::new(&topology, point.port_queues());
    let messages = Arrivals::at_once(1, &Sizes::Fixed(1_400), 500_000, 0);
    let new = NewFlow::new(1, 0, Box::new(messages), 500_000);
    simulation.add(new, |route| scheme.ends(route, &point, 500_000));
    simulation.run_on(5 * MS);
    let before = simulation.port(0, 0);
    simulation.run_on(25 * MS);
    let after = simulation.port(0, 0);
    let busy = (after.sent_bytes - before.sent_bytes) as f64 * 8.0 / 10e9 / 20e-3;
    assert!(busy > 0.99, "the port is busy for {busy} of the time");
    let arrived = after.arrived_packets - before.arrived_packets;
    arrived as f64 / (after.sent_packets - before.sent_packets) as f64
}

/// NetApprox §4.2, Eq. 2 and 3 come to rest nowhere: with a port that carries `1 / 4` of Rmax they go up
/// and down about the rate whose loss is TLR, `1 / (4 (1 - TLR))` of Rmax. The mean of the equations'
/// own cycle, where each decision is about the epoch before: its ACKs are back when the next one ends.
fn cycle(tlr: f64) -> f64 {
    let step = f64::from(rate::DEFAULT_STEP.q16()) / 65_536.0;
    let (mut now, mut loss, mut sum) = (1.0f64, 0.75, 0.0);
    for _ in 0..10_000 {
        let before = core::mem::replace(&mut loss, (1.0 - 0.25 / now).max(0.0));
        now = if before <= tlr { now + step * (1.0 - now) } else { now * (1.0 - before / 2.0) };
        sum += now;
    }
    sum / 10_000.0 / 0.25
}

#[test]
fn paper__goes_up_and_down_as_its_equations_do() {
    for tlr in [0.05, 0.2, 0.35, 0.5, 0.7] {
        let (overdrive, cycle) = (overdrive("atp:rc:paper", 1.0 - tlr), cycle(tlr));
        let ratio = overdrive / cycle;
        assert!((0.95..1.08).contains(&ratio), "TLR {tlr}: {overdrive}, on paper {cycle}");
    }
}

/// A fabric of 32 hosts, each with a job to another one: the mean completion time, microseconds.
fn completion_us(scheme: &str, sizes: Sizes, msr: f64, duration_ps: u64) -> f64 {
    let point = Point {
        scheme: scheme.parse().unwrap(),
        place: Place::LeafSpine(LeafSpine { leaves: 4, hosts_per_leaf: 8, spines: 2 }),
        sizes,
        duration_ps,
        msr: Msr::from_parts_per_billion((msr * 1e9) as u32).unwrap(),
        ..Point::default()
    };
    let times = point.run().completions_us();
    assert_eq!(times.len(), 32, "{scheme}: jobs that got their share");
    times.iter().sum::<f64>() / times.len() as f64
}

/// Rules that are not in the paper, or only between its lines: without them jobs take longer, also on a
/// fabric, where what one drops costs others.
#[test]
fn rules__are_worth_it_on_a_fabric() {
    for (rule, sizes, msr, duration_ps, least) in [
        ("judge-late", Sizes::Hadoop, 0.9, 2 * MS, 1.1),
        ("judge-late", Sizes::KeyValue, 0.9, 3 * MS / 10, 1.5),
        // TLR comes to zero only where little may be lost.
        ("raise-at-target", Sizes::KeyValue, 0.9, 3 * MS / 10, 1.3),
    ] {
        let with = completion_us("atp:full:paper", sizes.clone(), msr, duration_ps);
        let scheme = format!("atp:full:paper:-{rule}");
        let without = completion_us(&scheme, sizes, msr, duration_ps);
        assert!(without > least * with, "{rule}: {with} us with it, {without} without");
    }
}
