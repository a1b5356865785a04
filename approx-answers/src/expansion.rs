//! Sums and counts: expansion by `N/m`, and the ratio to the records where senders state them.

use crate::check::{
    contradictions, exact_totals, rounded, sample_warnings, strata_without_key, without_values,
};
use crate::part::{Part, rule_of_three};
use crate::spread::Spread;
use crate::stratum::Stratum;
use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Estimate, Sample, Warning};

/// Ratios of several strata have biases of at most this share of their error together.
const BIAS_SHARE: f64 = 0.1;

/// Which of a message's two numbers is summed.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    /// The records.
    X,
    /// The total of a column.
    Y,
    /// The total of a column that counts records: those with a value or a key.
    YOfRecords,
}

impl Sample {
    /// The sum of the column over all messages, arrived or not.
    ///
    /// A stratum adds `N * mean(y)` with the variance `N^2 (1 - m/N) s_y^2 / m`. An incomplete
    /// stratum with an exact number of records X adds `X * R`: R is its ratio `mean(y) / mean(x)`,
    /// the mean per record, and the variance is that of R times `X^2`. Such ratios are biased. If
    /// the biases add up to more than a tenth of the standard error, or a stratum has fewer than 30
    /// messages, all these strata have the R of [`Sample::ratio`] over them. Fewer than 30 messages
    /// of them all are expanded by N.
    ///
    /// # Errors
    /// A stratum hasn't said how many messages it sent, or none of them arrived.
    pub fn sum(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let mut estimate = self.sum_of_key(confidence)?;
        self.warn_of_strata_without_values(&mut estimate)?;
        Ok(estimate)
    }

    /// The sum of a key, whose other warnings tell of strata without it.
    pub(crate) fn sum_of_key(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.expanded(Column::Y, confidence)
    }

    /// Adds the warning about incomplete strata that have no values.
    pub(crate) fn warn_of_strata_without_values(
        &self,
        estimate: &mut Estimate,
    ) -> Result<(), AnswerError> {
        let is_known = |warning: &Warning| matches!(warning, Warning::NoVariation { .. });
        if !estimate.warnings.iter().any(is_known) {
            estimate.warnings.extend(without_values(&self.parts()?));
        }
        Ok(())
    }

    /// The number of records in all messages, arrived or not. Exact numbers are taken as such.
    ///
    /// # Errors
    /// As [`Sample::sum`].
    pub fn count(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.expanded(Column::X, confidence)
    }

    /// The number of those records that each add one to the total, of all messages: at most that of
    /// all records, where it is known.
    pub(crate) fn count_of_total(&self, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let mut estimate = self.expanded(Column::YOfRecords, confidence)?;
        let records = |stratum: &Stratum| match stratum.is_complete() {
            true => Some(stratum.moments.sum_x()),
            false => stratum.exact_x(),
        };
        // So many have arrived.
        let arrived = self.strata.values().map(|stratum| stratum.moments.sum_y()).sum();
        estimate.low = estimate.low.max(estimate.value.min(arrived));
        if let Some(records) = self.strata.values().map(records).sum::<Option<f64>>() {
            estimate.high = estimate.high.min(records.max(estimate.value));
        }
        Ok(estimate)
    }

    fn expanded(&self, column: Column, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let strata = match column {
            Column::X => self.parts_of_count()?,
            Column::Y | Column::YOfRecords => self.parts()?,
        };
        if strata.is_empty() && self.strata.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let ratio = Ratio::of(&strata);
        let mut value = 0.0;
        let mut parts = Vec::new();
        for (number, stratum) in &strata {
            let unknown = AnswerError::SentUnknown { stratum: *number };
            let (own, part) = match (column, stratum.exact_x(), stratum.sent) {
                (Column::X, Some(exact), _) if !stratum.is_complete() => (exact, None),
                (.., Some(sent)) => part(*number, stratum, sent as f64, column, ratio),
                (.., None) => return Err(unknown),
            };
            value += own;
            parts.extend(part);
        }
        if column == Column::YOfRecords {
            allow_for_unseen(&mut parts, &strata);
        }
        let nonzero: u64 = strata.iter().map(|(_, stratum)| stratum.moments.nonzero()).sum();
        // The rule of three needs no message with the key.
        let is_unseen = nonzero > 0 && parts.iter().all(|part: &Part| part.nonzero == 0);
        let degrees_max = if is_unseen { f64::INFINITY } else { nonzero.max(1) as f64 };
        let spread = Spread::new(parts, degrees_max);
        let is_sampled = |stratum: &Stratum| column != Column::X || stratum.exact_x().is_none();
        let sampled: Vec<_> =
            strata.iter().copied().filter(|(_, stratum)| is_sampled(stratum)).collect();
        let mut warnings = sample_warnings(&sampled);
        warnings.extend(contradictions(&strata));
        warnings.extend(spread.warnings(nonzero));
        let (exact, weights) = match column {
            Column::X => (0, [1.0, 0.0]),
            Column::Y | Column::YOfRecords => (1, [0.0, 1.0]),
        };
        warnings.extend(rounded(&strata, weights, spread.half_width(confidence)));
        let value = exact_totals(&strata).map_or(value, |totals| totals[exact].value());
        let estimate = spread.estimate(value, confidence, "sum", self)?;
        Ok(Estimate { warnings, ..estimate })
    }
}

