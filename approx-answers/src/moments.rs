//! Moments of messages: how many, their means, and how they vary together.

pub(crate) mod squares;

use serde::{Deserialize, Serialize};

use crate::total::Total;

/// Sums of the squares of m messages that cancel leave this share of them behind, times sqrt(m):
/// a random walk of rounding errors.
const ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Sums of third powers that cancel leave this share of them behind, divided by sqrt(m).
const ROUNDING_OF_CUBES: f64 = 4.0 * ROUNDING;
/// Totals of equal records differ by this share, in the order in which they were added up.
const ROUNDING_OF_TOTALS: f64 = 1e-13;

/// A number of a message, and the messages that were found to have it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alike {
    number: f64,
    messages: u64,
}

impl Alike {
    /// One message with this number.
    pub fn of(number: f64) -> Self {
        Self { number, messages: 1 }
    }

    pub fn number(self) -> f64 {
        self.number
    }

    pub fn messages(self) -> u64 {
        self.messages
    }

    pub fn merge(&mut self, other: Self) {
        let difference = (self.number - other.number).abs();
        let is_alike = difference <= ROUNDING_OF_TOTALS * (self.number.abs() + other.number.abs());
        if is_alike && self.messages > 0 {
            self.messages += other.messages;
        } else if other.messages > self.messages {
            *self = other;
        }
    }
}

/// Counts, means and central sums of messages. A message has two numbers: `x`, the records (or a
/// denominator), and `y`, the total of a column.
///
/// Parallel forms of Welford's recurrence, so that merging equals one stream and a large mean
/// costs no precision (Chan, Golub and LeVeque 1983; third powers: Pebay 2008).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Moments {
    messages: u64,
    /// Messages of which `x` or `y` isn't zero: those that hold a key.
    nonzero: u64,
    pub(crate) mean_x: f64,
    pub(crate) mean_y: f64,
    /// The sums.
    total_x: Total,
    total_y: Total,
    pub(crate) squares_x: f64,
    pub(crate) squares_y: f64,
    pub(crate) products: f64,
    /// Sums of the third powers of residuals: `x x x`, `x x y`, `x y y` and `y y y`.
    pub(crate) cubes: [f64; 4],
    /// A message, and the number of those with its ratio `y / x`, itself included: of the messages
    /// that `nonzero` counts, the most that were found alike.
    pub(crate) common: (f64, f64),
    alike: u64,
    /// The most messages with one `x`, and the most with one `y`.
    pub(crate) alike_x: Alike,
    pub(crate) alike_y: Alike,
    /// The smallest and the largest `x`.
    pub(crate) range_x: (f64, f64),
    /// The messages with the smallest and the largest `y`: `x` and `y`.
    pub(crate) smallest: (f64, f64),
    pub(crate) largest: (f64, f64),
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            messages: 0,
            nonzero: 0,
            mean_x: 0.0,
            mean_y: 0.0,
            total_x: Total::default(),
            total_y: Total::default(),
            squares_x: 0.0,
            squares_y: 0.0,
            products: 0.0,
            cubes: [0.0; 4],
            common: (0.0, 0.0),
            alike: 0,
            alike_x: Alike::default(),
            alike_y: Alike::default(),
            range_x: (f64::INFINITY, f64::NEG_INFINITY),
            smallest: (0.0, f64::INFINITY),
            largest: (0.0, f64::NEG_INFINITY),
        }
    }
}

impl Moments {
    /// Adds a message.
    pub fn push(&mut self, x: f64, y: f64) {
        self.push_totals(Total::of(x), Total::of(y));
    }

    /// Adds a message whose numbers are sums of records.
    pub(crate) fn push_totals(&mut self, total_x: Total, total_y: Total) {
        let is_nonzero = total_x.value() != 0.0 || total_y.value() != 0.0;
        self.push_counted(total_x, total_y, is_nonzero);
    }

    /// As [`Self::push_totals`]. `is_nonzero`: whether the message brings a degree of freedom.
    pub(crate) fn push_counted(&mut self, total_x: Total, total_y: Total, is_nonzero: bool) {
        let (x, y) = (total_x.value(), total_y.value());
        self.merge(&Self {
            messages: 1,
            nonzero: u64::from(is_nonzero),
            mean_x: x,
            mean_y: y,
            total_x,
            total_y,
            common: (x, y),
            alike: u64::from(is_nonzero),
            alike_x: Alike { number: x, messages: u64::from(is_nonzero) },
            alike_y: Alike { number: y, messages: u64::from(is_nonzero) },
            range_x: (x, x),
            smallest: (x, y),
            largest: (x, y),
            ..Self::default()
        });
    }

