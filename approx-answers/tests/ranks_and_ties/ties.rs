//! Quantiles of columns with ties: the share of a value may lie next to the rank.

use approx_answers::{Confidence, Delivery, Quantiles};

use crate::{arrived, jobs, misses_max, percent};

const P95: Confidence = Confidence::P95;
/// A column, a rank, the number of rows that stay in a message together, an MSR, and the messages.
type Case = (Column, f64, usize, f64, usize);

#[derive(Clone, Copy)]
enum Column {
    /// The values 0, 1 and so on, with these shares in percent.
    Shares(&'static [f64]),
    /// Exponential values, each of which occurs once.
    Continuous,
    /// Exponential values, rounded to whole numbers.
    Rounded,
}

use Column::{Continuous, Rounded, Shares};

const CASES: [Case; 26] = [
    (Shares(&[50.0, 49.9, 0.1]), 0.5, 1, 0.5, 400),
    (Shares(&[50.0, 45.0, 5.0]), 0.5, 1, 0.5, 400),
    (Shares(&[50.1, 49.8, 0.1]), 0.5, 1, 0.5, 400),
    (Shares(&[90.0, 9.9, 0.1]), 0.9, 1, 0.5, 400),
    (Shares(&[90.2, 9.7, 0.1]), 0.9, 1, 0.5, 400),
    (Shares(&[50.0, 49.9, 0.1]), 0.5, 5, 0.5, 400),
    (Shares(&[50.0, 49.9, 0.1]), 0.5, 1, 0.9, 400),
    (Shares(&[49.9, 50.0, 0.1]), 0.5, 1, 0.5, 400),
    (Shares(&[0.1, 49.8, 50.1]), 0.5, 1, 0.5, 400),
    (Shares(&[0.1, 49.9, 50.0]), 0.5, 1, 0.5, 400),
    (Shares(&[0.1, 9.9, 90.0]), 0.1, 1, 0.5, 400),
    (Shares(&[0.1, 9.8, 90.1]), 0.1, 1, 0.5, 400),
    (Shares(&[49.9, 0.2, 49.9]), 0.5, 1, 0.5, 400),
    (Shares(&[48.0, 2.0, 0.1, 2.0, 47.9]), 0.5, 1, 0.5, 400),
    (Shares(&[50.0, 50.0]), 0.5, 1, 0.5, 400),
    (Shares(&[5.0, 10.0, 20.0, 30.0, 35.0]), 0.5, 1, 0.5, 400),
    (Shares(&[5.0, 10.0, 20.0, 30.0, 35.0]), 0.65, 1, 0.5, 400),
    (Rounded, 0.5, 1, 0.5, 400),
    (Rounded, 0.9, 1, 0.5, 400),
    (Continuous, 0.5, 1, 0.5, 400),
    (Continuous, 0.9, 1, 0.5, 400),
    (Continuous, 0.5, 5, 0.5, 400),
    (Continuous, 0.98, 1, 0.5, 400),
    // Beyond 6,400 rows, sketches keep a part of them.
    (Shares(&[50.0, 49.9, 0.1]), 0.5, 1, 0.9, 4_000),
    (Shares(&[49.9, 50.0, 0.1]), 0.5, 1, 0.9, 4_000),
    (Continuous, 0.5, 1, 0.9, 4_000),
];

impl Column {
    fn values(self, count: usize) -> Vec<f64> {
        let exponential = |row: usize| -10.0 * (1.0 - (row as f64 + 0.5) / count as f64).ln();
        match self {
            Shares(percents) => {
                let rows = |percent: f64| (percent / 100.0 * count as f64).round() as usize;
                let of =
                    |(value, &share): (usize, &f64)| std::iter::repeat_n(value as f64, rows(share));
                percents.iter().enumerate().flat_map(of).collect()
            }
            Continuous => (0..count).map(exponential).collect(),
            Rounded => (0..count).map(|row| exponential(row).round()).collect(),
        }
    }

    fn name(self) -> String {
        match self {
            Shares(percents) => {
                percents.iter().map(f64::to_string).collect::<Vec<_>>().join("/") + " %"
            }
            Continuous => "exponential".to_owned(),
            Rounded => "exponential, rounded".to_owned(),
        }
    }
}

#[test]
fn quantile__covers_with_and_without_ties() {
    println!("| values | rank | together | MSR | messages | misses | mean half-width | no width |");
    println!("|---|---|---|---|---|---|---|---|");
    let jobs = jobs();
    let mut failures = Vec::new();
    for (column, rank, together, msr, messages) in CASES {
        let count = messages * crate::RECORDS_PER_MESSAGE;
        let values = column.values(count);
        assert_eq!(values.len(), count);
        let truth = values[(rank * count as f64 - 1e-6).ceil() as usize - 1];
        let (mut misses, mut width, mut points) = (0, 0.0, 0);
        for seed in 0..jobs {
            let (sent, arrived) = arrived(&values, together, msr, seed);
            let mut quantiles = Quantiles::new(1);
            quantiles.set_messages_sent(0, sent).unwrap();
            quantiles.set_delivery(0, &Delivery::shuffled()).unwrap();
            for values in arrived {
                quantiles.push_message(0, values.into_iter().map(|value| ((), value))).unwrap();
            }
            let found = quantiles.quantile(&(), rank, P95).unwrap();
            misses += u64::from(!found.contains(truth));
            width += found.half_width() / jobs as f64;
            points += u64::from(found.half_width() == 0.0);
        }
        let [missed, points] = [misses, points].map(|count| percent(count, jobs));
        let name = column.name();
        println!(
            "| {name} | {rank} | {together} | {msr} | {messages} | {missed} | {width:.4} | {points} |"
        );
        if misses > misses_max(jobs) {
            failures.push(format!("{name}, {rank}: {misses} of {jobs}"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
