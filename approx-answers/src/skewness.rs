//! Intervals of skewed estimates, by Hall's transformation.
//!
//! Student's t assumes that an estimate and its variance are independent. Of skewed totals they
//! aren't: a sample that lacks the large ones has a small sum and a small variance, and its
//! interval ends too low. Hall (1992, "On the removal of skewness by transformation", JRSS B 54)
//! transforms the studentized error T so that it is symmetric:
//!
//! `g(T) = T + a T^2 + b + a^2 T^3 / 3`, with `a = (3 B - A) / 6` and `b = A / 6`.
//!
//! A is the skewness of the estimate, and B its covariance with its own variance, both
//! standardized. For m of N messages with the skewness G1 and the missing share `w = 1 - m/N` they
//! are `A = G1 (2w - 1) / sqrt(w m)` and `B = G1 sqrt(w / m)`, the terms of Edgeworth's expansion
//! without replacement (Babu and Singh 1985, Journal of Multivariate Analysis 17). An infinite N
//! gives Hall's terms, with A = B.

use crate::part::Part;

/// Where a smaller share is missing, A is to B what it is at this one: A = -3 B. By its own terms A
/// grows without bound there, and the expansion fails. The sample knows the variance, and
/// Student's t covers.
const MISSING_SHARE_MIN: f64 = 0.2;
/// Below this the transformation is the identity, but for rounding.
const SLOPE_MIN: f64 = 1e-9;

/// The skewness of an estimate over strata.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Skewness {
    /// A: the third standardized cumulant of the estimate.
    pub own: f64,
    /// B: the standardized covariance of the estimate and its variance.
    pub with_variance: f64,
}

impl Skewness {
    /// The skewness of strata whose variances add up to `variance`. Third cumulants add up as well.
    pub fn new(parts: &[Part], variance: f64) -> Self {
        if variance <= 0.0 || !variance.is_finite() {
            return Self::default();
        }
        let least = (2.0 * MISSING_SHARE_MIN - 1.0) / MISSING_SHARE_MIN;
        let (mut own, mut with_variance) = (0.0, 0.0);
        for part in parts {
            let missing = part.missing_share();
            // Divided one by one: the power of a variance may overflow.
            let cube = part.cube / (part.arrived as f64).powi(2) / variance / variance.sqrt();
            own += cube * missing * (2.0 * missing - 1.0).max(least * missing);
            with_variance += cube * missing * missing;
        }
        // Third powers may overflow where variances don't: then the interval is symmetric.
        let is_finite = own.is_finite() && with_variance.is_finite();
        if is_finite { Self { own, with_variance } } else { Self::default() }
    }

    /// How much the estimate's tail matters. B counts twice: samples of heavy-tailed values that
    /// miss the truth lack the largest ones, and so look less skewed than others.
    pub fn size(self) -> f64 {
        self.own.abs().max(2.0 * self.with_variance.abs())
    }

    /// How far an interval reaches below and above its estimate, in standard errors, where a
    /// symmetric one reaches `quantile` to both sides.
    pub fn ends(self, quantile: f64) -> (f64, f64) {
        // T of values with a long right tail has a long left tail: the truth may be far above.
        (self.inverse(quantile).max(0.0), (-self.inverse(-quantile)).max(0.0))
    }

    /// The studentized error that `g` maps to `number`.
    fn inverse(self, number: f64) -> f64 {
        let (a, b) = ((3.0 * self.with_variance - self.own) / 6.0, self.own / 6.0);
        if a.abs() < SLOPE_MIN || !number.is_finite() {
            return number - b;
        }
        ((1.0 + 3.0 * a * (number - b)).cbrt() - 1.0) / a
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Delivery, Sample, Warning};

