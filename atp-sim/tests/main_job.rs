//! The main job's model against TCP's, and against the kernel's measurements. The simulator is
//! deterministic and the seeds are fixed, so no bound depends on luck.

use atp_sim::experiment::{DaemonProfile, MainJob, MainJobOutcome, MainJobTransport, Scheme};
use switch_profiles::Profile;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;

/// Means over the seeds.
fn mean(job: &MainJob, of: fn(&MainJobOutcome) -> f64) -> f64 {
    means(job, SEEDS, |outcome| [of(outcome)])[0]
}

/// Means over `seeds` of several properties of the same runs.
fn means<const N: usize>(
    job: &MainJob,
    seeds: std::ops::RangeInclusive<u64>,
    of: impl Fn(&MainJobOutcome) -> [f64; N],
) -> [f64; N] {
    let number = seeds.clone().count() as f64;
    let outcomes = seeds.map(|seed| of(&MainJob { seed, ..job.clone() }.run()));
    outcomes.fold([0.0; N], |sums, values| {
        std::array::from_fn(|position| sums[position] + values[position] / number)
    })
}

fn atp(name: &str) -> MainJob {
    let scheme: Scheme = name.parse().unwrap();
    let transport = MainJobTransport::Atp(scheme.laws());
    MainJob { transport, profile: scheme.profile().clone(), ..MainJob::default() }
}

fn with(transport: MainJobTransport) -> MainJob {
    MainJob { transport, ..MainJob::default() }
}

/// As fast as TCP, next to nothing dropped, and exact requests as fast as alone. The seeds are
/// fixed, so no bound depends on luck.
#[test]
fn main_job__by_default_is_level_with_tcp_and_leaves_exact_requests_alone() {
    let (atp, tcp) = (atp("atp"), with(MainJobTransport::Tcp));
    let alone = with(MainJobTransport::Alone);
    let of_ideal = |outcome: &MainJobOutcome| outcome.of_ideal;
    let ratio = mean(&atp, of_ideal) / mean(&tcp, of_ideal);
    assert!(mean(&atp, of_ideal) < 1.06 && ratio < 1.01, "{ratio} of TCP's time");
    let dropped = mean(&atp, |outcome| outcome.dropped_share);
    assert!(dropped < 0.04, "{dropped}");
    for (of, most) in [
        ((|outcome| outcome.exact_median_s) as fn(&MainJobOutcome) -> f64, 1.1),
        (|outcome| outcome.exact_p99_s, 1.1),
    ] {
        let ratio = mean(&atp, of) / mean(&alone, of);
        assert!(ratio < most, "exact requests take {ratio} of their time alone");
        assert!(mean(&tcp, of) > 5.0 * mean(&alone, of), "TCP leaves them alone too");
    }
}

/// The lanes of all senders end together.
#[test]
fn main_job__shares_are_equal() {
    let share = mean(&atp("atp"), |outcome| outcome.first_s / outcome.completion_s);
    assert!(share > 0.98, "the first sender ends at {share} of the last one's time");
}

/// Without advice, deep queues are no worse than the paper's, and shares are as equal as there.
/// Each case is a bound of the last sender's time, as a share of the first one's.
#[test]
fn main_job__without_advice_shares_of_deep_queues_are_equal() {
    let paper = atp("atp:paper");
    for (case, bound, job) in [
        ("the default", 1.1, paper.clone()),
        ("little exact traffic", 1.12, MainJob { exact_load: 0.1, ..paper.clone() }),
        ("a fast line", 1.1, MainJob { rate_bytes_per_s: 125_000_000, ..paper.clone() }),
    ] {
        let deep = MainJob { profile: Profile::default(), ..job.clone() };
        let of = |outcome: &MainJobOutcome| {
            [outcome.completion_s, outcome.first_s, outcome.of_ideal, outcome.dropped_share]
        };
        let [last_s, first_s, of_ideal, dropped] = means(&deep, 1..=10, of);
        let [_, _, paper_of_ideal, paper_dropped] = means(&job, 1..=10, of);
        assert!(last_s < bound * first_s, "{case}: {first_s} s to {last_s} s");
        assert!(of_ideal < paper_of_ideal, "{case}: {of_ideal}, paper {paper_of_ideal}");
        // A short queue is empty and loses nothing while exact traffic leaves the line idle.
        assert!(dropped < paper_dropped + 0.05, "{case}: {dropped}, paper {paper_dropped}");
    }
}

/// Medians of `cargo xtask run`, from docs/src/results/main-job.md.
#[test]
fn main_job__takes_as_long_as_on_the_kernel() {
    let kernel =
        [(atp("atp"), 1.07), (atp("atp:paper"), 1.19), (with(MainJobTransport::Tcp), 1.05)];
    for (job, measured) in kernel {
        let simulated = mean(&job, |outcome| outcome.of_ideal);
        let error = simulated / measured - 1.0;
        assert!(error.abs() < 0.03, "{:?}: {simulated}, not {measured}", job.transport);
    }
}

/// Advice for a line that the host believes to be faster than it is still ends the job.
#[test]
fn main_job__with_a_wrong_line_rate() {
    for (known_line_share, most, dropped_most) in [(0.98, 1.07, 0.04), (1.2, 1.1, 0.25)] {
        let job = MainJob { known_line_share, ..atp("atp") };
        let of_ideal = mean(&job, |outcome| outcome.of_ideal);
        let dropped = mean(&job, |outcome| outcome.dropped_share);
        assert!(
            of_ideal < most && dropped < dropped_most,
            "{known_line_share}: {of_ideal} {dropped}"
        );
    }
}

