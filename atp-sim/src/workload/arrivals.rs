//! Draws the times and sizes of messages.

use super::Sizes;
use crate::engine::S;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The distribution of times between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// No gaps: all messages arrive at once.
    None,
    /// Exponential: messages arrive as a Poisson process.
    Poisson,
    /// The gaps of Facebook's key-value pool: generalized Pareto (Atikoglu et al., SIGMETRICS 2012,
    /// §5.3), scaled to the load.
    KeyValue,
}

/// The shape parameter of the key-value pool's gaps.
const GAP_SHAPE: f64 = 0.154_971;

/// The messages of one application: times and sizes. The same seed gives the same messages.
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
    /// The mean gap at a rate. The calculation takes milliseconds and its result is the same for
    /// all hosts, so call it once per network.
    pub fn gap_at_rate_ps(sizes: &Sizes, bits_per_s: f64, cost_bytes: impl Fn(u32) -> f64) -> f64 {
        sizes.mean(cost_bytes) * 8.0 / bits_per_s * S as f64
    }

    /// Messages until `end_ps`, with a mean gap of `gap_ps`.
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

    /// `number` messages at `at_ps`.
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

    // libm's logarithm and power are the same on all platforms. The standard library's differ in
    // the last bit, and so would runs.
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

/// Samples `number` of `total` messages uniformly (Knuth's algorithm S). SampleSend sends these.
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
    fn every__has_the_mean_rate_of_its_gap() {
        for (sizes, error) in [(Sizes::Fixed(1_000), 0.02), (Sizes::KeyValue, 0.03)] {
            for gaps in [Gaps::Poisson, Gaps::KeyValue] {
                let cost = |bytes| f64::from(bytes) + 66.0;
                let gap_ps = Arrivals::gap_at_rate_ps(&sizes, 10e9, cost);
                let arrivals = Arrivals::every(7, &sizes, gaps, gap_ps, 100 * MS);
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
    fn sampled__returns_the_requested_number() {
        let all = || Arrivals::at_once(1, &Sizes::Fixed(9), 1_000, 5);
        for number in [0, 1, 500, 999, 1_000] {
            assert_eq!(sampled(all(), 3, number, 1_000).count(), number as usize);
        }
    }
}
