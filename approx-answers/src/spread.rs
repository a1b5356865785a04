//! The variance of an answer, stratum by stratum.

use serde::{Deserialize, Serialize};

use crate::agreement::agreeing_messages;
use crate::part::Part;
use crate::skewness::Skewness;
use crate::warning::MESSAGES_MIN;
use crate::wire::number;
use crate::{AnswerError, Confidence, Estimate, Sample, Warning};

/// More skewed estimates have a warning. Cochran's rule has the same limit, m > 25 G1^2 (Sampling
/// Techniques, 1977, section 2.15). Here [`Skewness::size`] makes it 100 G1^2 in a large N.
pub(crate) const SKEWNESS_MAX: f64 = 0.2;

/// Values are no tail unless a message lies three standard deviations from the mean, here squared:
/// two values of which the rarer has a tenth don't, however skewed.
const EXTREME_SQUARES_MIN: f64 = 9.0;

/// Fewer messages of a stratum hide its tail: their third central moment is less than three
/// quarters of the stratum's, (m - 1)(m - 2) / m^2.
const STRATUM_MESSAGES_MIN: u64 = 10;
/// Such strata matter if they have more than this share of the missing messages.
const THIN_SHARE: f64 = 0.1;

/// The parts of an answer's variance.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub parts: Vec<Part>,
    /// The most degrees of freedom that the messages allow: those without a key bring none.
    #[serde(with = "number")]
    pub degrees_max: f64,
    /// A variance that no message lowers: that of a sketch.
    #[serde(with = "number")]
    pub fixed: f64,
}

impl Spread {
    pub fn new(parts: Vec<Part>, degrees_max: f64) -> Self {
        Self { parts, degrees_max, fixed: 0.0 }
    }

    /// The spread of a ratio or a rank. `nonzero`: the messages of all strata with its records.
    pub fn of_ratio(parts: Vec<Part>, nonzero: u64) -> Self {
        let mut spread = Self::new(parts, f64::INFINITY);
        // The residual of a single message is zero by construction, and says nothing. That of
        // a complete stratum says all.
        if spread.nonzero() > 0 {
            spread.degrees_max = nonzero as f64 - 1.0;
        }
        spread
    }

    /// The spread of the answer times `scale`.
    pub fn scaled(mut self, scale: f64) -> Self {
        for part in self.parts.iter_mut().filter(|_| scale.is_finite()) {
            part.square *= scale * scale;
            part.cube *= scale * scale * scale;
        }
        self.fixed *= if scale.is_finite() { scale * scale } else { 1.0 };
        self
    }

    pub fn variance(&self) -> f64 {
        if self.parts.is_empty() {
            return self.fixed;
        }
        // A difference of no messages from no other says nothing about those that are missing.
        if self.degrees_max < 1.0 {
            return f64::INFINITY;
        }
        self.parts.iter().map(Part::variance).sum::<f64>() + self.fixed
    }

    /// Welch and Satterthwaite: strata have variances of their own, and a stratum with a large
    /// part of the variance decides about the degrees of freedom. The alternative, messages less
    /// strata, is right only if all strata vary alike, and then both agree.
    pub fn degrees_of_freedom(&self) -> f64 {
        let total = self.variance();
        if total.is_infinite() {
            return 0.0;
        }
        // The error of a sketch is known. (The sum of no shares is -0.0.)
        if total <= 0.0 || self.parts.is_empty() {
            return f64::INFINITY;
        }
        let share = |part: &Part| (part.variance() / total).powi(2) / part.degrees_of_freedom;
        (1.0 / self.parts.iter().map(share).sum::<f64>()).min(self.degrees_max)
    }

    /// Half of the width of a symmetric interval, by Student's t.
    pub fn half_width(&self, confidence: Confidence) -> f64 {
        let variance = self.variance();
        if variance == 0.0 {
            return 0.0;
        }
        confidence.student(self.degrees_of_freedom()) * variance.sqrt()
    }

    /// How far the interval reaches below and above the estimate.
    pub fn ends(&self, confidence: Confidence) -> (f64, f64) {
        let variance = self.variance();
        if variance == 0.0 {
            return (0.0, 0.0);
        }
        let (below, above) = self.relative_ends(confidence);
        (below * variance.sqrt(), above * variance.sqrt())
    }

    /// How far the interval reaches below and above the estimate, in standard errors.
    pub fn relative_ends(&self, confidence: Confidence) -> (f64, f64) {
        self.skewness().ends(confidence.student(self.degrees_of_freedom()))
    }

    /// The answer of `sample` with this variance.
    pub fn estimate(
        self,
        value: f64,
        confidence: Confidence,
        what: &'static str,
        sample: &Sample,
    ) -> Result<Estimate, AnswerError> {
        if !value.is_finite() || self.variance().is_nan() {
            return Err(AnswerError::Overflow { what });
        }
        let (below, above) = self.ends(confidence);
        Ok(Estimate {
            value,
            low: value - below,
            high: value + above,
            confidence,
            degrees_of_freedom: self.degrees_of_freedom(),
            messages: sample.messages(),
            messages_sent: sample.messages_sent(),
            warnings: Vec::new(),
            level: confidence,
            spread: self,
        })
    }

