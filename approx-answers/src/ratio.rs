//! Means and ratios: one combined ratio over the strata, with its linearized variance.

use crate::check::{exact_totals, job_warnings, rounded};
use crate::part::Part;
use crate::spread::Spread;
use crate::stratum::Stratum;
use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Estimate, Moments, Sample, Warning};

impl Sample {
    /// The mean of the column over all records.
    ///
    /// # Errors
    /// No message of a stratum arrived, or the messages hold no record.
    pub fn mean(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.ratio(confidence)
    }

    /// The mean of a key, whose other warnings tell of strata without it.
    pub(crate) fn mean_of_key(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.combined(confidence)
    }

    /// The ratio of the totals of two columns, of messages added with [`Sample::push_pair`].
    ///
    /// The value is `R = sum(N mean(y)) / sum(N mean(x))` over the strata. A stratum's part of the
    /// variance is `N^2 (1 - m/N) s_e^2 / m` with the residuals `e = y - R x`, over the square of
    /// the denominator. Strata that haven't said their N have no correction; beside others, all
    /// strata then count by what arrived.
    ///
    /// # Errors
    /// As [`Sample::mean`].
    pub fn ratio(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let mut estimate = self.combined(confidence)?;
        self.warn_of_strata_without_values(&mut estimate)?;
        Ok(estimate)
    }

    /// The totals of a ratio, the denominator first: of all messages, or weighted by what arrived.
    pub(crate) fn ratio_totals(&self) -> Result<(f64, f64), AnswerError> {
        let strata = self.parts()?;
        if strata.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let unknown = unknown(&strata);
        let total = |mean: fn(&Moments) -> f64| -> f64 {
            let of =
                |(_, stratum): &(u32, &Stratum)| weight(stratum, unknown) * mean(&stratum.moments);
            strata.iter().map(of).sum()
        };
        let (denominator, numerator) = match exact_totals(&strata) {
            Some([x, y]) => (x.value(), y.value()),
            None => (total(Moments::mean_x), total(Moments::mean_y)),
        };
        match denominator == 0.0 {
            true => Err(AnswerError::ZeroDenominator),
            false => Ok((denominator, numerator)),
        }
    }

    fn combined(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let strata = self.parts()?;
        let unknown = unknown(&strata);
        let weight = |stratum: &Stratum| weight(stratum, unknown);
        let (denominator, numerator) = self.ratio_totals()?;
        let value = numerator / denominator;

        let incomplete = strata.iter().filter(|(_, stratum)| !stratum.is_complete());
        let parts = incomplete.map(|(number, stratum)| {
            Part::of_ratio(*number, stratum, value, weight(stratum) / denominator)
        });
        let nonzero: u64 = strata.iter().map(|(_, stratum)| stratum.moments.nonzero()).sum();
        let spread = Spread::of_ratio(parts.collect(), nonzero);
        let mut warnings = job_warnings(&strata);
        warnings.extend(spread.warnings(nonzero));
        let weights = [value / denominator, 1.0 / denominator];
        warnings.extend(rounded(&strata, weights, spread.half_width(confidence)));
        let incomplete = strata.iter().filter(|(_, stratum)| !stratum.is_complete());
        let parts = incomplete
            .map(|(number, stratum)| Part::of_records(*number, stratum, weight(stratum)))
            .collect();
        warnings.extend(near_zero(denominator, &Spread::new(parts, nonzero as f64), confidence));
        if let Some(stratum) = unknown.filter(|_| strata.len() > 1) {
            warnings.push(Warning::SentUnknown { stratum });
        }
        let estimate = spread.estimate(value, confidence, "ratio", self)?;
        Ok(Estimate { warnings, ..estimate })
    }
}

/// A stratum that hasn't said its N.
fn unknown(strata: &[(u32, &Stratum)]) -> Option<u32> {
    strata.iter().find(|(_, stratum)| stratum.sent.is_none()).map(|(number, _)| *number)
}

/// The messages that a stratum counts for: what arrived if one hasn't said its N.
fn weight(stratum: &Stratum, unknown: Option<u32>) -> f64 {
    stratum.sent.filter(|_| unknown.is_none()).unwrap_or(stratum.arrived()) as f64
}

/// A warning about a denominator whose own interval contains 0. Of fewer messages, another warning
/// says that they are few.
fn near_zero(denominator: f64, spread: &Spread, confidence: Confidence) -> Option<Warning> {
    let (below, above) = spread.ends(confidence);
    let (low, high) = (denominator - below, denominator + above);
    let is_bounded = low.is_finite() && high.is_finite();
    let is_near = is_bounded && spread.degrees_max >= MESSAGES_MIN as f64;
    let is_near = is_near && (low..=high).contains(&0.0);
    is_near.then_some(Warning::DenominatorNearZero { low, high })
}
