use super::*;
use crate::{Delivery, Quantiles, Sample, Top};

fn planner(share: f64, sources: &[u32]) -> Planner {
    let accepted = AcceptedError::relative(share).unwrap();
    let mut planner = Planner::new(accepted, Confidence::P95);
    for &stratum in sources {
        planner.source_started(stratum, accepted.first_msr());
    }
    planner
}

fn sample(messages: u32, sent: u64, spread: f64) -> Sample {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, sent).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    for message in 0..messages {
        let deviation = f64::from(message % 7) - 3.0;
        sample.push(0, 10, 100.0 + spread * deviation).unwrap();
    }
    sample
}

fn look(planner: &mut Planner, sample: &Sample) -> Vec<Action> {
    planner.look(|confidence| Ok(vec![sample.sum(confidence)?])).unwrap()
}

#[test]
fn source_started__asks_for_the_first_msr() {
    let mut planner = planner(0.1, &[]);
    assert_eq!(planner.source_started(0, 0.9), None);
    // Nothing shows yet that fewer suffice.
    assert_eq!(planner.source_started(1, 1.0), None);
    let raise = planner.source_started(2, 0.2);
    assert_eq!(raise, Some(Action::Raise { stratum: 2, msr: 0.9 }));
    assert_eq!(planner.source_started(2, 0.2), None);
    assert!(!planner.is_look_due(29) && planner.is_look_due(30));
}