    /// Warnings of a column whose messages vary too much, or not at all. `nonzero`: the messages of
    /// all strata with records of the answer.
    pub fn warnings(&self, nonzero: u64) -> impl Iterator<Item = Warning> {
        self.heavy_tail().into_iter().chain(self.thin()).chain(self.no_variation(nonzero))
    }

    fn no_variation(&self, nonzero: u64) -> Option<Warning> {
        // One message agrees with itself, and its interval has no bounds.
        if self.parts.is_empty() || !self.variance().is_finite() {
            return None;
        }
        let is_bounded = self.parts.iter().all(|part| part.is_bounded);
        let is_equal = |part: &Part| part.agrees && (is_bounded || part.square == 0.0);
        if !self.parts.iter().all(is_equal) {
            let is_open = |part: &Part| !part.is_bounded;
            let is_equal = |part: &Part| part.is_bounded && !part.is_full && part.nonzero > 0;
            return match agreeing_messages(&self.parts, is_open) {
                Some(messages) => Some(Warning::NoVariation { messages }),
                None => agreeing_messages(&self.parts, is_equal)
                    .map(|messages| Warning::EqualCounts { messages }),
            };
        }
        let messages = match self.nonzero() {
            // Messages without records say nothing about an answer of complete strata.
            0 if nonzero > 0 => return None,
            0 => self.parts.iter().map(|part| part.arrived).sum(),
            messages => messages,
        };
        let with_width: Vec<&Part> = self.parts.iter().filter(|part| part.square > 0.0).collect();
        match is_bounded && !with_width.is_empty() {
            // The interval bounds what a warning would say.
            true if with_width.iter().all(|part| part.is_full || part.nonzero == 0) => None,
            true => Some(Warning::EqualCounts { messages }),
            false => Some(Warning::NoVariation { messages }),
        }
    }

    /// Messages of incomplete strata with records of the answer.
    pub fn nonzero(&self) -> u64 {
        self.parts.iter().map(|part| part.nonzero).sum()
    }

    /// A stratum that opens the interval, though other strata have messages enough. Or the first of
    /// those with so few that rare values don't show, if such strata have a part that matters.
    fn thin(&self) -> Option<Warning> {
        let of =
            |part: &Part| Warning::ThinStratum { stratum: part.stratum, messages: part.arrived };
        if let Some(open) = self.parts.iter().find(|part| part.is_thin()) {
            return (self.parts.len() > 1).then(|| of(open));
        }
        let missing = |parts: &mut dyn Iterator<Item = &Part>| -> f64 {
            parts.map(|part| part.missing_share() * part.sent.unwrap_or(part.arrived) as f64).sum()
        };
        let is_few = |part: &&Part| part.arrived < STRATUM_MESSAGES_MIN;
        let few = missing(&mut self.parts.iter().filter(is_few));
        let arrived: u64 = self.parts.iter().map(|part| part.arrived).sum();
        // A warning about few messages says it of all strata.
        let matters = few > THIN_SHARE * missing(&mut self.parts.iter()) && arrived >= MESSAGES_MIN;
        self.parts.iter().find(is_few).filter(|_| matters).map(of)
    }

    /// The spread of the strata that show how their messages vary.
    pub fn without_thin(&self) -> Self {
        let mut spread = self.clone();
        spread.parts.retain(|part| !part.is_thin());
        spread
    }

    fn heavy_tail(&self) -> Option<Warning> {
        let total = self.variance();
        if total <= 0.0 || !total.is_finite() {
            return None;
        }
        let tails = self.tails();
        let shares = tails.iter().map(|part| part.variance() / total * part.extreme_share);
        let share = shares.fold(0.0, f64::max);
        let skewness = self.tail_skewness();
        let is_heavy = skewness > SKEWNESS_MAX;
        is_heavy.then_some(Warning::HeavyTail { share, skewness, limit: SKEWNESS_MAX })
    }

    /// Whether messages more extreme than those that arrived may be missing.
    pub fn is_heavy(&self, skewness_max: f64) -> bool {
        self.tail_skewness() > skewness_max
    }

    /// The skewness that strata with extreme messages bring to the estimate. That of others is no
    /// tail, whatever extremes a third stratum has.
    fn tail_skewness(&self) -> f64 {
        Skewness::new(&self.tails(), self.variance()).size()
    }

    /// The strata with a message far from the others.
    fn tails(&self) -> Vec<Part> {
        // Few messages have no extreme one that lies as far: its share is at most all.
        let squares = |part: &Part| part.extreme_share * (part.arrived + MESSAGES_MIN) as f64;
        let is_tail = |part: &&Part| squares(part) > EXTREME_SQUARES_MIN;
        self.parts.iter().filter(is_tail).copied().collect()
    }

    fn skewness(&self) -> Skewness {
        Skewness::new(&self.parts, self.variance())
    }
}