/// Widens a key's count by the rule of three for the strata without that key: a number of their
/// messages may hold it, in all of their records. That number of messages from several strata is
/// missing with no larger probability, so the largest bound is that of all strata together.
fn allow_for_unseen(parts: &mut [Part], strata: &[(u32, &Stratum)]) {
    let with_key = |number| {
        let at = strata.binary_search_by_key(&number, |(number, _)| *number);
        at.map_or(0, |at| strata[at].1.moments.nonzero())
    };
    let without = strata_without_key(strata, with_key);
    let records = |stratum: &Stratum| stratum.sent.unwrap_or(0) as f64 * stratum.moments.mean_x();
    let reaches = without.iter().map(|(_, stratum)| rule_of_three(stratum) * records(stratum));
    let reach = reaches.fold(0.0, f64::max) / (without.len() as f64).sqrt();
    for (number, stratum) in without {
        for part in parts.iter_mut().filter(|part| part.stratum == number) {
            *part = part.with_reach(stratum, reach);
        }
    }
}

/// The mean per record of the incomplete strata with exact numbers of records.
#[derive(Clone, Copy)]
struct Ratio {
    /// The mean per record.
    mean: f64,
    /// Their exact records, relative to the expanded ones.
    correction: f64,
    /// Each of these strata has a ratio of its own: their biases are small together.
    is_own: bool,
}

impl Ratio {
    /// Whether ratios of their own have biases that are small together, beside their error. Strata
    /// whose means differ would make one ratio for all vary far more.
    fn may_be_own(strata: &[(u32, &Stratum)]) -> bool {
        let (mut biases, mut variances) = (0.0, 0.0);
        for (number, stratum) in strata.iter().filter(|(_, stratum)| !stratum.is_complete()) {
            let (Some(_), Some(sent)) = (stratum.exact_x(), stratum.sent) else { continue };
            let moments = &stratum.moments;
            if stratum.arrived() < MESSAGES_MIN || moments.mean_x() <= 0.0 {
                return false;
            }
            let mean = moments.mean_y() / moments.mean_x();
            let part = Part::of_ratio(*number, stratum, mean, sent as f64);
            if part.square == 0.0 {
                // The rest of the bias is rounding.
                continue;
            }
            let bias = mean * moments.variance_x() - moments.covariance();
            let share = stratum.missing_share() / stratum.arrived() as f64;
            biases += (sent as f64 * share * bias / moments.mean_x()).abs();
            variances += part.variance();
        }
        biases <= BIAS_SHARE * variances.sqrt()
    }

    /// The ratio of a stratum with `sent` messages.
    fn of_stratum(self, stratum: &Stratum, sent: f64) -> Self {
        let moments = &stratum.moments;
        match stratum.exact_x() {
            Some(exact) if self.is_own => {
                let (mean, records) =
                    (moments.mean_y() / moments.mean_x(), sent * moments.mean_x());
                Self { mean, correction: exact / records, ..self }
            }
            _ => self,
        }
    }

    /// `None` if few messages would give a bad ratio, or numbers whose mean may be near zero.
    ///
    /// The ratio is that of all messages. A least-squares slope would pass through a single message
    /// with another number of records: its residual would be 0, and hide how much it weighs.
    fn of(strata: &[(u32, &Stratum)]) -> Option<Self> {
        let (mut messages, mut exact, mut records, mut total) = (0, 0.0, 0.0, 0.0);
        for (_, stratum) in strata.iter().filter(|(_, stratum)| !stratum.is_complete()) {
            let (Some(own), Some(sent)) = (stratum.exact_x(), stratum.sent) else { continue };
            if stratum.moments.smallest_x() < 0.0 {
                return None;
            }
            messages += stratum.arrived();
            exact += own;
            records += sent as f64 * stratum.moments.mean_x();
            total += sent as f64 * stratum.moments.mean_y();
        }
        let is_own = Self::may_be_own(strata);
        let ratio = Self { mean: total / records, correction: exact / records, is_own };
        (messages >= MESSAGES_MIN && records > 0.0).then_some(ratio)
    }
}

