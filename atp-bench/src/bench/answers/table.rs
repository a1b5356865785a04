//! The table that a job sends, and the true answers.

use std::fmt::Write;

use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// About 400 messages of as many records as fit a packet.
const RECORDS: usize = 40_000;
const KEYS: u32 = 8;
/// The key of which a query counts the records.
pub const KEY: u32 = 4;

/// Records in time order.
pub struct Table {
    records: Vec<(u32, f64)>,
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
            // As the file has it.
            (key, (value * 1e3).round() / 1e3)
        };
        Self { records: (0..RECORDS).map(record).collect() }
    }

    /// The file: columns `key` and `v`.
    pub fn csv(&self) -> String {
        let mut text = "key,v\n".to_owned();
        for (key, value) in &self.records {
            let _ = writeln!(text, "C{key},{value:.3}");
        }
        text
    }

    pub fn sum(&self) -> f64 {
        self.records.iter().map(|(_, value)| value).sum()
    }

    pub fn mean(&self) -> f64 {
        self.sum() / self.records.len() as f64
    }

    /// The number of records with [`KEY`].
    pub fn count_of_key(&self) -> f64 {
        self.records.iter().filter(|(key, _)| *key == KEY).count() as f64
    }

    /// The 0.9 quantile.
    pub fn high(&self) -> f64 {
        let mut values: Vec<f64> = self.records.iter().map(|(_, value)| *value).collect();
        let position = (0.9 * values.len() as f64).ceil() as usize - 1;
        *values.select_nth_unstable_by(position, f64::total_cmp).1
    }
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
        let values = csv.lines().skip(1).map(|line| line.split_once(',').unwrap().1);
        let sum: f64 = values.map(|value| value.parse::<f64>().unwrap()).sum();
        assert!((sum - table.sum()).abs() < 1e-6);
    }
}
