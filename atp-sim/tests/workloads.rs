//! Workloads: all-reduce, traces, coflows, tenants and background traffic.

use atp_common::units::Msr;
use atp_sim::{
    engine::{MS, US},
    experiment::{
        AllReduce, NetworkSpec, Outcome, Pattern, Point, Rate, Tenant, Traffic, msr_from_fraction,
    },
    net::{duration_ps, topology::Star},
    scheme::wire_bytes,
    workload::{Background, Coflows, Gaps, Scale, Shape, Sizes, Trace},
};
use std::sync::Arc;

const SCHEMES: [&str; 4] = ["atp:paper", "udp", "dctcp-es", "pfabric-es"];

fn msr(share: f64) -> Msr {
    msr_from_fraction(share).unwrap()
}

fn star(hosts: u32) -> NetworkSpec {
    NetworkSpec::Star(Star { hosts })
}

fn all_reduce(shape: Shape, hosts: u32, bytes: u64, share: f64, scheme: &str) -> Outcome {
    let point = Point {
        network_spec: star(hosts),
        traffic: Traffic::AllReduce(AllReduce { shape, bytes }),
        // One packet per message.
        sizes: Sizes::Fixed(if scheme == "atp:paper" { 1_400 } else { 1_472 }),
        msr: msr(share),
        scheme: scheme.parse().unwrap(),
        ..Point::default()
    };
    point.run()
}

/// The time of a full packet at 40 Gbit/s.
const PACKET_PS: u64 = duration_ps(wire_bytes(1_500), 40_000_000_000);

/// The one-way delay of a full packet on a star, which has two lines.
fn one_way_ps() -> u64 {
    let bytes = wire_bytes(1_500);
    star(2).round_trip_ps(Rate::default(), bytes, bytes) / 2
}

/// On an idle star, each of a ring's 2(n - 1) steps takes the time of a chunk.
#[test]
fn ring__takes_its_ideal_time() {
    const PACKETS: u64 = 100;
    for hosts in [2, 5, 9] {
        let bytes = u64::from(hosts) * PACKETS * 1_472;
        let steps = 2 * u64::from(hosts - 1);
        let ideal_ps = steps * ((PACKETS - 1) * PACKET_PS + one_way_ps());
        let outcome = all_reduce(Shape::Ring, hosts, bytes, 1.0, "udp");
        assert_eq!(outcome.jobs.len() as u64, u64::from(hosts) * steps);
        assert_eq!(outcome.all_done_ps, Some(ideal_ps), "{hosts} hosts");
        // Each step has a new DCTCP flow, and so a slow start.
        let outcome = all_reduce(Shape::Ring, hosts, bytes, 1.0, "dctcp-es");
        let ratio = outcome.all_done_ps.unwrap() as f64 / ideal_ps as f64;
        assert!((1.0..1.15).contains(&ratio), "{hosts} hosts, DCTCP: {ratio}");
        // ATP needs nine tenths of each chunk, and sends no more. A host's line also carries the
        // ACKs of the chunk that it receives.
        let bytes = u64::from(hosts) * PACKETS * 1_400;
        let outcome = all_reduce(Shape::Ring, hosts, bytes, 0.9, "atp:paper");
        let packet_and_ack = wire_bytes(1_400 + 32 + 28) + wire_bytes(32 + 28);
        let packet_ps = duration_ps(packet_and_ack, 40_000_000_000);
        let ideal_ps = steps * (9 * PACKETS / 10 * packet_ps + one_way_ps() - PACKET_PS);
        let ratio = outcome.all_done_ps.unwrap() as f64 / ideal_ps as f64;
        assert!((0.97..1.03).contains(&ratio), "{hosts} hosts, ATP: {ratio}");
    }
}

/// An exact ring of 32 hosts and 1 MB. Each of its 62 steps is a job of a few packets without an
/// RTT sample, so ATP's longer first round trip counts 62 times. With FBKV sizes, DCTCP also needs
/// fewer packets.
#[test]
fn ring__of_exact_jobs_takes_atp_little_longer_than_dctcp() {
    let done_ps = |scheme: &str, sizes| {
        let point = Point {
            network_spec: star(32),
            traffic: Traffic::AllReduce(AllReduce { shape: Shape::Ring, bytes: 1_000_000 }),
            sizes,
            msr: Msr::EXACT,
            scheme: scheme.parse().unwrap(),
            ..Point::default()
        };
        point.run().all_done_ps.unwrap()
    };
    for (sizes, most) in [(Sizes::Fixed(1_400), 1.6), (Sizes::KeyValue, 3.4)] {
        let (atp_ps, dctcp_ps) =
            (done_ps("atp:paper", sizes.clone()), done_ps("dctcp-es", sizes.clone()));
        let ratio = atp_ps as f64 / dctcp_ps as f64;
        assert!(ratio < most && atp_ps < 2 * MS, "{sizes:?}: {atp_ps} ps, DCTCP {dctcp_ps} ps");
    }
}

