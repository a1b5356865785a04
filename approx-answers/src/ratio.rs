//! Means and ratios: one combined ratio over the strata, with its linearized variance.

use crate::check::{contradictions, heavy_tail, job_warnings};
use crate::estimate::Variance;
use crate::{AnswerError, Confidence, Estimate, Sample, Warning};

impl Sample {
    /// The mean of the column over all records.
    ///
    /// # Errors
    /// No message of a stratum arrived, or the messages hold no record.
    pub fn mean(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.ratio(confidence)
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
        let parts = self.parts()?;
        if parts.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let unknown = parts.iter().find(|(_, stratum)| stratum.sent.is_none());
        let is_known = unknown.is_none();
        let weighted: Vec<_> = parts
            .iter()
            .map(|(_, stratum)| {
                let weight = stratum.sent.filter(|_| is_known).unwrap_or(stratum.arrived());
                (weight as f64, *stratum)
            })
            .collect();
        let numerator: f64 = weighted.iter().map(|(weight, s)| weight * s.moments.mean_y()).sum();
        let denominator: f64 = weighted.iter().map(|(weight, s)| weight * s.moments.mean_x()).sum();
        if denominator == 0.0 {
            return Err(AnswerError::ZeroDenominator);
        }
        let value = numerator / denominator;

        let mut variance = Variance::default();
        let mut shares = Vec::new();
        for (weight, stratum) in weighted.iter().filter(|(_, stratum)| !stratum.is_complete()) {
            let arrived = stratum.arrived() as f64;
            let spread = stratum.moments.variance_of_residuals(value) / arrived;
            // The quotient is squared, not its parts: a square of a denominator may overflow.
            let share = weight / denominator;
            let part = share * share * stratum.missing_share() * spread;
            variance.add(part, arrived - 1.0);
            shares.push((part, &stratum.moments));
        }
        let estimate = variance.estimate(value, confidence, "ratio", self)?;
        let mut warnings = job_warnings(self, &parts);
        warnings.extend(contradictions(&parts));
        warnings.extend(heavy_tail(&shares));
        if let Some(&(stratum, _)) = unknown.filter(|_| parts.len() > 1) {
            warnings.push(Warning::SentUnknown { stratum });
        }
        Ok(Estimate { warnings, ..estimate })
    }
}
