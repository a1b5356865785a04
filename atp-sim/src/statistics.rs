//! Means over seeds, and their intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;

/// The mean of a quantity over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the width of the mean's 95 % interval (Student's t); `None` with one seed.
    pub half_width_95: Option<f64>,
    /// The minimum over the seeds.
    pub least: f64,
    /// The maximum over the seeds.
    pub most: f64,
}

/// The probability below the upper end of a 95 % interval with two tails.
const BELOW_UPPER_END: f64 = 0.975;

impl Estimate {
    /// The estimate from one value per seed; `None` if a seed has no value, or there is no seed.
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { mean, half_width_95: half_width(&values, mean), least, most })
    }

    /// The estimate of the ratio of two quantities of the same seeds. The interval is of the ratios
    /// of single seeds, so it leaves out the differences between seeds that both quantities share.
    pub fn of_ratios(pairs: impl IntoIterator<Item = (Option<f64>, Option<f64>)>) -> Option<Self> {
        let ratio = |(own, other): (Option<f64>, Option<f64>)| {
            let (own, other) = own.zip(other)?;
            (other > 0.0).then(|| own / other)
        };
        Self::of(pairs.into_iter().map(ratio))
    }

    /// The lower end of the interval. With one seed it is the mean.
    pub fn low(&self) -> f64 {
        self.mean - self.half_width_95.unwrap_or(0.0)
    }

    /// The upper end of the interval. With one seed it is the mean.
    pub fn high(&self) -> f64 {
        self.mean + self.half_width_95.unwrap_or(0.0)
    }
}

/// Writes `mean ±half-width` with the precision of the formatter, or one decimal place.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(1);
        write!(f, "{:.places$}", self.mean)?;
        match self.half_width_95 {
            Some(half_width) => write!(f, " ±{half_width:.places$}"),
            None => Ok(()),
        }
    }
}

fn half_width(values: &[f64], mean: f64) -> Option<f64> {
    let degrees_of_freedom = values.len().checked_sub(1).filter(|degrees| *degrees > 0)? as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let deviation_of_mean = (squares / degrees_of_freedom / values.len() as f64).sqrt();
    let student = StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?;
    Some(student.inverse_cdf(BELOW_UPPER_END) * deviation_of_mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    /// Values from a table of Student's t.
    #[test]
    fn of__has_student_s_interval() {
        for (number, t) in [(2, 12.706), (3, 4.303), (10, 2.262), (20, 2.093)] {
            // Half of the values are 1 above the mean, and half of them 1 below.
            let values = (0..number).map(|at| if at % 2 == 0 { 6.0 } else { 4.0 });
            let estimate = Estimate::of(values.clone().map(Some)).unwrap();
            let squares: f64 = values.map(|value: f64| (value - estimate.mean).powi(2)).sum();
            let deviation = (squares / f64::from(number - 1) / f64::from(number)).sqrt();
            let got = estimate.half_width_95.unwrap() / deviation;
            assert!((got - t).abs() < 0.001, "{number} values: {got}");
            assert_eq!((estimate.least, estimate.most), (4.0, 6.0));
        }
    }

    #[test]
    fn of__needs_a_value_of_every_seed() {
        assert_eq!(Estimate::of([Some(1.0), None]), None);
        assert_eq!(Estimate::of([]), None);
        let one = Estimate::of([Some(3.0)]).unwrap();
        assert_eq!((one.mean, one.half_width_95, one.low(), one.high()), (3.0, None, 3.0, 3.0));
        assert_eq!((one.to_string(), format!("{one:.2}")), ("3.0".into(), "3.00".into()));
        let two = Estimate::of([Some(1.0), Some(1.0)]).unwrap();
        assert_eq!(format!("{two:.2}"), "1.00 ±0.00");
        assert_eq!(Estimate::of_ratios([(Some(1.0), Some(0.0))]), None);
    }

    /// The intervals from three normally distributed values contain the true mean in 95 % of cases.
    #[test]
    fn of__intervals_contain_the_true_mean() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        // A sum of twelve uniform values is close to normal (Irwin-Hall), with the mean 6.
        let mut normal = || (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>();
        let contain = (0..4_000).filter(|_| {
            let estimate = Estimate::of([normal(), normal(), normal()].map(Some)).unwrap();
            (estimate.low()..=estimate.high()).contains(&6.0)
        });
        // 3,800 are expected, with a standard deviation of 14.
        let number = contain.count();
        assert!((3_730..3_870).contains(&number), "{number}");
    }

    proptest! {
        /// Differences between seeds that both sides share leave no trace in the interval.
        #[test]
        fn of_ratios__pairs_the_seeds(
            others in proptest::collection::vec(0.1f64..1e6, 2..20), ratio in 0.1f64..10.0
        ) {
            let pairs = others.iter().map(|other| (Some(other * ratio), Some(*other)));
            let estimate = Estimate::of_ratios(pairs).unwrap();
            prop_assert!((estimate.mean / ratio - 1.0).abs() < 1e-9);
            prop_assert!(estimate.half_width_95.unwrap() < 1e-9 * ratio);
        }

        #[test]
        fn of__the_mean_is_within_the_extremes(
            values in proptest::collection::vec(-1e6f64..1e6, 1..20)
        ) {
            let estimate = Estimate::of(values.iter().copied().map(Some)).unwrap();
            let bounds = estimate.least - 1e-6..=estimate.most + 1e-6;
            prop_assert!(bounds.contains(&estimate.mean));
            prop_assert!(estimate.low() <= estimate.high());
        }
    }
}
