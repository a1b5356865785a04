//! Senders of which nothing that arrived shows how their messages vary: no answer misses silently.

use approx_answers::{Answering, Confidence, Delivery};
use rand::{RngExt, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// A sender's messages in the order of arrival, and the number that arrive.
type Sender = (Vec<String>, usize);

/// Misses without a warning, of 200 jobs.
fn silent(
    query: &str,
    has_totals: bool,
    job: impl Fn(&mut ChaCha8Rng) -> Vec<Sender>,
    truth: impl Fn(&[(String, f64)]) -> f64,
) -> u32 {
    (0..200)
        .filter(|seed| {
            let senders = job(&mut ChaCha8Rng::seed_from_u64(*seed));
            let mut answering = Answering::of_csv(query.parse().unwrap(), b"k,v\n").unwrap();
            for (stratum, (messages, arrived)) in (0..).zip(&senders) {
                answering.set_messages_sent(stratum, messages.len() as u64).unwrap();
                answering.set_delivery(stratum, &Delivery::shuffled()).unwrap();
                for message in &messages[..*arrived] {
                    answering.push_csv(stratum, message.as_bytes()).unwrap();
                }
                if has_totals {
                    let records: usize = messages.iter().map(|text| text.lines().count()).sum();
                    let text = format!("records {records}\nmessages {}\n", messages.len());
                    answering.push_totals(stratum, text.as_bytes()).unwrap();
                }
            }
            let rows = senders.iter().flat_map(|(messages, _)| messages).flat_map(|m| m.lines());
            let rows: Vec<(String, f64)> = rows
                .map(|row| row.split_once(',').unwrap())
                .map(|(key, value)| (key.to_owned(), value.parse().unwrap_or(f64::NAN)))
                .collect();
            let answers = answering.answers(Confidence::P95).unwrap();
            let (_, found) = &answers.rows[0];
            !found.contains(truth(&rows)) && found.warnings.is_empty()
        })
        .count() as u32
}

fn shuffled(mut messages: Vec<String>, draws: &mut ChaCha8Rng) -> Vec<String> {
    messages.shuffle(draws);
    messages
}

fn sum(rows: &[(String, f64)]) -> f64 {
    rows.iter().map(|(_, value)| value).filter(|value| !value.is_nan()).sum()
}

/// Binomial(200, 5 %) exceeds 25 with a probability of 2e-5.
const SILENT_MAX: u32 = 25;

/// Ten of a sender's 300 messages have values, and none of them arrives in a third of the jobs.
#[test]
fn answers__of_a_sender_without_values_are_in_doubt() {
    let job = |arrived: usize| {
        move |draws: &mut ChaCha8Rng| {
            let varying = (0..300).map(|_| format!("a,{}\n", draws.random_range(0..10)).repeat(10));
            let varying: Vec<String> = varying.collect();
            let rare = (0..300).map(|i| if i < 10 { "b,1000\n" } else { "b,NA\n" }.repeat(10));
            vec![(varying, arrived), (shuffled(rare.collect(), draws), 30)]
        }
    };
    let mean = |rows: &[(String, f64)]| {
        sum(rows) / rows.iter().filter(|(_, value)| !value.is_nan()).count() as f64
    };
    for arrived in [150, 300] {
        for has_totals in [false, true] {
            let found = silent("sum(v)", has_totals, job(arrived), sum);
            assert!(found <= SILENT_MAX, "sum, {arrived}: {found}");
            let found = silent("avg(v)", has_totals, job(arrived), mean);
            assert!(found <= SILENT_MAX, "avg, {arrived}: {found}");
        }
    }
}

/// The ratios of the others agree, and their sums don't.
#[test]
fn sum__of_a_quiet_sender_beside_one_price_is_in_doubt() {
    let job = |draws: &mut ChaCha8Rng| {
        let price = (0..300).map(|_| "a,5\n".repeat(draws.random_range(8..13))).collect();
        let rare = (0..300).map(|i| if i < 15 { "a,1000\n" } else { "a,0\n" }.repeat(10));
        vec![(price, 60), (shuffled(rare.collect(), draws), 30)]
    };
    for query in ["sum(v)", "sum(v) by k"] {
        let found = silent(query, false, job, sum);
        assert!(found <= SILENT_MAX, "{query}: {found}");
    }
}

/// Messages with more records than those that arrived, which all have equally many.
#[test]
fn count__of_equal_messages_beside_others_has_a_warning() {
    let job = |draws: &mut ChaCha8Rng| {
        let varying = (0..300).map(|_| "K,1\n".repeat(draws.random_range(5..15))).collect();
        let rare = (0..300).map(|i| "K,1\n".repeat(if i < 15 { 100 } else { 10 })).collect();
        vec![(varying, 30), (shuffled(rare, draws), 30)]
    };
    for query in ["count(*)", "count(v)", "count(*) by k"] {
        let found = silent(query, false, job, |rows| rows.len() as f64);
        assert!(found <= SILENT_MAX, "{query}: {found}");
    }
}

/// Totals bound all records, and not those of a key.
#[test]
fn count__of_a_key_with_an_equal_share_has_a_warning_with_totals() {
    let job = |draws: &mut ChaCha8Rng| {
        let text =
            |i| if i < 10 { "K,1\n".repeat(10) } else { "K,1\n".to_owned() + &"Z,1\n".repeat(9) };
        vec![(shuffled((0..1_000).map(text).collect(), draws), 100)]
    };
    let of_key = |rows: &[(String, f64)]| rows.iter().filter(|(key, _)| key == "K").count() as f64;
    let found = silent("count(*) by k", true, job, of_key);
    assert!(found <= SILENT_MAX, "{found}");
}

/// All rows of a sender lie below the quantile, in messages of different numbers of rows.
#[test]
fn quantile__of_a_quiet_sender_allows_for_its_rare_values() {
    let job = |draws: &mut ChaCha8Rng| {
        let varying = |draws: &mut ChaCha8Rng| {
            (0..10).map(|_| format!("a,{}\n", draws.random::<f64>())).collect()
        };
        let varying: Vec<String> = (0..300).map(|_| varying(draws)).collect();
        let rare = (0..300)
            .map(|i| if i < 15 { "b,100\n" } else { "b,0\n" }.repeat(draws.random_range(7..14)));
        let rare: Vec<String> = rare.collect();
        vec![(varying, 150), (shuffled(rare, draws), 30)]
    };
    let truth = |rows: &[(String, f64)]| {
        let mut values: Vec<f64> = rows.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        values[(0.95 * values.len() as f64).ceil() as usize - 1]
    };
    let found = silent("quantile(v, 0.95)", false, job, truth);
    assert!(found <= SILENT_MAX, "{found}");
}

/// One message of 300 is missing, and holds no more than a 300th of the records.
#[test]
fn quantile__of_nearly_all_messages_is_bounded() {
    let mut answering = Answering::of_csv("quantile(v, 0.99)".parse().unwrap(), b"k,v\n").unwrap();
    answering.set_messages_sent(0, 300).unwrap();
    answering.set_delivery(0, &Delivery::shuffled()).unwrap();
    let draws = &mut ChaCha8Rng::seed_from_u64(1);
    for _ in 0..299 {
        let rows: String = (0..15).map(|_| format!("a,{}\n", draws.random::<f64>())).collect();
        answering.push_csv(0, rows.as_bytes()).unwrap();
    }
    let found = answering.answers(Confidence::P95).unwrap().rows.remove(0).1;
    assert!(found.half_width() < 0.01 && found.warnings.is_empty(), "{found}");
}
