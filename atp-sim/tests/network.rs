//! Compares the network with line rates and queueing theory, and with recorded results.

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, S},
    experiment::{LoadBalancing, NetworkSpec, Pattern, Point, Rate, Scheme},
    net::{
        PortQueues, duration_ps,
        topology::{LeafSpine, Star},
    },
    scheme::{
        Endpoint, Route,
        udp::{UdpReceiver, UdpSender},
        wire_bytes,
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Gaps, Sizes},
};

const GBIT: u64 = 1_000_000_000;

fn schemes() -> impl Iterator<Item = Scheme> {
    let atp = ["atp", "atp:paper", "atp:base"].map(|name| name.parse().unwrap());
    atp.into_iter().chain(Scheme::others())
}

fn star(hosts: u32) -> NetworkSpec {
    NetworkSpec::Star(Star { hosts })
}

fn udp(route: Route) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
    (Box::new(UdpSender::new(route)), Box::<UdpReceiver>::default())
}

/// One flow alone uses its complete line, except for headers.
#[test]
fn line_rate__one_flow_uses_the_complete_line() {
    const MESSAGES: u32 = 4_000;
    // The message bytes that fill a packet, and the length of that IP packet.
    for (name, bytes, wire) in [
        ("atp:paper", 1_400, 1_400 + 32 + 28),
        ("udp", 1_472, 1_500),
        ("dctcp-es", 1_448, 1_500),
        ("pfabric-es", 1_448, 1_500),
        ("ndp-es", 1_454, 1_500),
        ("mlt-es", 1_448, 1_500),
    ] {
        let topology = star(2).topology(Rate::default());
        // ATP's approximate jobs start at line rate. Its exact jobs have a slow start, like DCTCP.
        let msr = Msr::from_parts_per_billion(999_000_000).unwrap();
        let point = Point { scheme: name.parse().unwrap(), msr, ..Point::default() };
        let mut simulation = Simulation::new(&topology, point.port_queues());
        let sizes = Sizes::Fixed(bytes);
        let new = NewFlow::new(
            0,
            1,
            Box::new(Arrivals::at_once(1, &sizes, MESSAGES, 0)),
            msr.needed(MESSAGES),
        );
        let flow =
            simulation.add(new, |route| point.scheme.ends(route, &point.environment(), MESSAGES));
        assert!(simulation.run(S), "{name}");
        let took_ps = simulation.progress(flow).done_ps.unwrap();
        let ideal_ps = u64::from(msr.needed(MESSAGES)) * duration_ps(wire_bytes(wire), 40 * GBIT);
        let share = ideal_ps as f64 / took_ps as f64;
        // The time includes the one-way delay, and DCTCP's slow start.
        assert!((0.97..=1.0).contains(&share), "{name}: {share} of the line");
        assert_eq!(simulation.dropped(flow), 0);
    }
}

/// Packets of one length with Poisson arrivals have the mean waiting time of an M/D/1 queue.
#[test]
fn queueing__is_m_d_1() {
    const SOURCES: u32 = 200;
    const BYTES: u32 = 1_472;
    for (load, duration_ps_) in [(0.3, 40 * MS), (0.6, 60 * MS), (0.8, 250 * MS)] {
        let topology = star(SOURCES + 1).topology(Rate::default());
        let mut simulation = Simulation::new(&topology, PortQueues::single(u32::MAX, u64::MAX));
        let service_ps = duration_ps(wire_bytes(BYTES + 28), 40 * GBIT);
        for source in 1..=SOURCES {
            let rate = load * 40.0 * GBIT as f64 / f64::from(SOURCES);
            let cost = |bytes| f64::from(wire_bytes(bytes + 28));
            let sizes = Sizes::Fixed(BYTES);
            let seed = u64::from(source);
            let gap_ps = Arrivals::gap_at_rate_ps(&sizes, rate, cost);
            let messages = Arrivals::every(seed, &sizes, Gaps::Poisson, gap_ps, duration_ps_);
            let new = NewFlow::new(source, 0, Box::new(messages), 0);
            simulation.add(new, udp);
        }
        simulation.run_on(2 * duration_ps_);
        let port = simulation.port(0, 0);
        let waited_ps = port.waited_ps as f64 / port.sent_packets as f64;
        // The Pollaczek-Khinchine formula, with the actual load.
        let came = port.sent_packets as f64 * service_ps as f64 / duration_ps_ as f64;
        let expected_ps = came / (2.0 * (1.0 - came)) * service_ps as f64;
        let ratio = waited_ps / expected_ps;
        assert!((0.98..1.02).contains(&ratio), "load {came}: {ratio} of {expected_ps} ps");
    }
}