/// A stratum's part of a sum, and of its variance.
fn part(
    number: u32,
    stratum: &Stratum,
    sent: f64,
    column: Column,
    ratio: Option<Ratio>,
) -> (f64, Option<Part>) {
    let moments = &stratum.moments;
    if stratum.is_complete() {
        let sum = match column {
            Column::X => moments.sum_x(),
            Column::Y | Column::YOfRecords => moments.sum_y(),
        };
        return (sum, None);
    }
    if column == Column::X {
        return (sent * moments.mean_x(), Some(Part::of_records(number, stratum, sent)));
    }
    let ratio = ratio.filter(|_| stratum.exact_x().is_some());
    let (value, part) = match ratio.map(|ratio| ratio.of_stratum(stratum, sent)) {
        Some(Ratio { mean, correction, .. }) => {
            let scale = correction * sent;
            (scale * moments.mean_y(), Part::of_ratio(number, stratum, mean, scale))
        }
        None => (sent * moments.mean_y(), Part::of_residuals(number, stratum, 0.0, sent)),
    };
    let part = match column {
        Column::YOfRecords => {
            // Known records, all of which count: no missing message holds more.
            let is_full = stratum.exact_x().is_some() && moments.sum_y() == moments.sum_x();
            Part { is_full, ..part.with_rule_of_three(stratum, value) }
        }
        _ => part,
    };
    (value, Some(part))
}

#[cfg(test)]
mod tests {
    use crate::{Answering, Confidence, Delivery, Warning};

    /// All rows that arrived have a value, and missing messages may have rows without one.
    #[test]
    fn count_of_total__is_at_most_that_of_all_records() {
        let mut answering = Answering::new("count(a)".parse().unwrap(), &["a"]).unwrap();
        answering.set_messages_sent(0, 100).unwrap();
        answering.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..60 {
            answering.push_message(0, vec![["7"]; 9 + message % 3]).unwrap();
        }
        let of = |answering: &Answering| {
            answering.answers(Confidence::P95).unwrap().rows.remove(0).estimate
        };
        let without = of(&answering);
        assert!(without.high > 1_000.0, "{without}");
        answering.push_totals(0, b"records 1000\nmessages 100\n").unwrap();
        let found = of(&answering);
        assert_eq!((found.value, found.high, found.warnings), (1_000.0, 1_000.0, vec![]));
        assert!((950.0..990.0).contains(&found.low), "{}", found.low);
    }

    /// The sum and the mean of a column whose records all arrived, and their warnings.
    fn answers(values: &[&str]) -> [(f64, Vec<Warning>); 2] {
        ["sum(v)", "avg(v)"].map(|query| {
            let mut answering = Answering::new(query.parse().unwrap(), &["v"]).unwrap();
            let messages: Vec<Vec<[&str; 1]>> =
                values.chunks(3).map(|part| part.iter().map(|value| [*value]).collect()).collect();
            answering.set_messages_sent(0, messages.len() as u64).unwrap();
            messages.iter().for_each(|records| answering.push_message(0, records).unwrap());
            let answers = answering.answers(Confidence::P95).unwrap();
            let answer = &answers.rows[0].estimate;
            assert_eq!(answer.half_width(), 0.0);
            (answer.value, answer.warnings.clone())
        })
    }

    #[test]
    fn sum__of_all_messages_is_exact_or_warns() {
        let is_rounded = |warnings: &[Warning]| matches!(warnings, [Warning::Rounded { .. }]);
        // Each addition in 64 bits would lose the ones.
        let mut ones = vec!["1"; 3_000];
        ones.insert(0, "9007199254740990");
        ones.push("-9007199254740990");
        let [(sum, warnings), (mean, of_mean)] = answers(&ones);
        assert_eq!((sum, mean), (3_000.0, 3_000.0 / 3_002.0));
        assert!(warnings.is_empty() && of_mean.is_empty(), "{warnings:?} {of_mean:?}");
        // 2^53 + 1 is no number of 64 bits.
        let [(_, warnings), _] = answers(&["9007199254740991", "2"]);
        assert!(is_rounded(&warnings), "{warnings:?}");
        let [(_, warnings), _] = answers(&["9007199254740993", "-9007199254740992"]);
        assert!(is_rounded(&warnings), "{warnings:?}");
        // Fractions that cancel.
        let [(_, warnings), (_, of_mean)] = answers(&["1e12", "0.1", "-1e12", "0.001"]);
        assert!(warnings.is_empty() && of_mean.is_empty(), "{warnings:?}");
        let [(_, warnings), _] = answers(&["1000000000000.3", "0.1", "-1000000000000.1"]);
        assert!(is_rounded(&warnings), "{warnings:?}");
        let ratio = |denominators: &[&str]| {
            let query = "ratio(v, w)".parse().unwrap();
            let mut answering = Answering::new(query, &["v", "w"]).unwrap();
            answering.set_messages_sent(0, 1).unwrap();
            let records: Vec<[&str; 2]> = denominators.iter().map(|w| ["1", *w]).collect();
            answering.push_message(0, &records).unwrap();
            answering.answers(Confidence::P95).unwrap().rows[0].estimate.value
        };
        assert_eq!(ratio(&["9007199254740990", "1", "-9007199254740990"]), 3.0);
        // As ordinary sums are rounded.
        assert!(answers(&["0.1"; 999])[0].1.is_empty());
    }
}
