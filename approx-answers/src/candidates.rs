//! The keys that may have a rank: an interval of a chosen key must hold for each of them.
//!
//! A sample ranks first the keys that it overestimates, so that an ordinary interval of the first
//! of many equal keys seldom contains its total. Intervals that hold together for all keys that the
//! ranking might choose hold for those that it chooses. This set isn't known, but a larger one is
//! (Zrnic and Fithian 2024, "Locally simultaneous inference"): as long as each total is within its
//! reach, a key is chosen only if its total plus its reach is no smaller than that of enough other
//! keys minus theirs. Their estimates then are within twice the reaches.

use crate::Confidence;
use crate::spread::Spread;
use crate::students::Students;

/// The share of the risk that a total is beyond its reach. The intervals have the rest: most of it,
/// as they grow slowly with the number of candidates.
const REACH_SHARE: f64 = 0.1;

/// The keys of a ranking, each with twice its reach.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// The estimate of each key plus and minus twice the reach of its total.
    bounds: Vec<(f64, f64)>,
    /// The lower bounds, the largest first.
    lows: Vec<f64>,
    /// The upper bounds, the largest first.
    highs: Vec<f64>,
    confidence: Confidence,
}

impl Candidates {
    /// The keys with these estimates and spreads.
    pub fn new(
        totals: impl ExactSizeIterator<Item = (f64, Spread)>,
        confidence: Confidence,
    ) -> Self {
        let reach = divided(confidence, REACH_SHARE / totals.len().max(1) as f64);
        let mut students = Students::new(reach);
        let bounds: Vec<(f64, f64)> =
            totals.map(|(value, spread)| bounds(value, &spread, &mut students)).collect();
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = bounds.iter().map(of).collect();
            all.sort_unstable_by(|one, other| other.total_cmp(one));
            all
        };
        let (lows, highs) = (sorted(|bounds| bounds.0), sorted(|bounds| bounds.1));
        Self { bounds, lows, highs, confidence }
    }

    /// Whether each key may have a rank from `first` to `last`, counted from 0.
    fn of_ranks(&self, first: usize, last: usize) -> impl Iterator<Item = bool> {
        let low = self.lows.get(last).copied().unwrap_or(f64::NEG_INFINITY);
        let high = self.highs.get(first).copied().unwrap_or(f64::INFINITY);
        self.bounds.iter().map(move |bounds| bounds.1 >= low && bounds.0 <= high)
    }

    /// The level of each interval, so that those of the first `ranks` keys hold together.
    pub fn level_of_first(&self, ranks: usize) -> Confidence {
        let keys = self.of_ranks(0, ranks.saturating_sub(1)).filter(|is_one| *is_one).count();
        self.level(keys)
    }

    /// The level of the interval between the key of a rank and the next one.
    pub fn level_of_gap(&self, rank: usize) -> Confidence {
        let (mut one, mut next, mut both) = (0, 0, 0);
        for (of_one, of_next) in self.of_ranks(rank, rank).zip(self.of_ranks(rank + 1, rank + 1)) {
            one += usize::from(of_one);
            next += usize::from(of_next);
            both += usize::from(of_one && of_next);
        }
        // The interval between two keys holds in both directions.
        self.level((one * next).saturating_sub(both * (both + 1) / 2))
    }

    /// Bonferroni's level of each of these intervals.
    fn level(&self, intervals: usize) -> Confidence {
        divided(self.confidence, (1.0 - REACH_SHARE) / intervals.max(1) as f64)
    }
}

/// A level with this share of the risk.
fn divided(confidence: Confidence, share: f64) -> Confidence {
    Confidence::at_most(1.0 - (1.0 - confidence.level()) * share)
}

/// An estimate plus and minus twice the reach of its total.
fn bounds(value: f64, spread: &Spread, students: &mut Students) -> (f64, f64) {
    let variance = spread.variance();
    if variance == 0.0 {
        return (value, value);
    }
    let t = students.whole(spread.degrees_of_freedom().floor());
    let twice = 2.0 * t * variance.sqrt();
    // A rare key's total has the upper tail of a Poisson number, which is symmetric in its root.
    let tail = if value > 0.0 { t * t * variance / value } else { 0.0 };
    (value - twice, value + twice + tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Part;

    const P95: Confidence = Confidence::P95;

    /// A total with this variance.
    fn total(value: f64, variance: f64) -> (f64, Spread) {
        let part = Part {
            stratum: 0,
            sent: None,
            arrived: 1,
            nonzero: 1,
            square: variance,
            cube: 0.0,
            degrees_of_freedom: 49.0,
            extreme_share: 0.0,
            agrees: false,
            is_bounded: false,
            is_full: false,
            alike: 0,
        };
        (value, Spread::new(vec![part], f64::INFINITY))
    }

    fn of(totals: &[(f64, Spread)]) -> Candidates {
        Candidates::new(totals.iter().cloned(), P95)
    }

    fn risk_share(level: Confidence) -> f64 {
        0.05 * (1.0 - REACH_SHARE) / (1.0 - level.level())
    }

    fn assert_shares(candidates: &Candidates, ranks: usize, keys: f64, pairs: f64) {
        let found = risk_share(candidates.level_of_first(ranks));
        assert!((found / keys - 1.0).abs() < 1e-6, "{found} keys instead of {keys}");
        let found = risk_share(candidates.level_of_gap(ranks - 1));
        assert!((found / pairs - 1.0).abs() < 1e-6, "{found} pairs instead of {pairs}");
    }

    #[test]
    fn level__of_equal_keys_is_divided_by_all() {
        let candidates = of(&vec![total(1_000.0, 900.0); 50]);
        assert_shares(&candidates, 3, 50.0, 1_225.0);
    }

    #[test]
    fn level__of_keys_apart_is_divided_by_the_ranks() {
        let totals: Vec<(f64, Spread)> =
            (0..50).map(|key| total(1e6 / f64::from(key + 1).powi(2), 100.0)).collect();
        assert_shares(&of(&totals), 1, 1.0, 1.0);
        assert_shares(&of(&totals), 4, 4.0, 1.0);
    }

    #[test]
    fn level__of_two_keys_above_the_others() {
        let mut totals = vec![total(1_000.0, 900.0), total(990.0, 900.0)];
        totals.extend(vec![total(1.0, 1.0); 500]);
        assert_shares(&of(&totals), 1, 2.0, 1.0);
        assert_shares(&of(&totals), 2, 2.0, 1_000.0);
        // All others may have the third rank, and the fourth.
        assert_shares(&of(&totals), 3, 502.0, 500.0 * 499.0 / 2.0);
    }

    #[test]
    fn level__of_exact_totals_and_of_unknown_spreads() {
        let exact: Vec<(f64, Spread)> =
            [9.0, 8.0, 7.0].map(|value| (value, Spread::default())).into();
        assert_shares(&of(&exact), 2, 2.0, 1.0);
        let mut open = exact;
        open[2].1 = Spread::new(total(0.0, 1.0).1.parts, 0.5);
        assert_shares(&of(&open), 1, 2.0, 3.0);
        of(&[]).level_of_first(0);
    }
}
