//! Baselines that separate causes: features of schemes, and the choice of paths.

use atp_sim::{
    engine::{MS, US},
    experiment::{
        AllReduce, Burst, LoadBalancing, NetworkSpec, Outcome, Pattern, Point, Scheme, Traffic,
        msr_from_fraction,
    },
    net::{
        PortQueues,
        topology::{LeafSpine, Star},
    },
    scheme::{Policy, SCHEMES},
    simulation::{NewFlow, Simulation},
    workload::{Shape, Sizes},
};

/// Two leaves with four hosts each, and four spines.
const LEAF_SPINE: NetworkSpec =
    NetworkSpec::LeafSpine(LeafSpine { leaves: 2, hosts_per_leaf: 4, spines: 4 });

fn point(scheme: &str) -> Point {
    Point {
        scheme: scheme.parse().unwrap(),
        network_spec: LEAF_SPINE,
        msr: msr_from_fraction(0.8).unwrap(),
        duration_ps: MS / 5,
        ..Point::default()
    }
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.summary().completion.mean_us.unwrap()
}

/// The bytes that one flow of 300 full messages puts on each line from its leaf to a spine.
fn bytes_by_spine(scheme: &str, load_balancing: LoadBalancing) -> Vec<u64> {
    let point = Point { load_balancing, ..point(scheme) };
    let mut simulation = Simulation::new(&LEAF_SPINE.topology(point.rate), point.port_queues());
    let messages = Box::new(std::iter::repeat_n((0, 1_400), 300));
    let sprayed = load_balancing.sprays(point.scheme.spec().sprays);
    let new = NewFlow { sprayed, stops: true, ..NewFlow::new(0, 7, messages, 240) };
    let flow = simulation.add(new, |route| point.scheme.ends(route, &point.environment(), 300));
    assert!(simulation.run(1_000 * MS), "{scheme}, {load_balancing}: {flow} isn't complete");
    // The first switch is the sender's leaf, and its first ports lead to hosts.
    (4..8).map(|port| simulation.port(0, port).sent_bytes).collect()
}

/// Every scheme completes with either choice of paths. Spraying gives all lines about as many
/// bytes, and ECMP uses one.
#[test]
fn load_balancing__spreads_evenly_or_not_at_all() {
    for spec in SCHEMES {
        let (name, _) = spec.names.iter().find(|name| name.1 == Policy::EarlySend).unwrap();
        let sprayed = bytes_by_spine(name, LoadBalancing::Spray);
        let (least, most) = (sprayed.iter().min().unwrap(), sprayed.iter().max().unwrap());
        assert!(*most < 2 * least, "{name}: {sprayed:?}");
        let hashed = bytes_by_spine(name, LoadBalancing::Ecmp);
        let used = hashed.iter().filter(|bytes| **bytes > 0).count();
        assert_eq!(used, 1, "{name}: {hashed:?}");
    }
}

/// Three duplicate acknowledgments would mean a loss at nearly every reordered packet.
#[test]
fn dctcp__sprays_without_needless_retransmissions() {
    let point = Point { load_balancing: LoadBalancing::Spray, load: 0.8, ..point("dctcp-es") };
    let outcome = point.run();
    assert_eq!(outcome.complete(), outcome.approximate().count());
    let wasted = outcome.summary().wasted_share;
    let hashed = Point { load_balancing: LoadBalancing::Ecmp, ..point }.run();
    assert!(mean_us(&outcome) < 1.05 * mean_us(&hashed));
    assert!(wasted < hashed.summary().wasted_share + 0.02, "{wasted}");
}

/// With messages of very different lengths, leaving out the longest saves time. With messages of
/// one length the order changes nothing.
#[test]
fn shortest_first__gains_only_by_the_choice_of_messages() {
    for scheme in ["dctcp-es", "ndp-es"] {
        for seed in 1..=3 {
            let run = |feature: &str, sizes: &Sizes| {
                let burst = Traffic::Burst(Burst { messages: 100 });
                let scheme = format!("{scheme}{feature}");
                Point {
                    network_spec: NetworkSpec::Star(Star { hosts: 5 }),
                    pattern: Pattern::Incast(None),
                    traffic: burst,
                    sizes: sizes.clone(),
                    seed,
                    ..point(&scheme)
                }
                .run()
            };
            let mixed = |feature| run(feature, &Sizes::Hadoop);
            let (plain, shortest) = (mixed(""), mixed(":shortest-first"));
            assert!(mean_us(&shortest) < 0.6 * mean_us(&plain), "{scheme}, seed {seed}");
            assert_eq!(shortest.complete(), 4);
            let fixed = |feature| run(feature, &Sizes::Fixed(1_400)).jobs;
            assert_eq!(fixed(""), fixed(":shortest-first"), "{scheme}, seed {seed}");
        }
    }
}

