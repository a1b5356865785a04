//! The flights, in three orders, and samples of their messages.

use std::path::PathBuf;
use std::sync::OnceLock;

use rand::{seq::SliceRandom, seq::index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

pub const RECORDS_PER_MESSAGE: usize = 15;
pub const MSR: f64 = 0.8;
pub const SEEDS: u64 = 1_000;

/// A flight with a known departure delay.
#[derive(Clone, Debug)]
pub struct Flight {
    pub carrier: String,
    pub dest: String,
    pub delay_min: f64,
}

/// Cargo's target folder, in which `cargo xtask` puts the table.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../data/flights.csv")
}

/// All flights, in the order of time.
pub fn flights() -> &'static [Flight] {
    static FLIGHTS: OnceLock<Vec<Flight>> = OnceLock::new();
    FLIGHTS.get_or_init(|| {
        let mut reader = csv::Reader::from_path(path()).unwrap();
        let header = reader.headers().unwrap().clone();
        let column = |name| header.iter().position(|found| found == name).unwrap();
        let (carrier, dest, delay) = (column("carrier"), column("dest"), column("dep_delay"));
        let flight = |record: csv::StringRecord| {
            let delay_min = record[delay].parse().ok()?;
            let (carrier, dest) = (record[carrier].to_owned(), record[dest].to_owned());
            Some(Flight { carrier, dest, delay_min })
        };
        let flights: Vec<Flight> = reader.records().filter_map(|r| flight(r.unwrap())).collect();
        assert_eq!(flights.len(), 328_521);
        flights
    })
}

/// The flights by time, by carrier and shuffled.
pub fn orders(flights: &[Flight]) -> [(&'static str, Vec<Flight>); 3] {
    let by_time = flights.to_vec();
    let mut by_carrier = by_time.clone();
    by_carrier.sort_by(|a, b| a.carrier.cmp(&b.carrier));
    let mut shuffled = by_time.clone();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(2));
    [("by time", by_time), ("by carrier", by_carrier), ("shuffled", shuffled)]
}

/// The numbers of the messages that arrive under a seed, in the order in which they were sent.
pub fn arrived(messages: usize, seed: u64) -> Vec<usize> {
    let size = (MSR * messages as f64).ceil() as usize;
    let mut arrived =
        index::sample(&mut ChaCha8Rng::seed_from_u64(seed), messages, size).into_vec();
    arrived.sort_unstable();
    arrived
}

/// Checks that 93 to 97 % of the seeds cover.
pub fn assert_coverage(what: &str, order: &str, covered: u64) {
    let share = covered as f64 / SEEDS as f64;
    println!("{what}, {order}: {share:.3} of seeds 0 to {}", SEEDS - 1);
    assert!((0.93..=0.97).contains(&share), "{what}, {order}: {share} of seeds 0 to {SEEDS}");
}

/// Checks that 93 to 97 % of the seeds cover, or that at most 5 % miss without a warning.
pub fn assert_coverage_or_warnings(what: &str, order: &str, covered: u64, unwarned: u64) {
    let [share, unwarned] = [covered, unwarned].map(|seeds| seeds as f64 / SEEDS as f64);
    println!("{what}, {order}: {share:.3} of seeds 0 to {}, {unwarned:.3} unwarned", SEEDS - 1);
    let is_fine = (0.93..=0.97).contains(&share) || unwarned <= 0.05;
    assert!(is_fine, "{what}, {order}: {share} cover, and {unwarned} miss without a warning");
}
