//! Messages one after the other.

use super::Sizes;
// Not the machine's own logarithm and power: they differ in the last bit, and so would runs.
use crate::engine::S;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Gaps between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// None: all are there at once.
    None,
    /// Exponential: messages come as a Poisson process.
    Poisson,
    /// Those of Facebook's key-value pool: generalised Pareto (Atikoglu et al., SIGMETRICS 2012, §5.3),
    /// scaled to the load.
    KeyValue,
}

/// Of the key-value pool's gaps.
const GAP_SHAPE: f64 = 0.154_971;

/// Messages of one application: when, and of how many bytes. The same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rng: ChaCha8Rng,
    sizes: Sizes,
    gaps: Gaps,
    gap_ps: f64,
    at_ps: f64,
    end_ps: u64,
    left: u32,
}

impl Arrivals {
    /// Until `end_ps`, at `bits_per_s` on the average, where a message of so many bytes takes
    /// `cost_bytes` of them.
    pub fn at_rate(
        seed: u64,
        sizes: &Sizes,
        gaps: Gaps,
        bits_per_s: f64,
        cost_bytes: impl Fn(u32) -> f64,
        end_ps: u64,
    ) -> Self {
        Self::every(seed, sizes, gaps, Self::gap_at_rate_ps(sizes, bits_per_s, cost_bytes), end_ps)
    }

    /// What lies between messages then, on the average. It takes milliseconds to find out, and is the same
    /// for all hosts: with hundreds of them, it is asked for once.
    pub fn gap_at_rate_ps(sizes: &Sizes, bits_per_s: f64, cost_bytes: impl Fn(u32) -> f64) -> f64 {
        sizes.mean(cost_bytes) * 8.0 / bits_per_s * S as f64
    }

    /// Until `end_ps`, with `gap_ps` between them on the average.
    pub fn every(seed: u64, sizes: &Sizes, gaps: Gaps, gap_ps: f64, end_ps: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            sizes: sizes.clone(),
            gaps,
            gap_ps,
            at_ps: 0.0,
            end_ps,
            left: u32::MAX,
        }
    }

    /// So many messages, all at once at `at_ps`.
    pub fn at_once(seed: u64, sizes: &Sizes, number: u32, at_ps: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            sizes: sizes.clone(),
            gaps: Gaps::None,
            gap_ps: 0.0,
            at_ps: at_ps as f64,
            end_ps: u64::MAX,
            left: number,
        }
    }

    fn gap_ps(&mut self) -> f64 {
        let left: f64 = 1.0 - self.rng.random_range(0.0..1.0);
        match self.gaps {
            Gaps::None => 0.0,
            Gaps::Poisson => -libm::log(left) * self.gap_ps,
            Gaps::KeyValue => {
                let scale = self.gap_ps * (1.0 - GAP_SHAPE);
                scale / GAP_SHAPE * (libm::pow(left, -GAP_SHAPE) - 1.0)
            }
        }
    }
}

impl Iterator for Arrivals {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        self.left = self.left.checked_sub(1)?;
        self.at_ps += self.gap_ps();
        let at_ps = self.at_ps as u64;
        (at_ps < self.end_ps).then(|| (at_ps, self.sizes.draw(&mut self.rng)))
    }
}

/// `number` of `total` messages, every choice as likely as any other (Knuth's algorithm S): what a
/// sender that samples sends.
pub fn sampled(
    messages: impl Iterator<Item = (u64, u32)>,
    seed: u64,
    number: u32,
    total: u32,
) -> impl Iterator<Item = (u64, u32)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut wanted, mut left) = (number, total);
    messages.filter(move |_| {
        let chosen = left > 0 && rng.random_range(0..left) < wanted;
        left = left.saturating_sub(1);
        wanted -= u32::from(chosen);
        chosen
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MS;

    #[test]
    fn at_rate__brings_what_it_says() {
        for (sizes, error) in [(Sizes::Fixed(1_000), 0.02), (Sizes::KeyValue, 0.03)] {
            for gaps in [Gaps::Poisson, Gaps::KeyValue] {
                let cost = |bytes| f64::from(bytes) + 66.0;
                let arrivals = Arrivals::at_rate(7, &sizes, gaps, 10e9, cost, 100 * MS);
                let bytes: f64 = arrivals.map(|(_, bytes)| cost(bytes)).sum();
                let bits_per_s = bytes * 8.0 / 0.1;
                assert!(
                    (bits_per_s / 10e9 - 1.0).abs() < error,
                    "{sizes:?}, {gaps:?}: {bits_per_s}"
                );
            }
        }
    }

    #[test]
    fn sampled__as_many_as_asked_for() {
        let all = || Arrivals::at_once(1, &Sizes::Fixed(9), 1_000, 5);
        for number in [0, 1, 500, 999, 1_000] {
            assert_eq!(sampled(all(), 3, number, 1_000).count(), number as usize);
        }
    }
}