/// A tree of seven hosts has two steps up and two down. A parent's line carries both children's
/// vectors.
#[test]
fn tree__takes_its_ideal_time() {
    const PACKETS: u64 = 200;
    let outcome = all_reduce(Shape::Tree, 7, PACKETS * 1_472, 1.0, "udp");
    assert_eq!(outcome.jobs.len(), 12);
    let ideal_ps = 4 * ((2 * PACKETS - 1) * PACKET_PS + one_way_ps());
    let ratio = outcome.all_done_ps.unwrap() as f64 / ideal_ps as f64;
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

/// Every transfer of every step receives its share, in spite of losses.
#[test]
fn all_reduce__every_transfer_gets_its_share() {
    for shape in [Shape::Ring, Shape::Tree] {
        for (scheme, share) in
            [("atp:paper", 0.5), ("atp:paper", 0.9), ("dctcp-ss", 0.8), ("pfabric-es", 0.9)]
        {
            let point = Point {
                network_spec: star(6),
                traffic: Traffic::AllReduce(AllReduce { shape, bytes: 200_000 }),
                sizes: Sizes::KeyValue,
                msr: msr(share),
                scheme: scheme.parse().unwrap(),
                background: vec!["4x0.6@4".parse::<Background>().unwrap().until(MS)],
                ..Point::default()
            };
            let outcome = point.run();
            let transfers = if shape == Shape::Ring { 60 } else { 10 };
            assert_eq!(outcome.jobs.len(), transfers, "{scheme}");
            for job in &outcome.jobs {
                assert!(
                    job.delivered >= job.needed && job.completion_ps.is_some(),
                    "{scheme}: {job:?}"
                );
                assert_eq!(job.needed, msr(share).needed(job.messages));
            }
            assert_eq!(outcome, point.run(), "{scheme}: the same seed");
        }
    }
}

/// A step begins when the previous step of its host is complete, so the total time is that of the
/// slowest chain.
#[test]
fn all_reduce__steps_wait_for_each_other() {
    let outcome = all_reduce(Shape::Ring, 4, 4 * 147_200, 1.0, "udp");
    let alone_ps = outcome.jobs.iter().map(|job| job.completion_ps.unwrap()).max().unwrap();
    assert_eq!(outcome.all_done_ps, Some(6 * alone_ps));
}

fn traced(trace: Trace, scheme: &str) -> Outcome {
    let point = Point {
        network_spec: star(4),
        traffic: Traffic::Trace(Arc::new(trace)),
        msr: msr(0.9),
        scheme: scheme.parse().unwrap(),
        ..Point::default()
    };
    point.run()
}

/// A trace runs with its jobs, messages and times.
#[test]
fn trace__runs_as_written() {
    let mut text = String::new();
    for at in 0..200 {
        text += &format!("{}.5 {} {} {}\n", at * 3, at % 3, 3, 1 + at * 7);
    }
    let trace: Trace = text.parse().unwrap();
    for scheme in SCHEMES {
        let outcome = traced(trace.clone(), scheme);
        let messages: Vec<u32> = outcome.jobs.iter().map(|job| job.messages).collect();
        assert_eq!(messages, [67, 67, 66], "{scheme}");
        assert_eq!(outcome.complete(), 3, "{scheme}");
        // The line is idle except for some microseconds after each message. A job is complete
        // shortly after the arrival of nine tenths of its messages.
        for job in &outcome.jobs {
            let needed_us = f64::from(9 * (job.needed - 1));
            let took_us = job.completion_ps.unwrap() as f64 / US as f64;
            assert!(
                (needed_us..needed_us + 9.0).contains(&took_us),
                "{scheme}: {took_us} {needed_us}"
            );
        }
        let again = trace.to_string().parse().unwrap();
        assert_eq!(traced(again, scheme), outcome, "{scheme}");
    }
}

/// Coflows become jobs between existing hosts, and all jobs complete.
#[test]
fn coflows__run_to_completion() {
    let text = "9 3\n1 0 3 0 1 2 2 5:3.0 8:6.0\n2 500 1 4 1 0:9.0\n3 1000 2 7 8 2 0:1.0 1:0.0\n";
    let coflows: Coflows = text.parse().unwrap();
    let sizes = Sizes::Fixed(1_000);
    let scale = Scale { hosts: 4, bytes: 400_000.0, duration_ps: MS / 10, sizes, seed: 1 };
    let trace = coflows.trace(&scale);
    let jobs = trace.jobs.len();
    for scheme in ["dctcp-es", "pfabric-es"] {
        let outcome = traced(trace.clone(), scheme);
        assert_eq!((outcome.complete(), outcome.jobs.len()), (jobs, jobs), "{scheme}");
    }
}

/// With tenants and background traffic, the point's own jobs have the same messages, and only these
/// jobs count.
#[test]
fn tenants__leave_the_point_s_own_jobs_alone() {
    for scheme in SCHEMES {
        let alone = Point {
            network_spec: star(8),
            load: 0.1,
            begins_ps: 20 * US,
            duration_ps: 200 * US,
            scheme: scheme.parse().unwrap(),
            ..Point::default()
        };
        let tenant = Tenant {
            pattern: Pattern::Permutation,
            sizes: Sizes::Fixed(5_000),
            gaps: Gaps::KeyValue,
            load: 0.2,
            begins_ps: 0,
            duration_ps: 300 * US,
            msr: msr(0.75),
        };
        let background = vec!["2x0.2@4".parse::<Background>().unwrap().until(300 * US)];
        let tenants = vec![tenant.clone(), tenant];
        let beside = Point { tenants, background, ..alone.clone() }.run();
        let alone = alone.run();
        assert_eq!((alone.approximate().count(), beside.approximate().count()), (8, 8));
        for (own, beside) in alone.jobs.iter().zip(beside.approximate()) {
            assert_eq!((own.messages, own.needed), (beside.messages, beside.needed));
        }
        assert_eq!(beside.jobs.len(), 24, "{scheme}");
        let theirs = |number| -> Vec<u32> {
            let jobs = beside.jobs.iter().filter(|job| job.tenant == number);
            jobs.map(|job| job.messages).collect()
        };
        assert_ne!(theirs(1), theirs(2), "tenants must have different seeds");
        assert!(beside.jobs.iter().all(|job| job.completion_ps.is_some()), "{scheme}");
        assert!(tenant_mean_ps(&beside, 1).is_some() && tenant_mean_ps(&beside, 3).is_none());
    }
}

/// The mean completion time of a tenant's jobs, picoseconds; `None` if one was never complete, or
/// there is none. A host that drew no message has no job.
fn tenant_mean_ps(outcome: &Outcome, number: u32) -> Option<u64> {
    let theirs = outcome.jobs.iter().filter(|job| job.tenant == number && job.messages > 0);
    let times: Vec<u64> = theirs.map(|job| job.completion_ps).collect::<Option<_>>()?;
    let sum: u128 = times.iter().map(|ps| u128::from(*ps)).sum();
    Some(sum.checked_div(times.len() as u128)? as u64)
}

/// A tenant's host that drew no message has no job, which would complete at once.
#[test]
fn tenant_mean__excludes_hosts_without_messages() {
    let tenant = Tenant {
        pattern: Pattern::Permutation,
        sizes: Sizes::Fixed(50_000),
        gaps: Gaps::Poisson,
        load: 0.05,
        begins_ps: 0,
        duration_ps: 200 * US,
        msr: Msr::EXACT,
    };
    let point = Point {
        network_spec: star(8),
        load: 0.1,
        duration_ps: 200 * US,
        scheme: "udp".parse().unwrap(),
        tenants: vec![tenant],
        ..Point::default()
    };
    let outcome = point.run();
    let theirs: Vec<_> = outcome.jobs.iter().filter(|job| job.tenant == 1).collect();
    let some: Vec<u64> = theirs
        .iter()
        .filter(|job| job.messages > 0)
        .map(|job| job.completion_ps.unwrap())
        .collect();
    assert!(theirs.len() == 8 && (1..8).contains(&some.len()), "{} of them send", some.len());
    let mean_ps = some.iter().sum::<u64>() / some.len() as u64;
    assert_eq!(tenant_mean_ps(&outcome, 1), Some(mean_ps));
}

/// A run reports its progress from the start to the end, and has the same outcome as without
/// reports.
#[test]
fn run_with_progress__reports_and_changes_nothing() {
    let shares = std::cell::RefCell::new(Vec::new());
    let drawn = Point {
        network_spec: star(8),
        duration_ps: 300 * US,
        pattern: Pattern::Incast(None),
        ..Point::default()
    };
    let ring = Traffic::AllReduce(AllReduce { shape: Shape::Ring, bytes: 100_000 });
    let ring = Point { traffic: ring, ..drawn.clone() };
    for point in [drawn, ring] {
        shares.borrow_mut().clear();
        let outcome = point.run_with_progress(&|share| shares.borrow_mut().push(share()));
        let shares = shares.borrow();
        assert!(shares.is_sorted() && shares.len() > 30, "{shares:?}");
        assert!(shares[0] < 0.1 && shares[shares.len() - 1] > 0.4, "{shares:?}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        assert_eq!(outcome, point.run());
    }
}

/// Sampling a job's laws does not change its completion time.
#[test]
fn timeline__only_observes() {
    let point = Point {
        network_spec: star(3),
        pattern: Pattern::Incast(None),
        begins_ps: 30 * US,
        duration_ps: 200 * US,
        background: vec!["3x0.5@4".parse::<Background>().unwrap().until(MS)],
        ..Point::default()
    };
    let began_ps = point.begins_ps;
    for (job, outcome) in point.run().jobs.iter().enumerate() {
        let samples = point.timeline(job, 5 * US, 10 * MS, None);
        let done_ps = samples.last().unwrap().at_ps;
        // The first message arrives soon after `began_ps`.
        let took_ps = done_ps - began_ps - outcome.completion_ps.unwrap();
        assert!(took_ps < 6 * US, "{took_ps} ps late");
        assert!(samples.last().unwrap().delivered >= outcome.needed);
        for sample in samples {
            assert!(sample.tlr_q16 <= 1 << 15 && (1..=4).contains(&sample.queue), "{sample:?}");
            // The line's rate, and one packet that began before.
            assert!(sample.sent_bytes <= 25_000 + 1_538, "{sample:?}");
        }
    }
    assert!(point.timeline(2, US, MS, None).is_empty(), "there are two jobs");
    let udp = Point { scheme: "udp".parse().unwrap(), ..point };
    assert!(udp.timeline(0, US, MS, None).is_empty(), "UDP has no laws");
}

/// NetApprox §7.1.5: heavy jobs of a low MSR hardly delay light jobs of a high MSR.
#[test]
fn tenants__with_a_low_msr_do_not_starve_a_light_job() {
    let network_spec = star(8);
    let alone = Point {
        network_spec,
        load: 0.2,
        begins_ps: 100 * US,
        duration_ps: 300 * US,
        msr: msr(0.875),
        ..Point::default()
    };
    let heavy = Tenant {
        pattern: Pattern::Permutation,
        sizes: Sizes::Hadoop,
        gaps: Gaps::Poisson,
        load: 0.8,
        begins_ps: 0,
        duration_ps: 600 * US,
        msr: msr(0.5),
    };
    let beside = Point { tenants: vec![heavy], ..alone.clone() };
    let mean = |outcome: Outcome| {
        let times = outcome.completions_us();
        assert_eq!(times.len(), 8);
        times.iter().sum::<f64>() / 8.0
    };
    let ratio = mean(beside.run()) / mean(alone.run());
    assert!((0.95..1.15).contains(&ratio), "{ratio} of the time alone");
}

/// Mean queues do not depend on the start time. The measurement begins with the first message and
/// ends when the last one could have left.
#[test]
fn queues__are_measured_while_messages_arrive() {
    let queues = |outcome: Outcome| {
        (outcome.queue_mean_bytes, outcome.queue_worst_bytes, outcome.queue_max_bytes)
    };
    // ATP's epochs follow its clock, not its messages, so its results differ slightly.
    let are_equal = |one: (u64, u64, u64), other: (u64, u64, u64)| {
        let ratio = one.0 as f64 / other.0 as f64;
        (0.9..1.1).contains(&ratio)
    };
    for scheme in SCHEMES {
        let are_equal = |one, other| {
            if scheme == "atp:paper" { are_equal(one, other) } else { one == other }
        };
        let drawn = |begins_ps| {
            let scheme = scheme.parse().unwrap();
            let (network_spec, pattern) = (star(8), Pattern::FanIn(3));
            let duration_ps = 100 * US;
            queues(
                Point { network_spec, pattern, begins_ps, duration_ps, scheme, ..Point::default() }
                    .run(),
            )
        };
        let at_once = drawn(0);
        assert!(at_once.0 > 100, "{scheme}: {at_once:?}");
        assert!(are_equal(drawn(700 * US), at_once), "{scheme}: {at_once:?}");
        let trace = |at_us: u64| {
            let line = |number: u64| format!("{at_us} {} 0 15000\n", 1 + number % 3);
            queues(traced((0..30).map(line).collect::<String>().parse().unwrap(), scheme))
        };
        // Each host's ten messages take 30 us of its line.
        let at_once = trace(0);
        assert!(at_once.1 > 3_000 && at_once.2 < 60 * at_once.1, "{scheme}: {at_once:?}");
        assert!(are_equal(trace(5_000), at_once), "{scheme}: {at_once:?}");
    }
}
