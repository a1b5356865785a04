//! The table that a job sends, and the true answers.

use std::fmt::Write;

use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// About 400 messages of as many records as fit a packet.
const RECORDS: usize = 40_000;
const KEYS: u32 = 8;
/// The key whose answers are looked at, and the half of its records in queries of two keys.
const KEY: u32 = 4;
const HALF: char = 'b';
/// Conditions take the values above.
const HIGH: f64 = 20.0;

/// A record of the table.
struct Record {
    key: u32,
    half: char,
    value: f64,
}

/// Records in time order.
pub struct Table {
    records: Vec<Record>,
}

impl Table {
    /// Draws skewed values, which with `trend` grow to three times as much in the course of time.
    pub fn draw(seed: u64, trend: bool) -> Self {
        let mut draws = ChaCha8Rng::seed_from_u64(seed);
        let record = |i: usize| {
            let key = draws.random_range(0..KEYS);
            let growth = if trend { 2.0 * i as f64 / RECORDS as f64 } else { 0.0 };
            // An exponential distribution: as many records far above the mean as delays have.
            let skewed = -draws.random_range(f64::MIN_POSITIVE..1.0).ln();
            let value = (10.0 + f64::from(key)) * (1.0 + growth) * (0.5 + skewed);
            let half = if draws.random() { 'a' } else { HALF };
            // As the file has it.
            Record { key, half, value: (value * 1e3).round() / 1e3 }
        };
        Self { records: (0..RECORDS).map(record).collect() }
    }

    /// The file: columns `key`, `half` and `v`.
    pub fn csv(&self) -> String {
        let mut text = "key,half,v\n".to_owned();
        for Record { key, half, value } in &self.records {
            let _ = writeln!(text, "C{key},{half},{value:.3}");
        }
        text
    }

    /// The values of the records of this kind.
    fn values(&self, is_wanted: impl Fn(&Record) -> bool) -> Vec<f64> {
        self.records.iter().filter(|one| is_wanted(one)).map(|record| record.value).collect()
    }

    fn all(&self) -> Vec<f64> {
        self.values(|_| true)
    }

    fn of_key(&self) -> Vec<f64> {
        self.values(|record| record.key == KEY)
    }

    pub fn sum(&self) -> f64 {
        self.all().iter().sum()
    }

    pub fn mean(&self) -> f64 {
        mean(&self.all())
    }

    pub fn count_of_key(&self) -> f64 {
        self.of_key().len() as f64
    }

    pub fn mean_of_both_keys(&self) -> f64 {
        mean(&self.values(|record| record.key == KEY && record.half == HALF))
    }

    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    pub fn variance(&self) -> f64 {
        variance(&self.all())
    }

    pub fn deviation_of_key(&self) -> f64 {
        variance(&self.of_key()).sqrt()
    }

    pub fn mean_of_half(&self) -> f64 {
        mean(&self.values(|record| record.half == HALF))
    }

    pub fn count_of_high(&self) -> f64 {
        self.values(|record| record.value > HIGH).len() as f64
    }

    pub fn sum_of_high(&self) -> f64 {
        self.values(|record| record.value > HIGH && record.key == KEY).iter().sum()
    }

    /// The 0.9 quantile.
    pub fn high(&self) -> f64 {
        let mut values = self.all();
        let position = (0.9 * values.len() as f64).ceil() as usize - 1;
        *values.select_nth_unstable_by(position, f64::total_cmp).1
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// With n - 1, as `variance` has it.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    squares / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw__is_of_its_seed_and_as_the_file_has_it() {
        let table = Table::draw(7, true);
        assert_eq!(table.csv(), Table::draw(7, true).csv());
        assert_ne!(table.csv(), Table::draw(8, true).csv());
        let csv = table.csv();
        let values = csv.lines().skip(1).map(|line| line.rsplit_once(',').unwrap().1);
        let sum: f64 = values.map(|value| value.parse::<f64>().unwrap()).sum();
        assert!((sum - table.sum()).abs() < 1e-6);
    }
}
