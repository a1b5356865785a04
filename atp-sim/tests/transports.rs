//! Transports against what their papers promise.

use atp_common::units::Msr;
use atp_sim::{
    engine::MS,
    experiment::{Pattern, Place, Point, Scheme},
    net::topology::Star,
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Sizes},
};

fn msr(share: f64) -> Msr {
    Msr::from_parts_per_billion((share * 1e9) as u32).unwrap()
}

/// NetApprox §4: whatever the network does, each job gets its share, under every variant and law.
#[test]
fn atp__every_job_gets_its_share() {
    for variant in ["full", "base", "rc", "mrdf", "fix-tlr", "fix-prio"] {
        for law in ["paper", "frugal", "pi", "polite"] {
            for (seed, share) in [(1, 0.5), (2, 0.9), (3, 1.0)] {
                let scheme: Scheme = format!("atp:{variant}:{law}").parse().unwrap();
                let point = Point {
                    scheme,
                    place: Place::Star(Star { hosts: 9 }),
                    pattern: Pattern::Incast(None),
                    sizes: Sizes::Fixed(5_000),
                    duration_ps: MS / 5,
                    msr: msr(share),
                    seed,
                    ..Point::default()
                };
                // And its sender learns that it has, or this would not end before its time.
                let outcome = point.run();
                assert!(outcome.senders_ended, "{scheme}, MSR {share}");
                for job in &outcome.jobs {
                    assert!(job.delivered >= job.needed, "{scheme}, MSR {share}: {job:?}");
                    assert!(job.delivered <= job.messages, "{scheme}, MSR {share}: {job:?}");
                    assert!(job.completion_ps.is_some(), "{scheme}, MSR {share}: {job:?}");
                }
            }
        }
    }
}

/// Long DCTCP flows to one host: how many packets wait on the average, and what each flow got.
fn long_flows(flows: u32) -> (f64, Vec<u32>) {
    let scheme = "dctcp-es".parse().unwrap();
    let point = Point { scheme, msr: Msr::EXACT, ..Point::default() };
    let topology = Place::Star(Star { hosts: flows + 1 }).topology(point.rate);
    let mut simulation = Simulation::new(&topology, point.port_queues());
    let added: Vec<_> = (1..=flows)
        .map(|source| {
            let messages = Arrivals::at_once(1, &Sizes::Fixed(1_448), 1_000_000, 0);
            let new = NewFlow {
                source,
                destination: 0,
                sprayed: false,
                began_ps: 0,
                messages: Box::new(messages),
                needed: 1_000_000,
                stops: false,
                timed: false,
            };
            simulation.add(new, |route| point.scheme.ends(route, &point, 1_000_000))
        })
        .collect();
    // Past the first windows.
    let (start_ps, end_ps) = (10 * MS, 40 * MS);
    simulation.run_on(start_ps);
    let delivered = |simulation: &Simulation| -> Vec<u32> {
        added.iter().map(|flow| simulation.progress(*flow).delivered).collect()
    };
    let (before, count) = (simulation.port(0, 0), delivered(&simulation));
    simulation.run_on(end_ps);
    let after = simulation.port(0, 0);
    let waited = after.waiting_packet_ps - before.waiting_packet_ps;
    let mean = waited as f64 / (end_ps - start_ps) as f64;
    let got = delivered(&simulation).into_iter().zip(count).map(|(after, before)| after - before);
    (mean, got.collect())
}

/// DCTCP, SIGCOMM 2010, §3.3: the queue oscillates below K + N packets, and never runs empty where K is
/// more than a seventh of the bandwidth-delay product.
#[test]
fn dctcp__queue_stays_near_k() {
    for flows in [2, 8, 20] {
        let (mean, got) = long_flows(flows);
        assert!((30.0..=65.0 + f64::from(flows)).contains(&mean), "{flows} flows: {mean} packets");
        let all: u32 = got.iter().sum();
        // 30 ms of 40 Gbit/s in packets of 1,538 bytes on the wire.
        let ideal = 0.03 * 40e9 / 8.0 / 1_538.0;
        assert!(f64::from(all) > 0.995 * ideal, "{flows} flows: {all} of {ideal} packets");
    }
}

/// Equal flows through one port have equal shares (Jain's index).
#[test]
fn dctcp__equal_flows_share_equally() {
    let (_, got) = long_flows(8);
    let jain = jain(&got);
    assert!(jain > 0.98, "{jain}: {got:?}");
}

fn jain(got: &[u32]) -> f64 {
    let sum: f64 = got.iter().map(|got| f64::from(*got)).sum();
    let squares: f64 = got.iter().map(|got| f64::from(*got).powi(2)).sum();
    sum * sum / (squares * got.len() as f64)
}

/// NetApprox §7.1.1: queues of approximate traffic are a few packets at most, by construction; UDP's
/// are as long as the buffer lets them.
#[test]
fn atp__queues_are_short_where_udp_s_are_long() {
    let point = Point {
        place: Place::Star(Star { hosts: 9 }),
        pattern: Pattern::Incast(None),
        duration_ps: MS,
        ..Point::default()
    };
    let atp = point.run();
    let udp = Point { scheme: Scheme::Udp, ..point }.run();
    // Queue 4 and better ones, to which the rescue and a falling TLR lead, hold 4 to 7 MTUs.
    assert!(atp.queue_max_bytes <= 28 * 1_538 + 5_000, "{} bytes", atp.queue_max_bytes);
    assert!(udp.queue_max_bytes > 1_000_000, "{} bytes", udp.queue_max_bytes);
    let (atp, udp) = (atp.queue_worst_bytes, udp.queue_worst_bytes);
    assert!(udp > 20 * atp, "{udp} bytes wait under UDP, {atp} under ATP");
}
