//! The main job's model against TCP's, and against the kernel's measurements. The simulator is
//! deterministic and the seeds are fixed, so no bound depends on luck.

use atp_sim::experiment::{MainJob, MainJobOutcome, MainJobTransport, Scheme};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;

/// Means over the seeds.
fn mean(job: &MainJob, of: fn(&MainJobOutcome) -> f64) -> f64 {
    let outcomes = SEEDS.map(|seed| MainJob { seed, ..job.clone() }.run());
    outcomes.map(|outcome| of(&outcome)).sum::<f64>() / SEEDS.count() as f64
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
