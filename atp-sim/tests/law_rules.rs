//! Tests the purpose of each rule that the paper does not state explicitly, by comparing runs with
//! and without the rule.
//!
//! The fabrics let one job's waste delay other jobs. Values are means over seeds. Each bound is
//! about half-way between the values with and without the rule.

mod fabric;

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, US},
    experiment::{NetworkSpec, Point},
    net::topology::LeafSpine,
    workload::Sizes,
};
use fabric::{Fabric, Job, Outcome, at_once, stream};
use std::sync::OnceLock;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// The means over seeds, with all rules and without `rule`.
fn with_and_without(rule: &str, mut measure: impl FnMut(&str, u64) -> f64) -> (f64, f64) {
    let with = mean_of_seeds(|seed| measure("atp:paper", seed));
    let scheme = format!("atp:full:paper:-{rule}");
    let without = mean_of_seeds(|seed| measure(&scheme, seed));
    (with, without)
}

fn mean_of_seeds(measure: impl FnMut(u64) -> f64) -> f64 {
    SEEDS.map(measure).sum::<f64>() / SEEDS.count() as f64
}

/// Two groups of jobs, from leaf 0 and leaf 1 to the same hosts of leaf 3. They meet at the only
/// spine's line to that leaf, after they have used a link between switches.
fn two_groups(
    number: [u32; 2],
    msr: [f64; 2],
    messages: [u32; 2],
    at_ps: [u64; 2],
    seed: u64,
) -> Vec<Job> {
    let fabric = Fabric::new(4, 1);
    let group = |group: usize| {
        (0..number[group]).map(move |host| {
            let seed = seed * 1_000 + 100 * group as u64 + u64::from(host);
            let messages = at_once(seed, &Sizes::Hadoop, messages[group], at_ps[group]);
            let source = fabric.host(group as u32, host);
            Job::new(source, fabric.host(3, host), msr[group], messages)
        })
    };
    group(0).chain(group(1)).collect()
}

/// The mean completion time of jobs between all hosts of a fabric, microseconds.
fn all_to_all_us(scheme: &str, sizes: &Sizes, duration_ps: u64, seed: u64) -> f64 {
    let point = Point {
        scheme: scheme.parse().unwrap(),
        network_spec: NetworkSpec::LeafSpine(LeafSpine { leaves: 4, hosts_per_leaf: 8, spines: 2 }),
        sizes: sizes.clone(),
        duration_ps,
        msr: Msr::from_parts_per_billion(900_000_000).unwrap(),
        seed,
        ..Point::default()
    };
    let times = point.run().completions_us();
    assert_eq!(times.len(), 32, "{scheme}: all jobs must complete");
    times.iter().sum::<f64>() / times.len() as f64
}

/// The mean completion time for FBKV sizes. Two tests share the runs with all rules.
fn key_value_us(scheme: &str, seed: u64) -> f64 {
    static WITH_ALL_RULES: OnceLock<Vec<f64>> = OnceLock::new();
    let run = |scheme: &str, seed| all_to_all_us(scheme, &Sizes::KeyValue, 3 * MS / 10, seed);
    match scheme {
        "atp:paper" => {
            let of_seeds =
                WITH_ALL_RULES.get_or_init(|| SEEDS.map(|seed| run("atp:paper", seed)).collect());
            of_seeds[(seed - SEEDS.start()) as usize]
        }
        _ => run(scheme, seed),
    }
}

/// If an epoch is evaluated while its ACKs are in flight, late packets seem lost.
#[test]
fn evaluate_late__late_acks_are_not_losses() {
    let hadoop_us = |scheme: &str, seed| all_to_all_us(scheme, &Sizes::Hadoop, 2 * MS, seed);
    let (with, without) = with_and_without("evaluate-late", hadoop_us);
    assert!(without > 1.4 * with, "FBHD: {with} us with it, {without} without");
    let (with, without) = with_and_without("evaluate-late", key_value_us);
    assert!(without > 2.0 * with, "FBKV: {with} us with it, {without} without");
}

/// Many losses at a high MSR reduce the TLR to 0. Without this rule, the rate would never rise
/// again.
#[test]
fn raise_at_target__rates_rise_again_at_tlr_0() {
    let (with, without) = with_and_without("raise-at-target", key_value_us);
    assert!(without > 1.2 * with, "{with} us with it, {without} without");
}

/// Without this rule, short jobs would move to queue 7 near their end. Longer jobs of the same MSR,
/// which began with them or later, would starve them there.
#[test]
fn capped_target__short_jobs_are_not_starved_at_their_end() {
    for later_ps in [0, 100 * US] {
        let (with, without) = with_and_without("capped-target", |scheme, seed| {
            let jobs = two_groups([4, 4], [0.5, 0.5], [600, 3_000], [0, later_ps], seed);
            Fabric::new(4, 1).run(scheme, &jobs, 4, seed).mean_us(0..4)
        });
        assert!(without > 2.5 * with, "{with} us with it, {without} without");
    }
}

/// A job of MSR 0.5 shares a line with a job of MSR 0.75 in a better queue. The rule gives the
/// first job a part of the line before the other job is complete, at little cost to the other.
/// Without a limit of that part, the other job would take an eighth longer: the first job's
/// messages are two fifteenths of the messages that the other needs.
#[test]
fn starvation_recovery__a_job_beside_one_of_a_better_queue_is_not_starved() {
    let (with, without) = with_and_without("starvation-recovery", |scheme, seed| {
        let jobs = two_groups([1, 1], [0.5, 0.75], [300, 6_000], [0, 0], seed);
        Fabric::new(4, 1).run(scheme, &jobs, 1, seed).mean_us(0..1)
    });
    assert!(without > 1.4 * with, "{with} us with it, {without} without");
    let other_us = |beside: u32| {
        mean_of_seeds(|seed| {
            let jobs = two_groups([beside, 1], [0.5, 0.75], [300, 3_000], [0, 0], seed);
            let outcome = Fabric::new(4, 1).run("atp:paper", &jobs, jobs.len(), seed);
            *outcome.took_us.last().unwrap()
        })
    };
    let (beside, alone) = (other_us(1), other_us(0));
    assert!(beside < 1.04 * alone, "the other job: {beside} us beside it, {alone} alone");
}