    /// Adds the messages of another stream.
    pub fn merge(&mut self, other: &Self) {
        if other.messages == 0 {
            return;
        }
        if self.messages == 0 {
            *self = *other;
            return;
        }
        let (own, others) = (self.messages as f64, other.messages as f64);
        let (own_share, share) = (own / (own + others), others / (own + others));
        let (x, y) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        // How much a stream's squares add to third powers around the new mean.
        let xx = own_share * other.squares_x - share * self.squares_x;
        let xy = own_share * other.products - share * self.products;
        let yy = own_share * other.squares_y - share * self.squares_y;
        let scale = own * share * (own_share - share);
        let shift = [
            3.0 * x * xx + scale * x * x * x,
            2.0 * x * xy + y * xx + scale * x * x * y,
            2.0 * y * xy + x * yy + scale * x * y * y,
            3.0 * y * yy + scale * y * y * y,
        ];
        for (i, shift) in shift.into_iter().enumerate() {
            self.cubes[i] += other.cubes[i] + shift;
        }
        self.messages += other.messages;
        self.nonzero += other.nonzero;
        self.mean_x += x * share;
        self.mean_y += y * share;
        self.total_x.add(&other.total_x);
        self.total_y.add(&other.total_y);
        self.squares_x += other.squares_x + x * x * own * share;
        self.squares_y += other.squares_y + y * y * own * share;
        self.products += other.products + x * y * own * share;
        if is_alike(self.common, other.common) && self.alike > 0 {
            self.alike += other.alike;
        } else if other.alike > self.alike {
            (self.common, self.alike) = (other.common, other.alike);
        }
        self.alike_x.merge(other.alike_x);
        self.alike_y.merge(other.alike_y);
        let (least, most) = self.range_x;
        self.range_x = (least.min(other.range_x.0), most.max(other.range_x.1));
        if other.smallest.1 < self.smallest.1 {
            self.smallest = other.smallest;
        }
        if other.largest.1 > self.largest.1 {
            self.largest = other.largest;
        }
    }

    /// Adds messages whose two numbers are zero: those without a key.
    pub fn add_zeros(&mut self, messages: u64) {
        let zeros = (0.0, 0.0);
        let (range_x, smallest, largest) = (zeros, zeros, zeros);
        self.merge(&Self { messages, range_x, smallest, largest, ..Self::default() });
    }

    /// The moments of `all` messages, of which those that aren't in `self` have a `y` of zero and
    /// keep their `x`: a key's totals beside the records of all keys.
    pub(crate) fn among(&self, all: &Self) -> Self {
        let mut of_y = *self;
        of_y.add_zeros(all.messages - self.messages);
        // Sums over these messages of y, y y, and the products with x around its mean here.
        let messages = self.messages as f64;
        let (y, yy) = (self.mean_y, self.squares_y + messages * self.mean_y * self.mean_y);
        let [_, xxy, xyy, _] = self.cubes;
        // They move to the mean over all messages. The others add nothing, as their y is zero.
        let shift = self.mean_x - all.mean_x;
        let products = self.products + shift * messages * y;
        let xxy = xxy + y * self.squares_x + shift * (2.0 * self.products + shift * messages * y);
        let xyy = xyy + 2.0 * y * self.products + shift * yy;
        let mean = of_y.mean_y;
        let cubes =
            [all.cubes[0], xxy - mean * all.squares_x, xyy - 2.0 * mean * products, of_y.cubes[3]];
        // The `x` of a message without the key isn't known one by one.
        let with_x = |(x, y): (f64, f64)| if y == 0.0 { (all.mean_x, y) } else { (x, y) };
        Self {
            mean_x: all.mean_x,
            total_x: all.total_x,
            squares_x: all.squares_x,
            products,
            cubes,
            range_x: all.range_x,
            smallest: with_x(of_y.smallest),
            largest: with_x(of_y.largest),
            ..of_y
        }
    }

    /// The moments of these messages with `x` in the place of `y`, and no `x`.
    pub(crate) fn x_as_y(&self) -> Self {
        Self {
            messages: self.messages,
            nonzero: self.nonzero,
            mean_y: self.mean_x,
            total_y: self.total_x,
            squares_y: self.squares_x,
            cubes: [0.0, 0.0, 0.0, self.cubes[0]],
            alike_y: self.alike_x,
            range_x: (0.0, 0.0),
            smallest: (0.0, self.range_x.0),
            largest: (0.0, self.range_x.1),
            ..Self::default()
        }
    }

    /// Messages of which `x` or `y` isn't zero.
    pub fn nonzero(&self) -> u64 {
        self.nonzero
    }

    /// The number of nonzero messages that were found to have one ratio `y / x`.
    pub(crate) fn alike(&self) -> u64 {
        self.alike
    }

    /// The number of nonzero messages that were found to have one `y`.
    pub(crate) fn alike_y(&self) -> u64 {
        self.alike_y.messages
    }

