//! Warnings about intervals that say too little: of counts, constant columns, thin strata and
//! denominators near 0.

use approx_answers::{
    AcceptedError, Action, Answering, Confidence, Delivery, Estimate, GroupBy, Planner, Reason,
    Sample, Warning,
};
use rand::{RngExt, seq::index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const P95: Confidence = Confidence::P95;

fn planner(share: f64, strata: u32) -> Planner {
    let accepted = AcceptedError::relative(share).unwrap();
    let mut planner = Planner::new(accepted, P95);
    (0..strata).for_each(|stratum| _ = planner.source_started(stratum, accepted.first_msr()));
    planner
}

#[test]
fn count__of_a_key_in_clusters_warns_when_it_misses() {
    let (mut misses, mut warned) = (0, 0);
    for seed in 0..1_000 {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        // One message of five has the key, as often as a Pareto number with an infinite variance.
        let clusters: Vec<usize> = (0..500)
            .map(|_| match draws.random_bool(0.2) {
                true => draws.random_range(1e-4f64..1.0).powf(-1.0 / 1.2) as usize,
                false => 0,
            })
            .collect();
        let mut by = GroupBy::new(2);
        by.set_messages_sent(0, clusters.len() as u64).unwrap();
        by.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in index::sample(&mut draws, clusters.len(), clusters.len() / 4) {
            let keys = std::iter::repeat_n("key", clusters[message]).chain(["other"; 3]);
            by.push_message(0, keys.map(|key| (key, 1.0))).unwrap();
        }
        let count = by.count(&"key", P95).unwrap();
        if !count.contains(clusters.iter().sum::<usize>() as f64) {
            misses += 1;
            let is_heavy = |warning: &Warning| matches!(warning, Warning::HeavyTail { .. });
            warned += u32::from(count.warnings.iter().any(is_heavy));
        }
    }
    assert!(misses > 100, "{misses}: no heavy tail, so the test would show nothing");
    assert!(f64::from(warned) >= 0.95 * f64::from(misses), "{warned} of {misses}");
}

/// A sample of messages of 15 records each.
fn equal(messages: u64, sent: u64) -> Sample {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, sent).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..messages).for_each(|i| sample.push(0, 15, i as f64).unwrap());
    sample
}

#[test]
fn count__of_equal_messages_allows_for_a_short_one() {
    let count = equal(80, 100).count(P95).unwrap();
    assert!(count.value == 1_500.0 && count.contains(1_489.0), "{count}");
    assert_eq!(count.warnings, [Warning::EqualCounts { messages: 80 }]);
    assert!(!count.warnings[0].is_doubt());
    assert_eq!(equal(100, 100).count(P95).unwrap().half_width(), 0.0);
}

#[test]
fn count__of_few_of_very_many_messages_is_finite() {
    let count = equal(40, u64::MAX).count(P95).unwrap();
    let share = count.half_width() / count.value;
    assert!((0.07..0.09).contains(&share), "{share}");
}

/// The half-width covers each number of empty messages that more than 5 % of samples miss.
#[test]
fn count__of_equal_messages_covers_as_it_states() {
    let sent = 200u64;
    for arrived in 2..sent {
        let reach = equal(arrived, sent).count(P95).unwrap().half_width() / 15.0;
        let mut chance_of_none = 1.0;
        for empty in 1..=sent - arrived {
            chance_of_none *= (sent - arrived - empty + 1) as f64 / (sent - empty + 1) as f64;
            let misses = empty as f64 > reach && chance_of_none > 0.05;
            assert!(!misses, "{arrived} arrived, {empty} are empty: {reach}, {chance_of_none}");
        }
    }
}