/// Forty hosts of three leaves send to one host of the fourth. A round trip has room for fewer than
/// forty packets.
fn incast(scheme: &str, msr: f64, sizes: &Sizes, messages: u32, seed: u64) -> Outcome {
    let fabric = Fabric::new(16, 4);
    let job = |source: u32| {
        let messages = at_once(seed * 1_000 + u64::from(source), sizes, messages, 0);
        Job::new(source, fabric.host(3, 0), msr, messages)
    };
    let jobs: Vec<Job> = (0..40).map(job).collect();
    fabric.run(scheme, &jobs, 40, seed)
}

/// With a minimum rate of one packet per round trip, forty senders overload a port permanently. The
/// packets dropped there have used links between switches.
#[test]
fn floor_per_epoch__many_senders_do_not_overload_a_port() {
    let (with, without) = with_and_without("floor-per-epoch", |scheme, seed| {
        let outcome = incast(scheme, 1.0, &Sizes::Fixed(1_400), 500, seed);
        outcome.spent(0..40).dropped_upstream_share()
    });
    assert!(with < 0.12 && without > 0.25, "exact: {with} with it, {without} without");
    let (with, without) = with_and_without("floor-per-epoch", |scheme, seed| {
        incast(scheme, 0.9, &Sizes::Hadoop, 50, seed).spent(0..40).dropped_upstream_share()
    });
    assert!(without > with + 0.08, "approximate: {with} with it, {without} without");
}

/// Without this rule, a stream of windows with few packets in between would begin each window at
/// line rate and ignore the rate of the previous one.
#[test]
fn hold_when_idle__windows_do_not_begin_with_a_burst() {
    let (with, without) = with_and_without("hold-when-idle", |scheme, seed| {
        let fabric = Fabric::new(8, 1);
        let job = |number: u32| {
            let seed = seed * 1_000 + u64::from(number);
            let messages = stream(seed, &Sizes::KeyValue, 300, 8, 600 * US, 10 * US);
            let source = fabric.host(number % 2, number / 2);
            Job::new(source, fabric.host(3, number), 0.9, messages)
        };
        let jobs: Vec<Job> = (0..4).map(job).collect();
        fabric.run(scheme, &jobs, 4, seed).spent(0..4).wasted_share()
    });
    assert!(without > with + 0.08, "{with} of the bytes wasted with it, {without} without");
}

/// NetApprox §4.3: without MRDF, short messages wait for long ones, although the job needs only
/// half of all messages.
#[test]
fn mrdf__nearly_complete_messages_go_first() {
    let mean_us = |scheme| {
        mean_of_seeds(|seed| {
            let jobs = two_groups([4, 0], [0.5, 0.5], [600, 0], [0, 0], seed);
            Fabric::new(4, 1).run(scheme, &jobs, 4, seed).mean_us(0..4)
        })
    };
    let (with, without) = (mean_us("atp:mrdf"), mean_us("atp:rc"));
    assert!(without > 20.0 * with, "{with} us with it, {without} without");
}

/// New one-packet messages are sent before lost ones. In the reverse order, no message would count
/// as lost, the TLR would not change, and two thirds of the bytes would be wasted instead of half.
/// The bound is between the two. No scheme name disables this rule.
#[test]
fn ties__new_messages_of_one_packet_come_before_lost_ones() {
    let fabric = Fabric::new(4, 1);
    let wasted = mean_of_seeds(|seed| {
        let job = |number: u32| {
            let count = if number < 4 { 2_000 } else { 10_000 };
            let messages = at_once(seed * 1_000 + u64::from(number), &Sizes::KeyValue, count, 0);
            Job::new(fabric.host(number / 4, number), fabric.host(3, number), 0.5, messages)
        };
        let jobs: Vec<Job> = (0..8).map(job).collect();
        fabric.run("atp:paper", &jobs, 4, seed).spent(0..4).wasted_share()
    });
    assert!(wasted < 0.6, "{wasted}");
}

/// The packet in transmission does not count against the limit of its queue. Otherwise queue 7,
/// whose limit is one packet, would never hold a packet. Unpacked messages need the queue most.
#[test]
fn queue_limits__exclude_the_packet_in_transmission() {
    let mean_us = |fewer_packets, sizes: &Sizes, messages| {
        mean_of_seeds(|seed| {
            let fabric = Fabric { fewer_packets, ..Fabric::new(4, 1) };
            let job = |host: u32| {
                let messages = at_once(seed * 1_000 + u64::from(host), sizes, messages, 0);
                Job::new(fabric.host(0, host), fabric.host(3, host), 0.1, messages)
            };
            let jobs: Vec<Job> = (0..4).map(job).collect();
            fabric.run("atp:paper+single", &jobs, 4, seed).mean_us(0..4)
        })
    };
    for (sizes, messages, least) in [(Sizes::Hadoop, 1_500, 1.5), (Sizes::KeyValue, 20_000, 2.0)] {
        let (with, without) = (mean_us(0, &sizes, messages), mean_us(1, &sizes, messages));
        assert!(without > least * with, "{sizes:?}: {with} us with it, {without} without");
    }
}
