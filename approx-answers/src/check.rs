//! Checks of a sample: the warnings that it calls for.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::stratum::Stratum;
use crate::warning::MESSAGES_MIN;
use crate::{Sample, Warning};

/// The probability that an unbiased sample is said to contradict its exact total.
const CONTRADICTION_LEVEL: f64 = 0.001;

/// The warnings of the job, of the number of its messages, and of its exact totals.
pub(crate) fn job_warnings(sample: &Sample, parts: &[(u32, &Stratum)]) -> Vec<Warning> {
    let incomplete = parts.iter().filter(|(_, stratum)| !stratum.is_complete());
    let arrived: Vec<u64> = incomplete.map(|(_, stratum)| stratum.arrived()).collect();
    if arrived.is_empty() {
        return contradictions(parts);
    }
    let messages = arrived.iter().sum();
    let few = (messages < MESSAGES_MIN).then_some(Warning::FewMessages { messages });
    let warnings = few.into_iter().chain(sample.delivery.warnings());
    warnings.chain(contradictions(parts)).collect()
}

/// Adds a warning if few messages hold a key.
pub(crate) fn few_with_key(warnings: &mut Vec<Warning>, parts: &[(u32, &Stratum)], messages: u64) {
    let is_complete = parts.iter().all(|(_, stratum)| stratum.is_complete());
    let is_few = |warning: &Warning| matches!(warning, Warning::FewMessages { .. });
    if !is_complete && messages < MESSAGES_MIN && !warnings.iter().any(is_few) {
        warnings.push(Warning::FewMessages { messages });
    }
}

/// Warnings about all keys of a job together.
pub(crate) fn table_warnings(messages: &Sample, records: u64, limit: usize) -> Vec<Warning> {
    let missing = messages.messages_sent().map(|sent| sent - messages.messages());
    let unseen = (missing != Some(0)).then_some(Warning::UnseenKeys { missing });
    unseen.into_iter().chain(uncounted(records, limit)).collect()
}

/// A warning about records whose keys weren't counted.
pub(crate) fn uncounted(records: u64, limit: usize) -> Option<Warning> {
    (records > 0).then_some(Warning::UncountedRecords { records, limit })
}

/// Warnings about strata whose sample contradicts their exact total of `x`.
pub(crate) fn contradictions(parts: &[(u32, &Stratum)]) -> Vec<Warning> {
    parts
        .iter()
        .filter_map(|(number, stratum)| {
            let statistic = contradiction(stratum)?;
            let level = CONTRADICTION_LEVEL;
            Some(Warning::ContradictsExact { stratum: *number, statistic, level })
        })
        .collect()
}

/// The distance between the exact total and the expanded sample in standard errors, if chance
/// doesn't explain it.
///
/// Student's t alone would ring for a job of equal messages whose last, shorter one is missing.
/// So the distance must also be more than the missing messages explain one by one: `k` extreme
/// messages are all missing with a probability of at most `(1 - m/N)^k`.
fn contradiction(stratum: &Stratum) -> Option<f64> {
    let (exact, sent) = (stratum.exact_x?, stratum.sent? as f64);
    let moments = &stratum.moments;
    let distance = exact - sent * moments.mean_x();
    let rounding = 1e-9 * (exact.abs() + (sent * moments.mean_x()).abs());
    if distance.abs() <= rounding {
        return None;
    }
    if stratum.is_complete() {
        return Some(f64::INFINITY.copysign(distance));
    }
    let arrived = moments.messages() as f64;
    let missing = stratum.missing_share();
    let error = sent * (missing * moments.variance_x() / arrived).sqrt();
    let statistic = distance / error;
    let extremes = (distance.abs() / moments.largest_x()).ceil();
    let is_explained = extremes * missing.ln() > CONTRADICTION_LEVEL.ln();
    let t = StudentsT::new(0.0, 1.0, arrived - 1.0).ok()?;
    let is_chance = 2.0 * (1.0 - t.cdf(statistic.abs())) > CONTRADICTION_LEVEL;
    (!is_explained && !is_chance).then_some(statistic)
}
