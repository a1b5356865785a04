//! Checks of moments that were read.

use super::checked::{Checked, ensure};
use crate::moments::{Alike, Moments};
use crate::stratum::MESSAGES_MAX;
use crate::total::Total;

/// Sums that were added up in another order differ by less than this share of what was added.
const ROUNDING: f64 = 1e-6;
/// Squares below this may have lost their digits.
const UNDERFLOW: f64 = 1e-300;

/// The values of one number of the messages: their bounds, and what is summed up of them.
struct Column {
    low: f64,
    high: f64,
    mean: f64,
    total: Total,
    squares: f64,
    alike: Alike,
}

impl Column {
    /// The largest absolute value.
    fn largest(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The distance between values, with what rounding adds.
    fn width(&self) -> f64 {
        (self.high - self.low) + ROUNDING * self.largest()
    }

    fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn check(&self, messages: f64, nonzero: u64, value_max: f64) -> Checked {
        let Self { low, high, mean, total, squares, alike } = self;
        let most = self.largest();
        // NaN is beyond each of these bounds.
        ensure(low <= high && most <= value_max, "values without order, or too large")?;
        let slack = ROUNDING * most;
        ensure((low - slack..=high + slack).contains(mean), "a mean beyond all values")?;
        total.check(messages * most)?;
        let difference = (total.value() - messages * mean).abs();
        ensure(difference <= messages * slack, "a mean that isn't the total's")?;
        let most_squares = messages * (self.width().powi(2) + UNDERFLOW);
        ensure((0.0..=most_squares).contains(squares), "squares of no such values")?;
        let is_alike = alike.messages() == 0 || self.contains(alike.number());
        ensure(alike.messages() <= nonzero && is_alike, "more equal messages than there are")
    }
}

/// `value_max`: the largest absolute number of a message.
pub(super) fn check_moments(moments: &Moments, value_max: f64) -> Checked {
    let (messages, nonzero) = (moments.messages(), moments.nonzero());
    ensure((1..=MESSAGES_MAX).contains(&messages), "a number of messages out of range")?;
    ensure(nonzero <= messages, "more messages with records than messages")?;
    let [x, y] = moments.columns();
    let n = messages as f64;
    x.check(n, nonzero, value_max)?;
    y.check(n, nonzero, value_max)?;
    let products = moments.products.abs();
    // The inequality of Cauchy and Schwarz.
    let root = |squares: f64| (squares + n * UNDERFLOW).sqrt();
    let most = root(x.squares) * root(y.squares);
    ensure(products <= most * (1.0 + ROUNDING), "products beyond the squares")?;
    for (power, cube) in moments.cubes.into_iter().enumerate() {
        let most = n * x.width().powi(3 - power as i32) * y.width().powi(power as i32);
        ensure(cube.abs() <= most + n * UNDERFLOW, "third powers of no such values")?;
    }
    let is_one = |(one, other): (f64, f64)| x.contains(one) && y.contains(other);
    ensure(
        x.contains(moments.smallest.0) && x.contains(moments.largest.0),
        "extremes of no message",
    )?;
    let is_common = moments.alike() == 0 || is_one(moments.common);
    ensure(moments.alike() <= nonzero && is_common, "more alike messages than there are")
}

impl Moments {
    fn columns(&self) -> [Column; 2] {
        let [&total_x, &total_y] = self.totals();
        let x = Column {
            low: self.range_x.0,
            high: self.range_x.1,
            mean: self.mean_x,
            total: total_x,
            squares: self.squares_x,
            alike: self.alike_x,
        };
        let y = Column {
            low: self.smallest.1,
            high: self.largest.1,
            mean: self.mean_y,
            total: total_y,
            squares: self.squares_y,
            alike: self.alike_y,
        };
        [x, y]
    }
}
