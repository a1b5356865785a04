//! The rule that ends a run that does not end by itself.

use atp_sim::{
    engine::{MS, S, US},
    experiment::{AllReduce, NetworkSpec, Point, Stragglers, Traffic},
    net::topology::Star,
    workload::{Shape, Sizes},
};

/// Half of the hosts have lines a thousand times slower. pFabric retransmits the packets that wait
/// for these lines long before they can be acknowledged. The run is given up, and the outcome says
/// so.
#[test]
fn run__ends_if_a_scheme_makes_no_progress() {
    let point = Point {
        network_spec: NetworkSpec::Star(Star { hosts: 4 }),
        stragglers: Stragglers { hosts_share: 0.5, hosts_slowdown: 1_000.0, ..Default::default() },
        sizes: Sizes::Fixed(1),
        duration_ps: 300 * US,
        scheme: "pfabric-ss".parse().unwrap(),
        ..Point::default()
    };
    let outcome = point.run();
    let jobs = outcome.jobs.len();
    assert!(outcome.complete() < jobs && outcome.all_done_ps.is_none(), "{outcome:?}");
    assert!(outcome.is_given_up, "{outcome:?}");
    assert!(outcome.simulated_ps < 500 * MS, "{} ps", outcome.simulated_ps);
    assert!(outcome.events < 60_000_000, "{} events", outcome.events);
}

/// Lines of 40 Mbit/s need 2.5 s for this all-reduce. The run continues because its jobs make
/// progress.
#[test]
fn run__continues_while_jobs_make_progress() {
    let point = Point {
        network_spec: NetworkSpec::Star(Star { hosts: 4 }),
        stragglers: Stragglers { hosts_share: 1.0, hosts_slowdown: 1_000.0, ..Default::default() },
        traffic: Traffic::AllReduce(AllReduce { shape: Shape::Ring, bytes: 8_000_000 }),
        sizes: Sizes::Fixed(100_000),
        scheme: "dctcp-ss".parse().unwrap(),
        msr: atp_common::units::Msr::EXACT,
        ..Point::default()
    };
    let outcome = point.run();
    assert_eq!((outcome.jobs.len(), outcome.complete()), (24, 24));
    // Six sequential steps of 2 MB.
    assert!(outcome.all_done_ps.is_some_and(|ps| ps > 24 * S / 10), "{:?}", outcome.all_done_ps);
}