#[test]
fn count__of_equal_messages_ends_a_plan_by_the_rule_of_three() {
    let mut planner = planner(0.05, 1);
    let ended = (1..=10_000).find(|&messages| {
        let sample = equal(messages, 10_000);
        planner.is_look_due(messages)
            && planner.look(|c| Ok(vec![sample.count(c)?])).unwrap().contains(&Action::End)
    });
    assert!((60..=200).contains(&ended.unwrap()), "{ended:?}");
    let report = planner.report().unwrap();
    assert!(report.is_met() && report.reached > 0.01, "{report}");
}

#[test]
fn mean__of_a_constant_column_has_no_variation() {
    for value in [0.1, 0.3, 0.7, 1e9 + 0.1, -1.0 / 3.0] {
        for messages in [40u64, 30_000] {
            let mut sample = Sample::new();
            sample.set_messages_sent(0, 100_000).unwrap();
            sample.set_delivery(0, &Delivery::shuffled()).unwrap();
            for message in 0..messages {
                let records = 1 + message * 7 % 20;
                let total = (0..records).map(|_| value).sum();
                sample.push(0, records, total).unwrap();
            }
            let mean = sample.mean(P95).unwrap();
            assert_eq!(mean.warnings, [Warning::NoVariation { messages }], "{value}");
            assert_eq!(mean.half_width(), 0.0, "{value}");
            let actions = planner(0.1, 1).look(|c| Ok(vec![sample.mean(c)?])).unwrap();
            assert!(!actions.contains(&Action::End), "{value}: {actions:?}");
        }
    }
}

/// Only the messages with a key say something about its values.
#[test]
fn mean__of_a_key_of_one_value_counts_the_messages_with_it() {
    let mut by = GroupBy::new(2);
    by.set_messages_sent(0, 1_000).unwrap();
    by.set_delivery(0, &Delivery::shuffled()).unwrap();
    for message in 0..400 {
        let key = if message % 4 == 0 { "fixed" } else { "other" };
        by.push_message(0, [(key, 7.0)]).unwrap();
    }
    let mean = by.mean(&"fixed", P95).unwrap();
    assert_eq!(mean.warnings, [Warning::NoVariation { messages: 100 }]);
    assert!(mean.warnings[0].is_doubt());
}

#[test]
fn sum__of_totals_that_differ_by_rounding_has_no_variation() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 100).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    for message in 0..40 {
        // The same three records in another order.
        let total = if message % 2 == 0 { 0.1 + 0.2 + 0.3 } else { 0.3 + 0.2 + 0.1 };
        sample.push(0, 3, total).unwrap();
    }
    assert_eq!(sample.sum(P95).unwrap().warnings, [Warning::NoVariation { messages: 40 }]);
}

/// Means of timestamps: a variation far below the values, and far above rounding.
#[test]
fn mean__of_large_values_keeps_its_variation() {
    let mut sample = Sample::new();
    sample.set_messages_sent(0, 1_000).unwrap();
    sample.set_delivery(0, &Delivery::shuffled()).unwrap();
    let mut spread = Sample::new();
    spread.set_messages_sent(0, 1_000).unwrap();
    spread.set_delivery(0, &Delivery::shuffled()).unwrap();
    for message in 0..100u64 {
        let records = 1 + message % 20;
        let deviation = (message * 37 % 101) as f64 - 50.0;
        sample.push(0, records, records as f64 * 1.7e9 + 60.0 * deviation).unwrap();
        spread.push(0, records, 60.0 * deviation).unwrap();
    }
    let [found, expected] = [sample, spread].map(|s| s.mean(P95).unwrap().half_width());
    assert!((found / expected - 1.0).abs() < 0.03, "{found}, {expected}");
}

/// All 60 messages of the first sender arrived, and 100 of 120 of the second one. The key `a` is in
/// `own` messages of the first, and in `others` of the second; `value` gives its values.
fn of_two_senders(
    query: &str,
    [own, others]: [u32; 2],
    value: fn(u32) -> u32,
) -> (Estimate, Vec<Warning>) {
    let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").unwrap();
    for (stratum, arrived, sent, with_key) in [(0, 60, 60, own), (1, 100, 120, others)] {
        answering.set_messages_sent(stratum, sent).unwrap();
        answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for message in 0..arrived {
            let key = if message < with_key { "a" } else { "b" };
            let row = format!("{key},{}\n", value(message));
            answering.push_csv(stratum, row.as_bytes()).unwrap();
        }
    }
    let answers = answering.answers(P95).unwrap();
    let row = answers.rows.into_iter().find(|row| row.key == ["a"]).unwrap();
    (row.estimate, answers.warnings)
}

