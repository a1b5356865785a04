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
        ("atp", 56_528, 8_641, 1_001, 362_307_419),
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
        ("atp", [18_919, 3_760, 270, 0, 7, 1_138_173_200, 40_015_686]),
        ("dctcp-es", [85_882, 18_223, 149, 0, 7, 4_219_965_877, 41_879_223]),
        ("dctcp-ss", [15_740, 3_277, 26, 0, 7, 1_785_616_912, 43_370_990]),
        ("pfabric-es", [17_363, 3_522, 74, 0, 7, 1_071_140_405, 36_413_752]),
        ("pfabric-ss", [16_331, 3_332, 50, 0, 7, 1_935_382_264, 36_413_514]),
        ("ndp-es", [129_269, 26_621, 11, 358, 7, 4_328_952_084, 45_433_127]),
        ("ndp-ss", [18_371, 3_727, 42, 122, 7, 1_782_679_105, 43_562_478]),
        ("mlt-es", [131_181, 24_637, 8_771, 0, 7, 7_602_542_350, 324_963_387]),
        ("aeolus-es", [100_921, 18_706, 158, 0, 7, 4_692_485_146, 50_999_233]),
        ("aeolus-ss", [18_715, 3_721, 50, 0, 7, 1_819_016_705, 40_139_447]),
        ("udp", [88_692, 15_140, 5_964, 0, 6, 4_113_493_370, 250_208_558]),
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
