//! Compares the network with line rates and queueing theory, and with recorded results.

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, S},
    experiment::{NetworkSpec, Pattern, Point, Rate, Scheme},
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
    let atp = ["atp", "atp:base"].map(|name| name.parse().unwrap());
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
        ("atp", 1_400, 1_400 + 32 + 28),
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

/// The same seed gives the same outcome, and another seed gives another outcome.
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
        ("atp", 33_546, 4_423, 176, 334_707_722),
        ("udp", 26_827, 3_973, 0, 338_031_851),
        ("dctcp-es", 26_274, 4_062, 0, 332_137_089),
        ("pfabric-es", 49_639, 7_540, 144, 321_314_843),
        ("ndp-es", 22_596, 3_505, 0, 330_410_383),
        ("mlt-es", 31_672, 4_368, 0, 336_414_193),
        ("aeolus-es", 12_742, 1_615, 0, 325_066_698),
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
        ("atp", [19_583, 3_871, 334, 0, 7, 1_337_469_769, 53_161_010]),
        ("dctcp-es", [85_922, 18_208, 154, 0, 7, 4_349_436_376, 53_975_421]),
        ("dctcp-ss", [16_081, 3_306, 50, 0, 7, 1_755_571_584, 40_313_157]),
        ("pfabric-es", [17_652, 3_515, 65, 0, 7, 1_123_264_843, 36_827_175]),
        ("pfabric-ss", [16_344, 3_335, 19, 0, 7, 2_054_667_736, 36_736_894]),
        ("ndp-es", [134_722, 26_625, 5, 360, 7, 4_286_114_084, 42_112_780]),
        ("ndp-ss", [18_587, 3_727, 33, 124, 7, 1_795_985_464, 43_334_926]),
        ("mlt-es", [123_723, 22_760, 6_925, 0, 7, 6_734_918_052, 410_670_438]),
        ("aeolus-es", [100_009, 18_774, 171, 0, 7, 4_726_259_892, 60_597_263]),
        ("aeolus-ss", [18_316, 3_702, 52, 0, 7, 1_999_491_263, 53_686_222]),
        ("udp", [93_082, 15_259, 5_953, 0, 7, 5_886_562_313, 291_224_930]),
    ];
    let others = expected.iter().filter(|(name, _)| *name != "atp").map(|(name, _)| *name);
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
            sprayed: true,
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