    /// The third central moment of the residuals `y - slope * x`, divided by n. Exactly 0 if
    /// rounding explains it.
    pub fn third_moment_of_residuals(&self, slope: f64) -> f64 {
        if self.squares_of_residuals(slope) == 0.0 {
            return 0.0;
        }
        let [xxx, xxy, xyy, yyy] = self.cubes;
        let sum = yyy - slope * (3.0 * xyy - slope * (3.0 * xxy - slope * xxx));
        // Third powers cancel before squares do, as for means of timestamps. Those of m numbers are
        // about their squares to the power of 1.5, over sqrt(m).
        let squares = self.squares_y + slope * slope * self.squares_x;
        if sum.abs() <= ROUNDING_OF_CUBES * squares * squares.sqrt() {
            return 0.0;
        }
        sum / self.messages.max(1) as f64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// The number of messages.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The mean of `x` over messages.
    pub fn mean_x(&self) -> f64 {
        self.sum_x() / self.messages.max(1) as f64
    }

    /// The mean of `y` over messages.
    pub fn mean_y(&self) -> f64 {
        self.sum_y() / self.messages.max(1) as f64
    }

    /// The sum of `x`.
    pub fn sum_x(&self) -> f64 {
        self.total_x.value()
    }

    /// The sum of `y`.
    pub fn sum_y(&self) -> f64 {
        self.total_y.value()
    }

    /// The sums of `x` and `y`, with what rounding took from them.
    pub(crate) fn totals(&self) -> [&Total; 2] {
        [&self.total_x, &self.total_y]
    }

    /// The largest absolute `x`: the most that one message can explain.
    pub fn largest_x(&self) -> f64 {
        if self.messages == 0 { 0.0 } else { self.range_x.0.abs().max(self.range_x.1.abs()) }
    }

    /// The smallest `x`; infinite without messages.
    pub(crate) fn smallest_x(&self) -> f64 {
        self.range_x.0
    }

    /// The share of the squares of the residuals `y - slope * x` that one message holds: that with
    /// the smallest or the largest `y`, or more if the residuals' skewness shows it.
    pub fn extreme_share(&self, slope: f64) -> f64 {
        let squares = self.squares_of_residuals(slope);
        if squares.is_nan() || squares <= 0.0 {
            return 0.0;
        }
        let distance = |(x, y): (f64, f64)| (y - self.mean_y) - slope * (x - self.mean_x);
        let distance = distance(self.smallest).abs().max(distance(self.largest).abs());
        // Another message may have the largest residual. The third powers add up to at most the
        // squares times that residual.
        let cubes = self.third_moment_of_residuals(slope) * self.messages as f64 / squares;
        let largest = distance.max(cubes.abs());
        (largest * largest / squares).min(1.0)
    }

    /// The variance of `x`, divided by n - 1; 0 for fewer than two messages.
    pub fn variance_x(&self) -> f64 {
        self.x_as_y().variance_y()
    }

    /// The variance of `y`, divided by n - 1; 0 for fewer than two messages.
    pub fn variance_y(&self) -> f64 {
        self.variance_of_residuals(0.0)
    }

    /// The covariance of `x` and `y`, divided by n - 1.
    pub(crate) fn covariance(&self) -> f64 {
        self.per_degree(self.products)
    }

    /// The variance of the residuals `y - slope * x`, divided by n - 1.
    pub fn variance_of_residuals(&self, slope: f64) -> f64 {
        self.per_degree(self.squares_of_residuals(slope))
    }

    /// Exactly 0 if rounding explains it. NaN stays, so that an overflow is seen.
    fn squares_of_residuals(&self, slope: f64) -> f64 {
        let squares = |x: f64, y: f64| y + slope * slope * x;
        let residual = squares(self.squares_x, self.squares_y) - 2.0 * slope * self.products;
        let messages = self.messages as f64;
        let cancelled = ROUNDING * messages.sqrt() * squares(self.squares_x, self.squares_y);
        let means = squares(self.mean_x * self.mean_x, self.mean_y * self.mean_y);
        let rounded = ROUNDING_OF_TOTALS * ROUNDING_OF_TOTALS * messages * means;
        if residual <= cancelled.max(rounded) { 0.0 } else { residual }
    }

    fn per_degree(&self, squares: f64) -> f64 {
        squares / (self.messages.saturating_sub(1).max(1)) as f64
    }
}

/// Whether two messages have the same ratio, but for rounding.
fn is_alike(one: (f64, f64), other: (f64, f64)) -> bool {
    let (left, right) = (one.1 * other.0, other.1 * one.0);
    (left - right).abs() <= ROUNDING_OF_TOTALS * (left.abs() + right.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(messages: &[(f64, f64)]) -> Moments {
        let mut moments = Moments::default();
        messages.iter().for_each(|&(x, y)| moments.push(x, y));
        moments
    }

    fn assert_close(one: &Moments, other: &Moments, scale: f64) {
        assert_eq!(one.messages, other.messages);
        let near = |a: f64, b: f64, scale: f64| {
            assert!((a - b).abs() <= 1e-9 * scale, "{one:?} {other:?}");
        };
        near(one.mean_x, other.mean_x, scale);
        near(one.mean_y, other.mean_y, scale);
        near(one.squares_x, other.squares_x, scale * scale);
        near(one.squares_y, other.squares_y, scale * scale);
        near(one.products, other.products, scale * scale);
        let cubes = one.cubes.into_iter().zip(other.cubes);
        cubes.for_each(|(one, other)| near(one, other, scale * scale * scale));
    }

    fn messages() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((-1e3..1e3, -1e3..1e3), 0..60)
    }

    proptest! {
        #[test]
        fn merge__equals_one_stream(left in messages(), right in messages()) {
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let both: Vec<_> = left.into_iter().chain(right).collect();
            assert_close(&merged, &of(&both), 1e5);
        }

        #[test]
        fn add_zeros__equals_pushed_zeros(present in messages(), zeros in 0u64..50) {
            let mut at_once = of(&present);
            at_once.add_zeros(zeros);
            let mut one_by_one = of(&present);
            (0..zeros).for_each(|_| one_by_one.push(0.0, 0.0));
            assert_close(&at_once, &one_by_one, 1e5);
        }

        #[test]
        fn among__equals_pushed_messages(present in messages(), others in messages()) {
            let mut all = of(&present);
            others.iter().for_each(|&(x, y)| all.push(x, y));
            let mut pushed = of(&present);
            others.iter().for_each(|&(x, _)| pushed.push(x, 0.0));
            let among = of(&present).among(&all);
            assert_close(&among, &pushed, 1e5);
            prop_assert!((among.sum_x() - pushed.sum_x()).abs() < 1e-6);
            prop_assert!((among.sum_y() - pushed.sum_y()).abs() < 1e-6);
        }

        #[test]
        fn push__scales_and_shifts(m in messages(), scale in 0.1f64..10.0, shift in -1e3f64..1e3) {
            let moved: Vec<_> = m.iter().map(|&(x, y)| (x, scale * y + shift)).collect();
            let (one, other) = (of(&m), of(&moved));
            let expected = scale * scale * one.variance_y();
            prop_assert!((other.variance_y() - expected).abs() <= 1e-9 * (1.0 + expected));
        }
    }

    #[test]
    fn push__a_large_mean_costs_no_precision() {
        let moments =
            of(&[(0.0, 1e9 + 4.0), (0.0, 1e9 + 7.0), (0.0, 1e9 + 13.0), (0.0, 1e9 + 16.0)]);
        assert_eq!(moments.variance_y(), 30.0);
    }

    #[test]
    fn extreme_share__is_of_the_residuals() {
        // A message of one record has a small total, and an ordinary residual.
        let messages: Vec<(f64, f64)> =
            (0..40).map(|i| (15.0, 1500.0 + f64::from(i % 3))).chain([(1.0, 101.0)]).collect();
        let moments = of(&messages);
        assert!(moments.extreme_share(0.0) > 0.9);
        assert!(moments.extreme_share(100.07) < 0.1, "{}", moments.extreme_share(100.07));
    }

    /// A residual that is hidden among totals that vary with their records.
    #[test]
    fn extreme_share__sees_an_outlier_of_ordinary_total() {
        let outlier = (8.0, 800.0 + 60.0);
        let messages: Vec<(f64, f64)> = (0..100)
            .map(|i| (f64::from(i % 17), 100.0 * f64::from(i % 17) + f64::from(i % 3)))
            .chain([outlier])
            .collect();
        let share = of(&messages).extreme_share(100.0);
        assert!((0.8..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn third_moment_of_residuals__is_that_of_the_residuals() {
        let messages = [(1.0, 2.0), (2.0, 1.0), (4.0, 9.0), (0.0, 0.0), (7.0, -3.0)];
        let residuals = messages.map(|(x, y)| y - 1.5 * x);
        let mean = residuals.iter().sum::<f64>() / 5.0;
        let expected = residuals.iter().map(|r| (r - mean).powi(3)).sum::<f64>() / 5.0;
        assert!((of(&messages).third_moment_of_residuals(1.5) - expected).abs() < 1e-9);
        assert_eq!(of(&messages).nonzero(), 4);
    }

    #[test]
    fn variance_of_residuals__is_that_of_the_residuals() {
        let messages = [(1.0, 2.0), (2.0, 1.0), (4.0, 9.0)];
        let residuals = messages.map(|(x, y)| (0.0, y - 1.5 * x));
        let difference = of(&messages).variance_of_residuals(1.5) - of(&residuals).variance_y();
        assert!(difference.abs() < 1e-12);
    }
}