#[test]
fn look__awaits_the_sources_that_were_announced() {
    let sample = sample(120, 1_000, 1.0);
    type Hear = (&'static str, fn(&mut Planner));
    let hear: [Hear; 3] = [
        ("started", |planner| _ = planner.source_started(1, 0.9)),
        ("received", |planner| planner.source_known(1)),
        ("ended", |planner| planner.source_ended(1)),
    ];
    for (how, hear) in hear {
        let mut planner = planner(0.1, &[0]).with_sources(2);
        // The first source alone meets the error, and may even end before the other starts.
        assert!(!planner.is_look_due(120) && look(&mut planner, &sample).is_empty(), "{how}");
        planner.source_ended(0);
        assert!(!planner.is_look_due(120) && look(&mut planner, &sample).is_empty(), "{how}");
        assert_eq!((planner.report(), planner.looks), (None, 0), "{how}");
        hear(&mut planner);
        assert!(planner.is_look_due(120), "{how}");
        let expected = if how == "ended" { vec![] } else { vec![Action::End] };
        assert_eq!(look(&mut planner, &sample), expected, "{how}");
    }
}

#[test]
fn source_known__makes_no_requests_before_the_start() {
    let mut planner = planner(0.05, &[]);
    planner.source_known(0);
    let actions = look(&mut planner, &sample(40, 10_000, 20.0));
    assert!(matches!(actions[..], [Action::Wait { .. }]), "{actions:?}");
    let raise = planner.source_started(0, 0.5);
    assert_eq!(raise, Some(Action::Raise { stratum: 0, msr: 0.95 }));
    // Its end is awaited as well.
    planner.source_known(1);
    planner.source_ended(0);
    assert!(!planner.is_look_due(0));
}

#[test]
fn look__no_answers_meet_no_error() {
    let (mut planner, asked) = (planner(0.1, &[0]), std::cell::Cell::new(false));
    let sample = sample(120, 1_000, 1.0);
    let once = |confidence| match asked.replace(true) {
        false => Ok(vec![sample.sum(confidence)?]),
        true => Ok(vec![]),
    };
    assert_eq!(planner.look(once), Err(AnswerError::NoMessages));
    assert_eq!(planner.report(), None);
}

#[test]
fn look__ends_a_precise_job_at_once() {
    let mut planner = planner(0.1, &[0]);
    let sample = sample(120, 1_000, 1.0);
    assert_eq!(look(&mut planner, &sample), [Action::End]);
    let report = planner.report().unwrap();
    assert!(report.is_met() && report.reached < 0.01, "{report}");
    assert_eq!(report.estimates[0].confidence, Confidence::P95);
    let plain = sample.sum(Confidence::P95).unwrap();
    assert!(report.estimates[0].half_width() > plain.half_width());
    let again = sample.sum(report.level).unwrap();
    assert_eq!(again.half_width(), report.estimates[0].half_width());
    assert!(!planner.is_look_due(500) && look(&mut planner, &sample).is_empty());
}

#[test]
fn look__lowers_the_msr_to_some_multiple_of_what_the_variance_asks_for() {
    // 40 messages show how many suffice, and with too little certainty to lower an MSR.
    let mut planner = planner(0.05, &[0]);
    let [wait] = look(&mut planner, &sample(40, 10_000, 20.0))[..] else { panic!() };
    // A standard deviation of 40.5 beside a total of 100: about 250 messages, or 1.5 times as
    // many for the variance's bound.
    let Action::Wait { messages } = wait else { panic!("{wait:?}") };
    assert!((160..=450).contains(&messages), "{messages}");
    assert!(!planner.is_look_due(messages - 1) && planner.is_look_due(messages));
    assert_eq!(planner.report(), None);

    for (sent, share) in [(10_000, 0.75), (1_000_000, 0.5)] {
        let mut planner = self::planner(0.01, &[0]);
        let [lower, wait] = look(&mut planner, &sample(400, sent, 10.0))[..] else { panic!() };
        let Action::Wait { messages } = wait else { panic!("{wait:?}") };
        let Action::Lower { stratum: 0, msr } = lower else { panic!("{lower:?}") };
        // A standard deviation of 20: some 1,700 messages.
        assert!((1_500..=2_000).contains(&messages), "{messages}");
        let planned = 4.0 * messages as f64 / sent as f64;
        assert!((msr - planned.max(0.5 * 0.99)).abs() < 0.01 && msr <= share, "{msr}, {planned}");
    }
}

#[test]
fn look__never_raises_once_the_end_was_asked_for() {
    for is_ending in [false, true] {
        let mut planner = planner(0.1, &[0]);
        let sample = sample(120, 1_000, 90.0);
        planner.sources.get_mut(&0).unwrap().msr = Some(0.2);
        if is_ending {
            planner.source_ending(0);
        }
        let actions = look(&mut planner, &sample);
        let raises = |action: &Action| matches!(action, Action::Raise { stratum: 0, .. });
        assert_eq!(actions.iter().any(raises), !is_ending, "{actions:?}");
    }
}

#[test]
fn look__reports_what_was_reached_when_the_sources_end() {
    let mut planner = planner(0.001, &[0]);
    planner.source_ended(0);
    assert!(planner.is_look_due(5));
    assert_eq!(look(&mut planner, &sample(700, 1_000, 20.0)), []);
    let report = planner.report().unwrap();
    assert_eq!(report.because, Some(Reason::Ended { missing: Some(300) }));
    let said = report.to_string();
    assert!(said.contains("more than the 0.10 % accepted, because the senders"), "{said}");
}

#[test]
fn source_ended__of_an_unknown_source_ends_the_plan() {
    let mut planner = planner(0.1, &[]);
    assert!(!planner.is_look_due(0));
    planner.source_ended(0);
    assert_eq!(planner.source_started(0, 1.0), None);
    assert!(planner.is_look_due(12));
    assert_eq!(look(&mut planner, &sample(12, 12, 20.0)), []);
    assert!(planner.report().unwrap().is_met());
}

#[test]
fn look__names_an_answer_near_zero_and_one_of_few_messages() {
    let reason = |messages, mean| {
        let mut planner = planner(0.01, &[0]);
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 1_000).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..messages {
            sample.push(0, 1, mean + f64::from(message % 7) - 3.0).unwrap();
        }
        planner.source_ended(0);
        look(&mut planner, &sample);
        planner.report().unwrap().because
    };
    assert_eq!(reason(70, 0.0), Some(Reason::NearZero));
    assert_eq!(reason(20, 1e6), Some(Reason::FewMessages));
    assert_eq!(reason(70, 1e6), None);
}

/// The error may be small by chance, or another answer's.
#[test]
fn report__never_says_that_a_smaller_error_is_larger() {
    let report = |ratio: bool| {
        let mut planner = planner(0.1, &[0]);
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 1_000).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..if ratio { 60 } else { 20 } {
            let denominator = if ratio { f64::from(message % 7) - 3.1 } else { 1.0 };
            // A ratio of 2 whose denominator may be 0.
            sample
                .push_pair(0, denominator, 2.0 * denominator + 1e-4 * f64::from(message % 3))
                .unwrap();
        }
        planner.source_ended(0);
        planner.look(|confidence| Ok(vec![sample.ratio(confidence)?])).unwrap();
        planner.report().unwrap().clone()
    };
    for (ratio, because, words) in [
        (false, Reason::FewMessages, "of 10.00 % accepted, but too few messages carry"),
        (true, Reason::DenominatorNearZero, "of 10.00 % accepted, but a ratio's denominator"),
    ] {
        let report = report(ratio);
        assert!(report.reached < 0.1 && report.because == Some(because), "{report:?}");
        assert!(report.to_string().contains(words), "{report}");
    }
}

