//! Sums and counts: expansion by `N/m`, and regression where senders state exact totals.

use crate::check::{contradictions, heavy_tail, job_warnings};
use crate::estimate::Variance;
use crate::stratum::Stratum;
use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Estimate, Moments, Sample};

/// Which of a message's two numbers is summed.
#[derive(Clone, Copy)]
enum Column {
    X,
    Y,
}

impl Sample {
    /// The sum of the column over all messages, arrived or not.
    ///
    /// A stratum adds `N * mean(y)` with the variance `N^2 (1 - m/N) s_y^2 / m`. With an exact
    /// number of records it adds the regression estimate, whose variance has the residuals' s^2.
    ///
    /// # Errors
    /// A stratum hasn't said how many messages it sent, or none of them arrived.
    pub fn sum(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.expanded(Column::Y, confidence)
    }

    /// The number of records in all messages, arrived or not. Exact numbers are taken as such.
    ///
    /// # Errors
    /// As [`Sample::sum`].
    pub fn count(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.expanded(Column::X, confidence)
    }

    fn expanded(&self, column: Column, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let parts = self.parts()?;
        let mut value = 0.0;
        let mut variance = Variance::default();
        let mut shares = Vec::new();
        for (number, stratum) in &parts {
            let sent = stratum.sent.ok_or(AnswerError::SentUnknown { stratum: *number })? as f64;
            let part = part(stratum, sent, column);
            value += part.value;
            if part.variance > 0.0 || part.degrees_of_freedom < 1.0 {
                variance.add(part.variance, part.degrees_of_freedom);
            }
            shares.push((part.variance, &stratum.moments));
        }
        let what = "sum";
        if parts.is_empty() && self.strata.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let estimate = variance.estimate(value, confidence, what, self)?;
        let mut warnings = job_warnings(self, &parts);
        warnings.extend(contradictions(&parts));
        if matches!(column, Column::Y) {
            warnings.extend(heavy_tail(&shares));
        }
        Ok(Estimate { warnings, ..estimate })
    }
}

/// A stratum's part of a sum.
struct Part {
    value: f64,
    variance: f64,
    degrees_of_freedom: f64,
}

fn part(stratum: &Stratum, sent: f64, column: Column) -> Part {
    let moments = &stratum.moments;
    let arrived = moments.messages() as f64;
    let exact = Part { value: 0.0, variance: 0.0, degrees_of_freedom: f64::INFINITY };
    let (sum, mean, spread) = match column {
        Column::X => (moments.sum_x(), moments.mean_x(), moments.variance_x()),
        Column::Y => (moments.sum_y(), moments.mean_y(), moments.variance_y()),
    };
    if stratum.is_complete() {
        return Part { value: sum, ..exact };
    }
    let expand = sent * sent * stratum.missing_share() / arrived;
    match (column, stratum.exact_x) {
        (Column::X, Some(exact_x)) => Part { value: exact_x, ..exact },
        (Column::Y, Some(exact_x)) if regresses(moments) => {
            let slope = moments.covariance() / moments.variance_x();
            Part {
                value: sent * mean + slope * (exact_x - sent * moments.mean_x()),
                // The slope takes a degree of freedom.
                variance: expand * moments.variance_of_residuals(slope) * (arrived - 1.0)
                    / (arrived - 2.0),
                degrees_of_freedom: arrived - 2.0,
            }
        }
        _ => Part {
            value: sent * mean,
            variance: expand * spread,
            degrees_of_freedom: arrived - 1.0,
        },
    }
}

/// Few messages give a bad slope, and records that don't vary give none.
fn regresses(moments: &Moments) -> bool {
    moments.messages() >= MESSAGES_MIN && moments.variance_x() > 0.0
}