/// TCP sees the same FIFO in both profiles. In one queue for all traffic, the law of the profile
/// leaves exact requests no slower than TCP does; the law for priority queues doesn't.
#[test]
fn main_job__in_one_queue_the_profile_s_law_is_fair() {
    let profile = Profile::one_queue();
    let law = profile.law().expect("the profile has one");
    let of = |outcome: &MainJobOutcome| outcome.of_ideal;
    let exact = |outcome: &MainJobOutcome| outcome.exact_median_s;
    let tcp = with(MainJobTransport::Tcp);
    let in_one_queue = |job: MainJob| MainJob { profile: profile.clone(), ..job };
    let ratio = mean(&in_one_queue(tcp.clone()), of) / mean(&tcp, of);
    assert!((ratio - 1.0).abs() < 0.01, "TCP takes {ratio} of its time");
    let tcp_s = mean(&in_one_queue(tcp), exact);
    let fair = in_one_queue(atp("atp"));
    assert_eq!(fair.run(), in_one_queue(atp(&format!("atp:full:{law}+advice+window"))).run());
    assert!(mean(&fair, of) < 1.1, "{}", mean(&fair, of));
    let fair_s = mean(&fair, exact);
    assert!(fair_s < tcp_s, "exact requests take {fair_s} s, beside TCP {tcp_s} s");
    let greedy_s = mean(&in_one_queue(atp("atp:paper+advice+window")), exact);
    assert!(greedy_s > 2.0 * tcp_s, "exact requests take {greedy_s} s, beside TCP {tcp_s} s");
}

/// Exact requests beside lanes that yield without advice, in one queue: completion of ideal, and
/// the requests' 99th percentile in that of requests alone.
fn yielding(change: impl Fn(MainJob) -> MainJob) -> (f64, f64) {
    let in_one_queue =
        |job: MainJob| change(MainJob { profile: Profile::one_queue(), seed: 1, ..job });
    let lanes = in_one_queue(atp("atp:full:yield+window")).run();
    let alone = in_one_queue(with(MainJobTransport::Alone)).run();
    (lanes.of_ideal, lanes.exact_p99_s / alone.exact_p99_s)
}

/// Drains that don't coincide leave a longer queue, and the job is as fast. Without any drain the
/// clocks would make no difference.
#[test]
fn main_job__clocks_that_differ_cost_little() {
    let of = |clock_offset_ns| yielding(|job| MainJob { clock_offset_ns, ..job });
    let (together, apart) = (of(0), of(100_000_000));
    assert_ne!(together, apart);
    assert!(apart.0 < 1.03 * together.0 && apart.1 < 2.5, "{apart:?}, not {together:?}");
}

/// The window allows for the time until ACKs are read: without that, reads every millisecond would
/// make the job take half as long again.
#[test]
fn main_job__acks_that_are_read_late() {
    let of = |read_interval_ns| yielding(|job| MainJob { read_interval_ns, ..job });
    for (interval_us, of_ideal, exact_p99) in [(100, 1.1, 2.5), (1_000, 1.15, 4.0)] {
        let late = of(interval_us * 1_000);
        assert!(late.0 < of_ideal && late.1 < exact_p99, "{interval_us} us: {late:?}");
    }
}

/// A queue of others' packets before the ACKs makes a job take twice as long, as under `polite`.
/// Were it taken for a queue of the lanes' own packets, the job would take 4.7 times as long.
#[test]
fn main_job__a_congested_path_of_acks() {
    let congested = yielding(|job| MainJob { reverse_flows: 1, ..job });
    assert!((1.5..3.0).contains(&congested.0) && congested.1 < 3.0, "{congested:?}");
}

/// Senders and receivers follow their own daemons' profiles, not the switch's. The bounds hold the
/// means of docs/src/results/one-queue.md, "Senders and receivers of different settings".
#[test]
fn main_job__senders_and_receivers_of_different_settings() {
    let (one_queue, default) = (Profile::one_queue(), Profile::default());
    let stated = |profile: &Profile| DaemonProfile::Stated(profile.clone());
    let of = |switch: &Profile, name: &str, sender_profile, receiver_profile| {
        let profile = switch.clone();
        MainJob { profile, sender_profile, receiver_profile, seed: 1, ..atp(name) }.run()
    };
    let alone = with(MainJobTransport::Alone).run();
    for switch in [&one_queue, &default] {
        // Both ends yield to the same exact traffic. DSCP 0 is in the same FIFO on any switch.
        let both = of(switch, "atp", stated(&one_queue), stated(&default));
        let once = of(switch, "atp", stated(&one_queue), DaemonProfile::Unstated);
        let ratio = both.of_ideal / once.of_ideal;
        assert!(once.of_ideal < 1.1 && (1.15..1.35).contains(&ratio), "{both:?} {once:?}");
        assert!(both.dropped_share + once.dropped_share < 0.001, "{both:?} {once:?}");
        assert!(both.exact_p99_s < 2.0 * alone.exact_p99_s, "{both:?} {alone:?}");
    }
    // No end yields: approximate queues lose what the line can't carry, and the line stays full.
    let neither = of(&default, "atp", stated(&default), stated(&one_queue));
    assert!(neither.of_ideal < 1.1 && (0.15..0.3).contains(&neither.dropped_share), "{neither:?}");
    assert!(neither.exact_p99_s < 1.1 * alone.exact_p99_s, "{neither:?} {alone:?}");
    // Without priorities it is the exact traffic that loses.
    let neither = of(&one_queue, "atp", stated(&default), stated(&one_queue));
    assert!(neither.exact_median_s > 100.0 * alone.exact_median_s, "{neither:?} {alone:?}");
    // A profile that is the switch's is no other one.
    let same = of(&default, "atp", stated(&default), stated(&default));
    assert_eq!(same, of(&default, "atp", DaemonProfile::OfSwitch, DaemonProfile::OfSwitch));
}