/// A constant key of value 0 meets the error. Another one misses it, and not because it may be 0.
#[test]
fn look__names_the_reason_of_the_answers_that_miss_the_error() {
    let mut planner = planner(0.01, &[0]);
    let (varies, mut zeros) = (sample(700, 1_000, 20.0), Sample::new());
    zeros.set_messages_sent(0, 1_000).unwrap();
    zeros.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..700).for_each(|_| zeros.push(0, 1, 0.0).unwrap());
    planner.source_ended(0);
    planner.look(|level| Ok(vec![zeros.mean(level)?, varies.sum(level)?])).unwrap();
    assert_eq!(planner.report().unwrap().because, Some(Reason::Ended { missing: Some(300) }));
}

#[test]
fn look__waits_for_an_answer_and_passes_errors_on() {
    let mut planner = planner(0.1, &[0]);
    let unknown = |_| Err(AnswerError::SentUnknown { stratum: 0 });
    assert_eq!(planner.look(unknown), Ok(vec![Action::Wait { messages: 60 }]));
    let overflow = AnswerError::Overflow { what: "sum" };
    assert_eq!(planner.look(|_| Err(overflow.clone())), Err(overflow.clone()));
    planner.source_ended(0);
    assert!(planner.look(unknown).is_err());
}

#[test]
fn look__an_open_interval_costs_no_confidence_and_needs_all_messages() {
    let mut planner = planner(0.5, &[0]);
    let mut quantiles = Quantiles::new(1);
    quantiles.set_messages_sent(0, 10_000).unwrap();
    quantiles.set_delivery(0, &Delivery::shuffled()).unwrap();
    let mut push = |messages: std::ops::Range<u32>, planner: &mut Planner| {
        for message in messages {
            let value = f64::from(message.wrapping_mul(2_654_435_761) >> 16);
            quantiles.push_message(0, [((), value)]).unwrap();
        }
        planner.look(|level| Ok(vec![quantiles.quantile(&(), 0.98, level)?])).unwrap()
    };
    let actions = push(0..40, &mut planner);
    assert!(actions.contains(&Action::Raise { stratum: 0, msr: 1.0 }), "{actions:?}");
    // Values up to 65,535 have a 98th percentile of 64,225.
    assert_eq!(push(40..2_000, &mut planner), [Action::End]);
    let report = planner.report().unwrap();
    assert!(report.is_met() && report.estimates[0].contains(64_225.0), "{report:?}");
    // Nearly all of the first plan's share was left.
    assert!(report.level.level() < 0.956, "{report:?}");
}

#[test]
fn look__a_ranking_of_messages_that_agree_or_are_few_is_not_met() {
    // The rule of three bounds a count, and no other total.
    for (keys, number, is_met) in [(1, 2.0, false), (3, 1.0, false), (1, 1.0, true)] {
        let mut planner = planner(0.5, &[0]);
        let mut top = Top::new(10);
        top.set_messages_sent(0, 1_000).unwrap();
        top.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..39 {
            top.push_message(0, [(message % keys, number)]).unwrap();
        }
        let largest = |level| {
            let ranks = top.largest(1, level)?.ranks;
            Ok(ranks.into_iter().map(|(_, estimate)| estimate).collect())
        };
        let actions = planner.look(largest).unwrap();
        assert_eq!(actions.contains(&Action::End), is_met, "{keys}: {actions:?}");
    }
}

#[test]
fn look__a_complete_job_meets_any_error() {
    let mut planner = planner(1e-9, &[0]);
    assert_eq!(look(&mut planner, &sample(50, 50, 20.0)), [Action::End]);
    assert_eq!(planner.report().unwrap().reached, 0.0);
}

/// After a doubt about the tail, a sample of the same skewness isn't enough.
#[test]
fn look__after_a_doubt_about_the_tail_asks_for_twice_the_messages() {
    // 1 of 20 messages is large, which is a skewness of 4.13 / sqrt(m).
    let ends_at = |first: u64| {
        let mut planner = planner(0.9, &[0]);
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 1_000_000).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 1..=10_000u64 {
            sample.push(0, 1, if message % 20 == 0 { 100.0 } else { 50.0 }).unwrap();
            let is_due = message >= first && planner.is_look_due(message);
            if is_due && look(&mut planner, &sample).contains(&Action::End) {
                assert!(planner.report().unwrap().is_met());
                return message;
            }
        }
        panic!("the plan doesn't end")
    };
    let least = (100.0 * 4.13f64.powi(2)) as u64;
    assert_eq!(ends_at(least + 20), least + 20);
    let found = ends_at(least - 20);
    assert!(found > 2 * least && (found as f64) < 1.25 * 2.1 * least as f64, "{found}, {least}");
}