/// Approximate data waits for exact traffic, so exact messages are as quick as without it.
#[test]
fn low_priority__keeps_out_of_the_way_of_exact_traffic() {
    let exact_us = |scheme: &str, msr| {
        let outcome = Point {
            network_spec: NetworkSpec::Star(Star { hosts: 9 }),
            pattern: Pattern::Incast(None),
            // Exact jobs offer half of the receiver's line, and approximate ones all of it.
            load: 0.19,
            exact_share: 0.25,
            msr: msr_from_fraction(msr).unwrap(),
            ..point(scheme)
        }
        .run();
        assert_eq!(outcome.complete(), outcome.approximate().count(), "{scheme}");
        outcome.summary().exact_mean_us.unwrap()
    };
    // Approximate jobs that need next to nothing are over at once.
    let alone_us = exact_us("dctcp-es", 0.001);
    let (plain_us, low_us) = (exact_us("dctcp-es", 0.8), exact_us("dctcp-es:low-priority", 0.8));
    assert!(low_us < 1.5 * alone_us && plain_us > 2.0 * low_us, "{alone_us}, {plain_us}, {low_us}");
}

/// A ring of transfers that need several windows: connections that keep theirs save round trips.
/// In a tree every pair of hosts has one transfer, so nothing changes.
#[test]
fn persistent__saves_slow_starts_in_a_ring() {
    let all_done_us = |scheme: &str, shape| {
        let traffic = Traffic::AllReduce(AllReduce { shape, bytes: 8 * 60_000 });
        let point = Point { traffic, sizes: Sizes::Fixed(1_400), ..point(scheme) };
        point.run().summary().all_done_us.unwrap()
    };
    let (cold, warm) = ("dctcp-es", "dctcp-es:persistent");
    assert!(all_done_us(warm, Shape::Ring) < 0.95 * all_done_us(cold, Shape::Ring));
    assert_eq!(all_done_us(warm, Shape::Tree), all_done_us(cold, Shape::Tree));
}

/// Each flow of a connection starts from the window, marked share and RTT of the one before, on the
/// same path.
#[test]
fn continues__keeps_window_and_path() {
    let point = point("dctcp-es:persistent");
    let mut simulation = Simulation::new(&LEAF_SPINE.topology(point.rate), point.port_queues());
    let mut continues = None;
    for number in 0..5 {
        let began_ps = simulation.now_ps();
        let messages = Box::new(std::iter::repeat_n((began_ps, 1_400), 100));
        let new = NewFlow { continues, stops: true, ..NewFlow::new(0, 7, messages, 100) };
        let before = continues.and_then(|flow| simulation.sender(flow).path_state());
        let flow = simulation.add(new, |route| point.scheme.ends(route, &point.environment(), 100));
        let begins_with = simulation.sender(flow).path_state().unwrap();
        assert!(before.is_none_or(|before| before == begins_with), "flow {number}");
        // The first flow leaves slow start's first window behind.
        let is_warm = begins_with.window_bytes > 20.0 * 1_448.0;
        assert_eq!(is_warm, number > 0, "flow {number}: {begins_with:?}");
        assert!(simulation.run(simulation.now_ps() + 10 * MS), "flow {number} isn't complete");
        continues = Some(flow);
    }
    let used = (4..8).filter(|port| simulation.port(0, *port).sent_packets > 0);
    assert_eq!(used.count(), 1);
}

/// Every sender of a burst begins within the spread, and has all of its messages then.
#[test]
fn burst__begins_together() {
    for scheme in ["atp:paper", "dctcp-es"] {
        let outcome = Point {
            network_spec: NetworkSpec::Star(Star { hosts: 17 }),
            pattern: Pattern::Incast(None),
            traffic: Traffic::Burst(Burst { messages: 20 }),
            begins_ps: 5 * US,
            ..point(scheme)
        }
        .run();
        assert_eq!(outcome.jobs.len(), 16);
        for job in &outcome.jobs {
            let late_ps = job.began_ps - 5 * US;
            assert!(late_ps < Burst::SPREAD_PS && job.messages == 20, "{job:?}");
            assert!(job.completion_ps.is_some());
        }
    }
}

/// No scheme but ATP has a lower queue unless its name says so.
#[test]
fn low_priority__uses_the_lower_queue_alone() {
    let point = point("dctcp-es");
    let lower = point.port_queues();
    let single = PortQueues::single(65, point.buffer_bytes);
    assert_ne!(lower, single);
    let run = |scheme: &str| {
        let scheme: Scheme = scheme.parse().unwrap();
        Point { scheme, ..point.clone() }.run()
    };
    // Without exact traffic, the one queue is as good as the other.
    let (plain, low) = (run("dctcp-es"), run("dctcp-es:low-priority"));
    assert!((mean_us(&plain) / mean_us(&low) - 1.0).abs() < 0.02);
}