    /// The values of messages of one record each, and N.
    type Stratum<'a> = (&'a [f64], u64);

    fn sample(strata: &[Stratum]) -> Sample {
        let mut sample = Sample::new();
        for (stratum, &(values, sent)) in (0..).zip(strata) {
            sample.set_messages_sent(stratum, sent).unwrap();
            sample.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            values.iter().for_each(|&value| sample.push(stratum, 1, value).unwrap());
        }
        sample
    }

    fn even() -> Vec<f64> {
        (0..40u32).map(|i| f64::from(i * i % 37)).collect()
    }

    fn skewed() -> Vec<f64> {
        (0..50u32).map(|i| f64::from(1 << (i % 7))).collect()
    }

    /// The ends come from SciPy, by `python3 tests/data/hall.py`, which solves `g(T) = +-t`.
    #[test]
    fn ends__agree_with_roots_of_the_transformation() {
        let (even, skewed) = (even(), skewed());
        let p99 = Confidence::P99;
        let p95 = Confidence::P95;
        let cases: [(&[Stratum], Confidence, f64, f64); 4] = [
            (&[(&even, 200)], p95, 2_672.553_103_918, 4_057.114_741_280),
            (&[(&skewed, 200)], p95, 2_622.145_673_085, 4_786.746_952_538),
            // A fifth of the messages is taken to be missing.
            (&[(&skewed, 55)], p95, 886.463_394_952, 1_091.486_626_347),
            (&[(&skewed, 200), (&even, 70)], p99, 3_498.028_371_269, 6_471.826_390_010),
        ];
        for (strata, confidence, low, high) in cases {
            let sum = sample(strata).sum(confidence).unwrap();
            assert!((sum.low - low).abs() < 1e-6 && (sum.high - high).abs() < 1e-6, "{sum:.9}");
        }
    }

    #[test]
    fn ends__of_no_skewness_are_symmetric() {
        assert_eq!(Skewness::default().ends(1.96), (1.96, 1.96));
        let infinite = Skewness { own: 0.5, with_variance: 0.5 }.ends(f64::INFINITY);
        assert_eq!(infinite, (f64::INFINITY, f64::INFINITY));
    }

    /// Values with the opposite sign have the opposite interval.
    #[test]
    fn ends__turn_around_with_the_values() {
        for scale in [1e-6, 0.3, 1.0] {
            let skewness = Skewness { own: 0.7 * scale, with_variance: 0.9 * scale };
            let mirrored = Skewness { own: -skewness.own, with_variance: -skewness.with_variance };
            let (below, above) = skewness.ends(2.0);
            let (other_below, other_above) = mirrored.ends(2.0);
            assert!((below - other_above).abs() < 1e-9 && (above - other_below).abs() < 1e-9);
            assert!(below > 0.0 && above > below, "{below}, {above}");
        }
    }

    /// An estimate is in its interval, and a higher quantile has a wider one, at any skewness that
    /// a sample may have: G1 is at most sqrt(m).
    #[test]
    fn ends__grow_with_the_quantile() {
        let steps = |steps: u32| (0..=steps).map(move |i| f64::from(i) / f64::from(steps));
        for (own, with_variance) in steps(10).flat_map(|a| steps(10).map(move |b| (a, b))) {
            for own in [own, -3.0 * own] {
                let mut last = (0.0, 0.0);
                for quantile in steps(40).map(|step| 8.0 * step) {
                    let ends = Skewness { own, with_variance }.ends(quantile);
                    assert!(ends.0 >= last.0 && ends.1 >= last.1, "{own}, {with_variance}");
                    last = ends;
                }
            }
        }
    }

    #[test]
    fn size__warns_of_few_large_values_alone() {
        let is_heavy = |values: &[f64], sent| {
            let sum = sample(&[(values, sent)]).sum(Confidence::P95).unwrap();
            sum.warnings.iter().any(|warning| matches!(warning, Warning::HeavyTail { .. }))
        };
        // Two values are no tail, however skewed.
        let two: Vec<f64> = (0..300u32).map(|i| if i % 5 == 0 { 100.0 } else { 1.0 }).collect();
        assert!(!is_heavy(&two, 400) && !is_heavy(&two, 315) && !is_heavy(&even(), 400));
        assert!(!is_heavy(&two[..60], 400));
        let mut one = two;
        one[7] = 2_000.0;
        assert!(is_heavy(&one, 400));
    }
}
