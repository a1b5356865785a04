//! The paths to a peer in random order, each used equally often (NDP §3.1.1).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Path numbers, one for each path. The order changes after each pass through all of them.
#[derive(Debug)]
pub struct PathPermutation {
    paths: Vec<u32>,
    next: usize,
    rng: ChaCha8Rng,
}

impl PathPermutation {
    /// Takes `paths` in orders that `seed` determines.
    pub fn new(paths: Vec<u32>, seed: u64) -> Self {
        let next = paths.len();
        Self { paths, next, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The next path number; 0 if there is no path.
    pub fn next(&mut self) -> u32 {
        if self.next >= self.paths.len() {
            self.next = 0;
            for last in (1..self.paths.len()).rev() {
                self.paths.swap(last, self.rng.random_range(0..=last));
            }
        }
        self.next += 1;
        self.paths.get(self.next - 1).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths__every_one_before_any_again() {
        let mut paths = PathPermutation::new((10..34).collect(), 7);
        let mut orders = Vec::new();
        for _ in 0..10 {
            let order: Vec<u32> = (0..24).map(|_| paths.next()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (10..34).collect::<Vec<_>>());
            assert!(!orders.contains(&order), "the same order twice");
            orders.push(order);
        }
    }
}