const QUERIES: [&str; 5] =
    ["sum(v) by k", "count(*) by k", "avg(v) by k", "median(v) by k", "top(2, k)"];

/// The part of a complete sender is known, also if few messages hold the key. That of the other one
/// is taken as 0, which the answer says.
#[test]
fn answers__of_a_key_of_complete_senders_are_in_no_doubt() {
    for query in QUERIES {
        for own in [1, 20, 50] {
            let (found, of_table) = of_two_senders(query, [own, 0], |message| message % 7);
            let expected = vec![Warning::KeyUnseenIn { stratum: 1, messages: 100 }];
            assert!(!expected[0].is_doubt());
            assert_eq!((found.warnings, of_table), (expected, vec![]), "{query}, {own}");
            // The rule of three bounds a count: messages of one record, 100 of 120 arrived.
            let bound =
                if query.starts_with("count") { 0.05f64.ln() / (1.0 / 6.0f64).ln() } else { 0.0 };
            assert_eq!(found.low, found.value, "{query}, {own}");
            assert!(
                (found.high - found.value - bound).abs() < 0.05,
                "{query}, {own}: {}",
                found.high
            );
        }
    }
}

/// A key of a complete sender may be in missing messages of another one only, as keys that are in
/// one of its messages each show.
#[test]
fn answers__of_a_key_that_an_incomplete_sender_may_have() {
    for query in ["sum(v) by k", "count(*) by k", "avg(v) by k", "median(v) by k"] {
        let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").unwrap();
        for (stratum, arrived, sent) in [(0, 60, 60), (1, 50, 100)] {
            answering.set_messages_sent(stratum, sent).unwrap();
            answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            // The second sender has each key once, half of them in missing messages.
            for message in 0..arrived {
                answering.push_csv(stratum, format!("k{message},5\n").as_bytes()).unwrap();
            }
        }
        let found = answering.answers(P95).unwrap().warnings;
        assert!(found.contains(&Warning::UnseenKeys { keys: Some(50.0) }), "{query}: {found:?}");
    }
}

/// A warning about few messages, or about those that agree, counts those of incomplete senders.
#[test]
fn warnings__count_messages_of_incomplete_senders() {
    for query in QUERIES {
        let (found, _) = of_two_senders(query, [50, 10], |message| 100 + message % 7);
        let few = Warning::FewMessages { messages: 10 };
        assert!(found.warnings.contains(&few), "{query}: {:?}", found.warnings);
    }
    for (query, messages) in [("avg(v) by k", 40), ("sum(v) by k", 100)] {
        let with_key = [50, messages as u32];
        let (found, _) = of_two_senders(query, with_key, |_| 7);
        let expected = vec![Warning::NoVariation { messages }];
        assert_eq!(found.warnings, expected, "{query}");
    }
    let (found, _) = of_two_senders("count(*) by k", [50, 100], |_| 7);
    assert_eq!(found.warnings, [Warning::EqualCounts { messages: 100 }]);
}

/// A key of no value has a sum of 0 so far, and rare values may be missing.
#[test]
fn sum__of_no_values_has_no_variation() {
    let mut answering = Answering::of_csv("sum(v) by k".parse().unwrap(), b"k,v\n").unwrap();
    answering.set_messages_sent(0, 1_000).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    (0..40).for_each(|_| answering.push_csv(0, b"a,NA\n").unwrap());
    let sum = answering.answers(P95).unwrap().rows.remove(0).estimate;
    assert!(sum.warnings.contains(&Warning::NoVariation { messages: 40 }), "{:?}", sum.warnings);
}

