//! Receiver advice and the initial window, end to end. The schemes are `atp+advice` and
//! `atp+window`; docs/src/control/advice.md has the laws.

use atp_sim::{
    engine::US,
    experiment::{AllReduce, NetworkSpec, Outcome, Pattern, Point, Traffic, msr_from_fraction},
    figures::{Extent, Metric, figure},
    net::topology::Star,
    runs::Runs,
    workload::{Shape, Sizes},
};

/// `senders` hosts send messages of 1,400 bytes to one host. Together they offer
/// `senders * load` times 500 us of its line.
fn incast(scheme: &str, senders: u32, load: f64, msr: f64, seed: u64) -> Outcome {
    let point = Point {
        network_spec: NetworkSpec::Star(Star { hosts: senders + 1 }),
        pattern: Pattern::Incast(None),
        sizes: Sizes::Fixed(1_400),
        load,
        duration_ps: 500 * US,
        msr: msr_from_fraction(msr).unwrap(),
        scheme: scheme.parse().unwrap(),
        seed,
        ..Point::default()
    };
    println!("scheme {scheme} seed {seed}");
    let outcome = point.run();
    assert!(outcome.senders_ended, "{scheme}, seed {seed}: {outcome:?}");
    outcome
}

fn slowest_us(outcome: &Outcome) -> f64 {
    outcome.completions_us().last().copied().unwrap()
}

fn dropped_share(outcome: &Outcome) -> f64 {
    outcome.spent.dropped_bytes as f64 / outcome.spent.sent_bytes as f64
}

#[test]
fn advice__fills_a_line_almost_without_drops() {
    for seed in 1..=3 {
        let [paper, advised] =
            ["atp:paper", "atp"].map(|scheme| incast(scheme, 4, 1.0, 0.95, seed));
        // 95 % of 2,000 us, with ATP's header.
        let ideal_us = 0.95 * 2_000.0 * 1_498.0 / 1_466.0;
        assert!(slowest_us(&advised) < 1.02 * ideal_us, "{}", slowest_us(&advised));
        assert!(dropped_share(&advised) < 0.03, "{}", dropped_share(&advised));
        assert!(dropped_share(&paper) > 0.1, "{}", dropped_share(&paper));
    }
}

#[test]
fn advice__and_window_hold_with_many_senders() {
    let runs =
        (1..=3).map(|seed| ["atp:paper", "atp"].map(|scheme| incast(scheme, 31, 0.64, 0.8, seed)));
    let (mut paper_us, mut advised_us) = (0.0, 0.0);
    for [paper, advised] in runs {
        (paper_us, advised_us) = (paper_us + slowest_us(&paper), advised_us + slowest_us(&advised));
        assert!(dropped_share(&advised) < 0.08, "{}", dropped_share(&advised));
        assert!(dropped_share(&paper) > 0.3, "{}", dropped_share(&paper));
    }
    assert!(advised_us < paper_us, "{advised_us} {paper_us}");
}

/// Advice comes every 2 ms to senders whose laws run every 2 ms, at 1 Gbit/s, as in a kernel.
#[test]
fn advice__with_a_slow_control_loop() {
    let run = |scheme: &str| {
        Point {
            network_spec: NetworkSpec::Star(Star { hosts: 5 }),
            rate: atp_sim::experiment::Rate::gbit_per_s(1).unwrap(),
            pattern: Pattern::Incast(None),
            sizes: Sizes::Fixed(1_400),
            load: 1.0,
            duration_ps: 20_000 * US,
            msr: msr_from_fraction(0.9).unwrap(),
            timer_granularity_ns: 1_000_000,
            receipt_delay_ns: 2_000_000,
            scheme: scheme.parse().unwrap(),
            ..Point::default()
        }
        .run()
    };
    let [paper, advised] = ["atp:paper+epoch=2000", "atp:paper+advice=2000+epoch=2000"].map(run);
    assert!(slowest_us(&advised) < slowest_us(&paper) * 1.02);
    assert!(dropped_share(&advised) < 0.05, "{}", dropped_share(&advised));
    assert!(dropped_share(&advised) < dropped_share(&paper) / 2.0);
}

/// The time of a ring all-reduce between sixteen hosts on one switch.
fn ring_ps(scheme: &str, bytes: u64, msr: f64) -> u64 {
    let point = Point {
        network_spec: NetworkSpec::Star(Star { hosts: 16 }),
        traffic: Traffic::AllReduce(AllReduce { shape: Shape::Ring, bytes }),
        sizes: Sizes::Fixed(1_400),
        msr: msr_from_fraction(msr).unwrap(),
        scheme: scheme.parse().unwrap(),
        ..Point::default()
    };
    point.run().all_done_ps.unwrap()
}

/// A transfer of a ring begins while the host still counts the one before. The first receipt halves
/// its rate, and the next one has to come before the job's end.
#[test]
fn advice__follows_the_end_of_another_lane() {
    for msr in [0.5, 0.9] {
        let [paper, advised] = ["atp:paper", "atp"].map(|scheme| ring_ps(scheme, 1_000_000, msr));
        assert!(advised * 10 < paper * 11, "{advised} {paper}");
    }
}

/// Every transfer of a ring is a job of a few packets. Without a window, each waits for its first
/// RTT.
#[test]
fn window__makes_an_exact_ring_as_soon_as_dctcp() {
    let ring = |scheme: &str| ring_ps(scheme, 250_000, 1.0);
    let [dctcp, paper, window] = ["dctcp-es", "atp:paper", "atp:paper+window"].map(ring);
    // A packet of ATP is 3 % longer on the wire than one of DCTCP with as much data, and a receipt
    // precedes the answer to each transfer's FIN.
    assert!(window * 50 < dctcp * 53, "{window} {dctcp}");
    assert!(window * 5 < paper * 4, "{window} {paper}");
}

/// In queues of a few packets the synchronized bursts of small jobs lose whole windows, and wait
/// for timeouts.
#[test]
fn small_jobs__take_as_long_as_dctcp_s() {
    let schemes = ["dctcp-es", "atp:paper", "atp+small-jobs"];
    let schemes = schemes.map(|name| name.parse().unwrap());
    let figure = figure(19, Extent::Quick).unwrap().of_schemes(&schemes);
    let series = figure.run(&mut Runs::default(), 2).unwrap();
    let ratios = |at: usize| {
        let cells = series[at].cells.iter();
        cells
            .map(|cell| cell.measured(Metric::CompletionUs).ratio.unwrap().mean)
            .collect::<Vec<_>>()
    };
    assert!(ratios(1).iter().all(|ratio| *ratio > 5.0), "{:?}", ratios(1));
    assert!(ratios(2).iter().all(|ratio| *ratio < 1.1), "{:?}", ratios(2));
}
