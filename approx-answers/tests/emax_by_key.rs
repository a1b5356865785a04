//! A plan for a query by key: one accepted error, and one answer for each key that meets it.

use approx_answers::{
    AcceptedError, Action, Answering, Confidence, Delivery, Planner, Reason, Warning,
};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const ERROR: f64 = 0.1;
const SEEDS: u64 = 400;
/// Keys with their means, their spreads, and the share of the messages that hold them.
const KEYS: [(&str, f64, f64, f64); 3] =
    [("even", 100.0, 20.0, 1.0), ("rare", 50.0, 20.0, 0.2), ("wide", 10.0, 10.0, 0.6)];
/// Two groups of a job, of which each is a stratum, with their messages.
const SENT: [u64; 2] = [1_000, 2_000];

/// Rows of a message, by key: all rows of a key in a message resemble each other.
type Message = Vec<(usize, f64)>;

fn message(draws: &mut ChaCha8Rng) -> Message {
    let mut rows = Vec::new();
    for (key, &(_, mean, spread, share)) in KEYS.iter().enumerate() {
        let own = mean + spread * draws.random_range(-1.0..1.0);
        let count = if draws.random_bool(share) { draws.random_range(1..4) } else { 0 };
        rows.extend((0..count).map(|_| (key, own + spread * draws.random_range(-1.0..1.0))));
    }
    rows
}

#[test]
fn look_at__each_key_of_two_groups_meets_the_error_and_covers() {
    let mut draws = ChaCha8Rng::seed_from_u64(7);
    let mut messages: Vec<(u32, Message)> = Vec::new();
    for (stratum, sent) in (0..).zip(SENT) {
        messages.extend((0..sent).map(|_| (stratum, message(&mut draws))));
    }
    let mut truths = [(0.0, 0.0); 3];
    for (key, value) in messages.iter().flat_map(|(_, rows)| rows) {
        truths[*key] = (truths[*key].0 + value, truths[*key].1 + 1.0);
    }
    let mut covered = [0; 3];
    for seed in 0..SEEDS {
        messages.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let query = "avg(v) by k".parse().unwrap();
        let mut answering = Answering::new(query, &["k", "v"]).unwrap();
        let accepted = AcceptedError::relative(ERROR).unwrap();
        let mut planner = Planner::new(accepted, Confidence::P95).with_sources(2);
        for (stratum, sent) in (0..).zip(SENT) {
            answering.set_messages_sent(stratum, sent).unwrap();
            answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            planner.source_started(stratum, 1.0);
        }
        for (stratum, rows) in &messages {
            let rows = rows.iter().map(|(key, v)| [KEYS[*key].0.to_owned(), v.to_string()]);
            answering.push_message(*stratum, rows).unwrap();
            if planner.look_at(&answering).unwrap().contains(&Action::End) {
                break;
            }
        }
        let report = planner.report().expect("the error was met");
        assert!(report.is_met() && answering.messages() < 3_000, "seed {seed}");
        let rows = planner.answers(&answering).unwrap().rows;
        assert_eq!(rows.len(), KEYS.len());
        for (key, row) in rows.iter().enumerate() {
            let mean = &row.estimate;
            assert_eq!(row.key, [KEYS[key].0]);
            assert!(mean.half_width() <= ERROR * mean.value, "seed {seed}: {mean}");
            covered[key] += u64::from(mean.contains(truths[key].0 / truths[key].1));
        }
    }
    let shares = covered.map(|seeds| seeds as f64 / SEEDS as f64);
    assert!(shares.iter().all(|share| *share >= 0.93), "{shares:?} of seeds 0 to {SEEDS}");
}

/// The plan of a query by key of messages with two products, of which one has one price. The sender
/// has an MSR of its own, and ends there. Returns the messages that arrived, and all requests.
fn with_one_price(own_msr: f64, ends_in_doubt: bool) -> (Planner, u64, Vec<Action>) {
    let query = "avg(price) by product".parse().unwrap();
    let mut answering = Answering::new(query, &["product", "price"]).unwrap();
    let accepted = AcceptedError::relative(0.05).unwrap();
    let mut planner = Planner::new(accepted, Confidence::P95).end_in_doubt(ends_in_doubt);
    answering.set_messages_sent(0, 10_000).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    planner.source_started(0, own_msr);
    let mut requests = Vec::new();
    for message in 0..10_000u32 {
        if planner.report().is_some() || f64::from(message) >= own_msr * 10_000.0 {
            break;
        }
        let price = (100 + message.wrapping_mul(2_654_435_761) % 40).to_string();
        answering.push_message(0, [["fixed", "7"], ["varies", &price]]).unwrap();
        requests.extend(planner.look_at(&answering).unwrap());
    }
    planner.source_ended(0);
    requests.extend(planner.look_at(&answering).unwrap());
    (planner, answering.messages(), requests)
}

#[test]
fn look_at__a_key_whose_messages_agree_is_in_doubt_and_keeps_the_sender_s_msr() {
    let (planner, messages, requests) = with_one_price(0.5, false);
    let above = |action: &&Action| matches!(action, Action::Raise { msr, .. } if *msr > 0.5);
    assert_eq!(requests.iter().find(above), None, "{requests:?}");
    assert!(requests.contains(&Action::Lower { stratum: 0, msr: 0.5 }), "{requests:?}");
    assert_eq!(messages, 5_000);
    let report = planner.report().expect("the sources ended");
    assert_eq!(report.because, Some(Reason::InDoubt));
    assert_eq!(report.warnings(), [&Warning::NoVariation { messages }]);
    let text = report.to_string();
    assert!(text.contains("of 5.00 % accepted, but that is in doubt"), "{text}");

    // In doubt, and soon.
    let (planner, messages, requests) = with_one_price(0.5, true);
    assert!(
        (300..1_000).contains(&messages) && requests.contains(&Action::End),
        "{messages}: {requests:?}"
    );
    assert_eq!(planner.report().expect("an end").because, Some(Reason::InDoubt));

    // All messages agree, and none is missing.
    let (planner, messages, _) = with_one_price(1.0, false);
    assert!(messages == 10_000 && planner.report().expect("all arrived").is_met());
}