/// One stratum is skewed, of two values. Another has extreme messages, and nearly no part in the
/// variance.
#[test]
fn sum__of_skewed_and_of_extreme_strata_has_no_tail() {
    let heavy = |strata: &[fn(u32) -> f64]| {
        let mut sample = Sample::new();
        for (stratum, value) in (0..).zip(strata) {
            sample.set_messages_sent(stratum, 400).unwrap();
            sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            (0..60).for_each(|message| sample.push(stratum, 1, value(message)).unwrap());
        }
        let warnings = sample.sum(P95).unwrap().warnings;
        warnings.into_iter().find(|warning| matches!(warning, Warning::HeavyTail { .. }))
    };
    let two_values: fn(u32) -> f64 = |message| if message % 5 == 0 { 100.0 } else { 1.0 };
    let extreme: fn(u32) -> f64 = |message| if message == 7 { 1.0 } else { 0.0 };
    assert_eq!(heavy(&[two_values]), None);
    assert_eq!(heavy(&[two_values, extreme]), None);
    let tail = heavy(&[two_values, |message| if message == 7 { 1_000.0 } else { 0.0 }]);
    // The message is nearly all of its stratum's variance, and that is most of the sum's.
    assert!(matches!(tail, Some(Warning::HeavyTail { share, .. }) if share > 0.8), "{tail:?}");
}

/// Nine strata with 50 messages, and one with few.
fn with_thin(thin: u64) -> Sample {
    let mut sample = Sample::new();
    for stratum in 0..10u32 {
        sample.set_messages_sent(stratum, 1_000).unwrap();
        sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
        for message in 0..if stratum == 9 { thin } else { 50 } {
            sample.push(stratum, 1, 10.0 + (message * 7 % 5) as f64 / 2.0).unwrap();
        }
    }
    sample
}

#[test]
fn mean__names_the_stratum_that_opens_its_interval() {
    let mean = with_thin(1).mean(P95).unwrap();
    assert_eq!(mean.half_width(), f64::INFINITY);
    assert_eq!(mean.warnings, [Warning::ThinStratum { stratum: 9, messages: 1 }]);
    assert_eq!(with_thin(30).mean(P95).unwrap().warnings, []);
}

#[test]
fn look__asks_only_a_thin_stratum_for_more() {
    let mut planner = planner(0.05, 10);
    let sample = with_thin(1);
    let actions = planner.look(|c| Ok(vec![sample.mean(c)?])).unwrap();
    // All began with 0.95. The thin one gets 30 messages, and the others have enough.
    let lowered = |stratum| Action::Lower { stratum, msr: 0.475 };
    let expected = (0..10).map(lowered).chain([Action::Wait { messages: 9 * 50 + 30 }]);
    assert_eq!(actions, expected.collect::<Vec<_>>());
}

#[test]
fn ratio__of_a_denominator_near_zero_warns() {
    let ratio = |shift: f64| {
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 1_000).unwrap();
        sample.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..60 {
            sample.push_pair(0, f64::from(message % 7) - 3.1 + shift, f64::from(message)).unwrap();
        }
        sample
    };
    let is_near = |estimate: &Estimate| {
        let is_near = |warning: &Warning| matches!(warning, Warning::DenominatorNearZero { low, high } if low < high);
        estimate.warnings.iter().any(is_near)
    };
    assert!(is_near(&ratio(0.0).ratio(P95).unwrap()));
    assert!(!is_near(&ratio(5.0).ratio(P95).unwrap()));
    // No such interval meets an error.
    let mut planner = planner(1e9, 1);
    planner.source_ended(0);
    let sample = ratio(0.0);
    planner.look(|c| Ok(vec![sample.ratio(c)?])).unwrap();
    assert_eq!(planner.report().unwrap().because, Some(Reason::DenominatorNearZero));
}
