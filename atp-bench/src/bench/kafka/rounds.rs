//! The results of a scheme over its rounds.

use super::figure::{Figure, percentiles};
use super::row::{Cell, Outcome};

/// Medians over the rounds that have results.
pub struct Rounds {
    /// Whether it kept up in all rounds.
    pub keeps_up: bool,
    /// The 50th and the 99th percentile.
    pub latency_ms: (Option<Figure>, Option<Figure>),
    /// The share of the records that arrived, of all rounds together.
    pub arrived: f64,
    pub goodput_bytes_per_s: Option<Figure>,
    pub count_error: Option<Figure>,
    pub mean_error: Option<Figure>,
    pub records_per_processor_s: Option<Figure>,
    pub port_bytes_per_s: Option<Figure>,
    pub idle: Option<Figure>,
    /// The 50th and the 99th percentile.
    pub exact_ms: (Option<Figure>, Option<Figure>),
    /// Failures, schemes that don't keep up, and producers that were late.
    pub remarks: String,
}

impl Rounds {
    /// `outcomes`: those of this cell's rounds.
    pub fn new(cell: &Cell, outcomes: &[&Outcome]) -> Rounds {
        let good: Vec<&Outcome> =
            outcomes.iter().copied().filter(|outcome| outcome.failed.is_none()).collect();
        let over = |value: &dyn Fn(&Outcome) -> Option<f64>| {
            Figure::over(good.iter().filter_map(|outcome| value(outcome)))
        };
        let both = |values: &dyn Fn(&Outcome) -> &[f64]| {
            let p50 = over(&|outcome| percentiles(values(outcome)).0);
            (p50, over(&|outcome| percentiles(values(outcome)).1))
        };
        let sum = |value: fn(&Outcome) -> u64| good.iter().map(|o| value(o)).sum::<u64>() as f64;
        let answered = |outcome: &Outcome, error: f64| (outcome.answered > 0).then_some(error);
        Rounds {
            keeps_up: good.iter().all(|outcome| outcome.keeps_up()),
            latency_ms: both(&|outcome| &outcome.latency_ms),
            arrived: sum(|outcome| outcome.received) / sum(|outcome| outcome.records).max(1.0),
            goodput_bytes_per_s: over(&|outcome| outcome.goodput_bytes_per_s(cell)),
            count_error: over(&|outcome| answered(outcome, outcome.count_error)),
            mean_error: over(&|outcome| answered(outcome, outcome.mean_error)),
            records_per_processor_s: over(&Outcome::records_per_processor_s),
            port_bytes_per_s: over(&|outcome| Some(outcome.port_bytes_per_s)),
            idle: over(&|outcome| outcome.idle),
            exact_ms: both(&|outcome| &outcome.exact_ms),
            remarks: remarks(outcomes),
        }
    }
}

fn remarks(outcomes: &[&Outcome]) -> String {
    let failures = outcomes.iter().filter_map(|outcome| outcome.failed.as_ref());
    let mut remarks: Vec<String> = failures.map(|sentence| format!("failed: {sentence}")).collect();
    remarks.dedup();
    let measured = |outcome: &&&Outcome| outcome.failed.is_none() && outcome.windows > 0;
    let measured: Vec<&Outcome> = outcomes.iter().filter(measured).copied().collect();
    let some = |is_meant: &dyn Fn(&Outcome) -> bool| {
        let some = measured.iter().copied().filter(|outcome| is_meant(outcome));
        some.collect::<Vec<&Outcome>>()
    };
    let behind = some(&|outcome| !outcome.keeps_up());
    if !behind.is_empty() {
        let answered = behind.iter().map(|outcome| outcome.answered).sum::<usize>();
        let windows = behind.iter().map(|outcome| outcome.windows).sum::<usize>();
        let grows = Figure::over(behind.iter().map(|outcome| outcome.lag_growth));
        let grows = grows.map_or_else(String::new, |figure| {
            figure.text(|growth| format!("{growth:+.2}"), " s/s").replace('\n', ", ")
        });
        let rounds = match behind.len() == measured.len() {
            true => String::new(),
            false => format!(" in {} of {} rounds", behind.len(), measured.len()),
        };
        remarks.push(match answered {
            0 => format!("doesn't keep up{rounds}: no answer in time"),
            _ if answered == windows => format!("doesn't keep up{rounds}: {grows}"),
            _ => format!("doesn't keep up{rounds}: {grows}, {answered} of {windows} answers"),
        });
    }
    let intervals = measured.iter().map(|outcome| outcome.intervals);
    let (all, held) = intervals.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    if all > 0 {
        remarks.push(format!("{held} of {all} intervals held the mean"));
    }
    if !some(&Outcome::is_catching_up).is_empty() {
        remarks.push("still catching up with its start".to_owned());
    }
    let late = some(&Outcome::is_late);
    if !late.is_empty() {
        let most = late.iter().map(|outcome| outcome.behind_ms_max).fold(0.0, f64::max);
        remarks.push(format!("the producer was {most:.0} ms late"));
    }
    remarks.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{cell, outcome};
    use super::super::scheme::Scheme;
    use super::*;

    #[test]
    fn rounds__medians_of_each_round_s_percentiles() {
        let (first, second, third) = (outcome(1.0), outcome(101.0), outcome(11.0));
        let rounds = Rounds::new(&cell(Scheme::Atp, Some(0.8), 1), &[&first, &second, &third]);
        let text = |figure: Option<Figure>| figure.unwrap().text(|ms| format!("{ms:.0}"), " ms");
        assert_eq!(text(rounds.latency_ms.0), "60 ms\n50-150");
        assert_eq!(text(rounds.latency_ms.1), "109 ms\n99-199");
        assert!(rounds.keeps_up && rounds.remarks.is_empty());
    }

    #[test]
    fn remarks__of_failures_and_late_producers() {
        let failed = Outcome::failure("it fell".to_owned());
        let late = Outcome { behind_ms_max: 900.0, ..outcome(1.0) };
        assert_eq!(remarks(&[&failed, &late]), "failed: it fell; the producer was 900 ms late");
    }

    #[test]
    fn remarks__of_rounds_that_fall_behind() {
        let behind = |lag_growth, answered| Outcome { lag_growth, answered, ..outcome(1.0) };
        let (one, other) = (behind(0.25, 100), behind(0.75, 100));
        assert_eq!(remarks(&[&one]), "doesn't keep up: +0.25 s/s");
        assert_eq!(remarks(&[&one, &other]), "doesn't keep up: +0.50 s/s, +0.25-+0.75");
        let some = remarks(&[&behind(0.25, 90), &outcome(1.0)]);
        assert_eq!(some, "doesn't keep up in 1 of 2 rounds: +0.25 s/s, 90 of 100 answers");
        assert_eq!(remarks(&[&behind(0.0, 0)]), "doesn't keep up: no answer in time");
    }
}
