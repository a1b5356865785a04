//! The part of one stratum in the variance of an answer.

use serde::{Deserialize, Serialize};

use crate::Moments;
use crate::stratum::Stratum;
use crate::wire::number;

/// A stratum's part of a variance. Complete strata have no part.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub stratum: u32,
    pub sent: Option<u64>,
    pub arrived: u64,
    /// Messages of the stratum with records of the answer: those that hold the key.
    pub nonzero: u64,
    /// The part of the variance is `square * (1/m - 1/N)`.
    #[serde(with = "number")]
    pub square: f64,
    /// The third central moment that belongs to `square`.
    #[serde(with = "number")]
    pub cube: f64,
    #[serde(with = "number")]
    pub degrees_of_freedom: f64,
    /// The share of `square` that the most extreme message holds.
    #[serde(with = "number")]
    pub extreme_share: f64,
    /// All messages that arrived agree: their totals, or their own ratios.
    pub agrees: bool,
    /// A part of a count: messages that differ from those that arrived do so by no more than the
    /// rule of three allows for.
    pub is_bounded: bool,
    /// Beside that, messages hold no more than those that arrived.
    pub is_full: bool,
    /// Messages of `nonzero` that are known to agree with each other.
    pub alike: u64,
}

/// The most of a stratum's messages that may differ from those that arrived, if these all agree.
pub(crate) fn rule_of_three(stratum: &Stratum) -> f64 {
    let arrived = stratum.arrived() as f64;
    let rule = |sent: f64| 0.05f64.ln() / (-arrived / sent).ln_1p() / sent;
    stratum.sent.map_or(3.0 / arrived, |sent| rule(sent as f64))
}

impl Part {
    /// The part of an incomplete stratum: `scale` times the mean over messages of the residuals
    /// `y - slope * x`.
    pub fn of_residuals(number: u32, stratum: &Stratum, slope: f64, scale: f64) -> Self {
        Self::of_moments(number, stratum, &stratum.moments, slope, scale)
    }

    /// The part of an incomplete stratum in a ratio over several strata, to which `slope` belongs.
    /// A stratum whose messages have a ratio of their own may differ from it.
    pub fn of_ratio(number: u32, stratum: &Stratum, slope: f64, scale: f64) -> Self {
        let moments = &stratum.moments;
        let own = moments.mean_y() / moments.mean_x();
        let agrees = own.is_finite() && moments.variance_of_residuals(own) == 0.0;
        let part = Self::of_residuals(number, stratum, slope, scale);
        Self { agrees: part.agrees || agrees, alike: moments.alike(), ..part }
    }

    /// The part of an incomplete stratum: `scale` times the mean of `x` over messages.
    ///
    /// A count has a variance even if all messages agree. By the rule of three, 3/m of them may be
    /// empty: that is 1.96 standard errors. If `k` of N are, none of them arrives with
    /// a probability of at most `(1 - m/N)^k`; the rule is its limit for large N.
    pub fn of_records(number: u32, stratum: &Stratum, scale: f64) -> Self {
        Self::of_moments(number, stratum, &stratum.moments.x_as_y(), 0.0, scale)
            .with_rule_of_three(stratum, scale * stratum.moments.mean_x())
    }

    /// A part of a count: if all messages agree, it has the variance of the rule. `count` is the
    /// count if all messages sent are as those that arrived.
    pub fn with_rule_of_three(self, stratum: &Stratum, count: f64) -> Self {
        self.with_reach(stratum, rule_of_three(stratum) * count)
    }

    /// A part of a count: if all messages agree, its interval reaches as far.
    pub fn with_reach(self, stratum: &Stratum, reach: f64) -> Self {
        let (arrived, missing) = (stratum.arrived() as f64, stratum.missing_share());
        let error = reach / 1.96;
        let agreed = error * error * arrived / missing;
        let square = if self.agrees { self.square.max(agreed) } else { self.square };
        Self { square, is_bounded: true, ..self }
    }

    fn of_moments(
        number: u32,
        stratum: &Stratum,
        moments: &Moments,
        slope: f64,
        scale: f64,
    ) -> Self {
        let square = scale * scale * moments.variance_of_residuals(slope);
        Self {
            stratum: number,
            sent: stratum.sent,
            arrived: stratum.arrived(),
            nonzero: moments.nonzero(),
            agrees: square == 0.0,
            is_bounded: false,
            is_full: false,
            alike: moments.alike_y(),
            // The scale is squared, not its parts: a square of a denominator may overflow.
            square,
            cube: scale * scale * scale * moments.third_moment_of_residuals(slope),
            degrees_of_freedom: stratum.arrived() as f64 - 1.0,
            extreme_share: moments.extreme_share(slope),
        }
    }

    /// The finite-population correction `1 - m/N`; 1 if N is unknown.
    pub fn missing_share(&self) -> f64 {
        self.sent.map_or(1.0, |sent| 1.0 - self.arrived as f64 / sent as f64)
    }

    /// Whether the messages are too few to show how they vary.
    pub fn is_thin(&self) -> bool {
        self.degrees_of_freedom < 1.0
    }

    /// Infinite where no degree of freedom supports it.
    pub fn variance(&self) -> f64 {
        if self.is_thin() {
            return f64::INFINITY;
        }
        self.square * self.missing_share() / self.arrived as f64
    }
}
