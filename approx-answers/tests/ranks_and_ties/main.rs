//! Coverage of answers that the sample itself selects: the largest keys, and values with ties.
//!
//! `ATP_COVERAGE_JOBS` is the number of simulated jobs of each case, 200 by default. The tables
//! that the tests print are those of the book.

mod ranks;
mod ties;

use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use statrs::distribution::{Binomial, DiscreteCDF};

const RECORDS_PER_MESSAGE: usize = 15;

fn jobs() -> u64 {
    std::env::var("ATP_COVERAGE_JOBS").map_or(200, |jobs| jobs.parse().unwrap())
}

/// More misses than this occur in one of a million runs at most, if 5 % of the jobs miss: of 400
/// jobs 20 on average with a standard deviation of 4.4, and more than 44 with a probability of
/// 4e-7.
fn misses_max(jobs: u64) -> u64 {
    let misses = Binomial::new(0.05, jobs).unwrap();
    (0..jobs).find(|most| misses.sf(*most) <= 1e-6).unwrap()
}

/// The messages of a job that arrive, each with its records. Runs of `together` records stay in one
/// message.
fn arrived<T: Clone>(records: &[T], together: usize, msr: f64, seed: u64) -> (u64, Vec<Vec<T>>) {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let mut runs: Vec<&[T]> = records.chunks(together).collect();
    runs.shuffle(&mut draws);
    let mut messages: Vec<Vec<T>> =
        runs.chunks(RECORDS_PER_MESSAGE / together).map(|runs| runs.concat()).collect();
    let sent = messages.len();
    messages.truncate((msr * sent as f64).ceil() as usize);
    (sent as u64, messages)
}

fn percent(count: u64, of: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / of as f64)
}

#[test]
fn misses_max__of_400_jobs() {
    assert_eq!(misses_max(400), 44);
}