/// A seed gives one outcome, and another seed gives another.
#[test]
fn seed__determines_the_outcome() {
    for scheme in schemes() {
        let point = Point {
            scheme,
            network_spec: star(5),
            pattern: Pattern::Incast(None),
            duration_ps: MS / 20,
            ..Point::default()
        };
        let outcome = point.run();
        assert_eq!(outcome, point.run());
        assert_ne!(outcome, Point { seed: 2, ..point }.run());
    }
}

/// The exact results of a small run. They change only with the laws and the transports. After such
/// a change, check the new numbers and record them here.
#[test]
fn snapshot__is_unchanged() {
    let expected = [
        ("atp:paper", 29_156, 4_041, 362, 347_329_924),
        ("udp", 29_475, 4_256, 0, 363_001_670),
        ("dctcp-es", 23_605, 3_712, 0, 354_109_276),
        ("pfabric-es", 49_603, 7_751, 269, 330_405_346),
        ("ndp-es", 23_596, 3_663, 0, 327_485_185),
        ("mlt-es", 27_395, 3_762, 0, 351_070_476),
        ("aeolus-es", 12_306, 1_559, 55, 334_559_852),
    ];
    for (name, events, packets, dropped, completions_ps) in expected {
        let point = Point {
            scheme: name.parse().unwrap(),
            network_spec: NetworkSpec::LeafSpine(LeafSpine {
                leaves: 2,
                hosts_per_leaf: 3,
                spines: 2,
            }),
            duration_ps: MS / 10,
            ..Point::default()
        };
        let outcome = point.run();
        let sum_ps: u64 = outcome.jobs.iter().filter_map(|job| job.completion_ps).sum();
        let got = (name, outcome.events, outcome.packets_sent, outcome.packets_dropped, sum_ps);
        assert_eq!(got, (name, events, packets, dropped, completions_ps));
    }
}

/// A snapshot with buffers that overflow. It covers lost and trimmed packets, exact jobs,
/// background traffic and packet spraying. No packet is marked: a buffer is full below the marking
/// threshold.
///
/// The columns are events; packets sent, dropped and trimmed; complete jobs; the sum of completion
/// times and the mean time of exact messages, picoseconds.
#[test]
fn snapshot__of_small_buffers_is_unchanged() {
    let expected: [(&str, [u64; 7]); 11] = [
        ("atp:paper", [19_965, 3_829, 308, 0, 7, 1_326_559_645, 54_505_817]),
        ("dctcp-es", [87_764, 18_473, 386, 0, 7, 4_236_059_218, 58_298_499]),
        ("dctcp-ss", [16_675, 3_364, 146, 0, 7, 1_820_691_864, 42_140_923]),
        ("pfabric-es", [18_110, 3_558, 110, 0, 7, 1_058_294_405, 35_496_181]),
        ("pfabric-ss", [16_819, 3_379, 89, 0, 7, 2_068_383_264, 37_726_857]),
        ("ndp-es", [132_169, 26_712, 99, 356, 7, 4_702_364_124, 69_359_666]),
        ("ndp-ss", [18_658, 3_714, 55, 117, 7, 1_970_285_984, 55_432_378]),
        ("mlt-es", [185_427, 35_038, 11_655, 0, 7, 9_230_297_856, 195_023_132]),
        ("aeolus-es", [97_228, 18_642, 182, 0, 7, 4_855_714_545, 56_516_829]),
        ("aeolus-ss", [20_032, 3_894, 142, 0, 7, 1_922_574_914, 42_893_676]),
        ("udp", [89_056, 15_144, 5_977, 0, 7, 5_106_990_821, 105_642_412]),
    ];
    let others = expected.iter().filter(|(name, _)| *name != "atp:paper").map(|(name, _)| *name);
    assert!(others.eq(Scheme::others().map(Scheme::name)), "a scheme is missing");
    for (name, expected) in expected {
        let outcome = Point {
            scheme: name.parse().unwrap(),
            network_spec: NetworkSpec::LeafSpine(LeafSpine {
                leaves: 3,
                hosts_per_leaf: 4,
                spines: 2,
            }),
            pattern: Pattern::FanIn(5),
            sizes: Sizes::Hadoop,
            load: 0.8,
            duration_ps: MS / 5,
            buffer_bytes: 30_000,
            exact_share: 0.3,
            load_balancing: LoadBalancing::Spray,
            background: vec!["4x0.4@4:0-100,3:100-200".parse().unwrap()],
            ..Point::default()
        }
        .run();
        let got = [
            outcome.events,
            outcome.packets_sent,
            outcome.packets_dropped,
            outcome.packets_trimmed,
            outcome.complete() as u64,
            outcome.jobs.iter().filter_map(|job| job.completion_ps).sum(),
            outcome.exact_mean_ps.unwrap(),
        ];
        assert_eq!((name, got), (name, expected));
    }
}
