//! Student's quantiles for many intervals of one level.

use std::collections::BTreeMap;

use crate::Confidence;
use crate::spread::Spread;

/// Student's quantiles of one level for many intervals: a quantile takes far longer than the rest
/// of an interval.
pub(crate) struct Students {
    confidence: Confidence,
    /// By whole degrees of freedom.
    whole: BTreeMap<u64, f64>,
    /// Quantiles that were computed.
    pub computed: u64,
}

impl Students {
    pub fn new(confidence: Confidence) -> Self {
        Self { confidence, whole: BTreeMap::new(), computed: 0 }
    }

    /// Whether the interval of a value lies above 0.
    pub fn show_positive(&mut self, value: f64, spread: &Spread) -> bool {
        let (variance, degrees) = (spread.variance(), spread.degrees_of_freedom());
        if variance == 0.0 || !variance.is_finite() || value <= 0.0 {
            return variance == 0.0 && value > 0.0;
        }
        let deviation = variance.sqrt();
        // Quantiles fall with the degrees of freedom: whole ones around them decide nearly always.
        if value > self.whole(degrees.floor()) * deviation {
            return true;
        }
        if value <= self.whole(degrees.ceil()) * deviation {
            return false;
        }
        self.computed += 1;
        value > self.confidence.student(degrees) * deviation
    }

    /// The quantile of the degrees of freedom without their fraction: it is no smaller.
    pub fn whole(&mut self, degrees: f64) -> f64 {
        let Self { confidence, whole, computed } = self;
        *whole.entry(degrees as u64).or_insert_with(|| {
            *computed += 1;
            confidence.student(degrees)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Part;

    const P95: Confidence = Confidence::P95;

    #[test]
    fn show_positive__decides_as_the_exact_quantile_does() {
        for degrees in [0.5, 1.0, 1.5, 7.3, 48.99, 2_000.5, f64::INFINITY] {
            let t = P95.student(degrees);
            let part = Part {
                stratum: 0,
                sent: None,
                arrived: 1,
                nonzero: 1,
                agrees: false,
                is_bounded: false,
                is_full: false,
                alike: 0,
                square: 4.0,
                cube: 0.0,
                degrees_of_freedom: degrees,
                extreme_share: 0.0,
            };
            let spread = Spread::new(vec![part], f64::INFINITY);
            for (factor, is_above) in [(0.5, false), (0.999_999, false), (1.000_001, true)] {
                let is_above = is_above && degrees >= 1.0;
                let value = 2.0 * t * factor;
                assert_eq!(Students::new(P95).show_positive(value, &spread), is_above, "{degrees}");
            }
        }
    }
}
