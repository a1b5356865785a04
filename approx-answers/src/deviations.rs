//! Variances and standard deviations by key: a ratio of squares to records, linearized.

use std::collections::HashMap;

use crate::moments::squares::Squares;
use crate::{AnswerError, Confidence, Delivery, Estimate, GroupBy, Moments, Sample, Warning};

/// Variances of a column, by key.
///
/// The variance is `V = sum((x - mean)^2) / n`, times `n / (n - 1)`, of all records, arrived or
/// not. The derivative of the squares' sum by the mean is 0 at the mean, so that the error of the
/// mean has no part in that of V: V is the ratio of each message's squares around the estimated
/// mean to its records, and has the interval of [`Sample::ratio`].
///
/// The mean isn't known before the end. So four pairs of sums of each message are kept, from which
/// the moments of its squares around any center follow ([`Squares`]). Values are counted from the
/// key's first one, in a unit near their distance from it, or squares of large numbers that vary
/// little would cancel.
#[derive(Clone, Debug)]
pub(crate) struct Deviations {
    /// As in [`Squares`]: records and sums, records and squares, sums and squares, and both.
    pairs: [GroupBy<String>; 4],
    origins: HashMap<String, Origin>,
}

/// The unit of a key's values.
#[derive(Clone, Copy, Debug)]
struct Origin {
    /// The first value.
    center: f64,
    /// A power of two near the first distance from it; 0 before that.
    scale: f64,
}

/// A message that is being added.
#[derive(Debug)]
pub(crate) struct Adding {
    pairs: [crate::group_by::Adding; 4],
    /// The origins that the message changed, as they were.
    before: Vec<(String, Option<Origin>)>,
}

impl Deviations {
    /// Sums of at most `keys_max` keys, in the memory of one of `several`.
    pub fn new(keys_max: usize, several: usize) -> Self {
        let pairs = [(); 4].map(|()| GroupBy::new(keys_max).one_of(4 * several));
        Self { pairs, origins: HashMap::new() }
    }

    /// Begins a message. [`Deviations::end`] or [`Deviations::leave_out`] must follow.
    pub fn begin(&self, stratum: u32) -> Adding {
        Adding { pairs: self.pairs.each_ref().map(|pair| pair.begin(stratum)), before: Vec::new() }
    }

    /// Adds a record.
    pub fn add(&mut self, adding: &mut Adding, key: &str, value: f64) -> Result<(), AnswerError> {
        let known = self.origins.get(key).copied();
        let mut origin = known.unwrap_or(Origin { center: value, scale: 0.0 });
        let distance = value - origin.center;
        if origin.scale == 0.0 && distance != 0.0 {
            // Exact to divide by, and far from both ends of the exponent.
            origin.scale = distance.abs().log2().floor().clamp(-900.0, 900.0).exp2();
        }
        let s = if distance == 0.0 { 0.0 } else { distance / origin.scale };
        let q = s * s;
        let all = self.pairs.iter_mut().zip(&mut adding.pairs);
        for ((pair, adding), (x, y)) in all.zip([(1.0, s), (1.0, q), (s, q), (1.0 + s, q)]) {
            pair.add(adding, (key, None), x, y)?;
        }
        if known.is_none_or(|known| known.scale != origin.scale) && self.has(key) {
            adding.before.push((key.to_owned(), known));
            self.origins.insert(key.to_owned(), origin);
        }
        Ok(())
    }

    /// Whether the message fits in.
    pub fn check(&self, adding: &Adding) -> Result<(), AnswerError> {
        let mut all = self.pairs.iter().zip(&adding.pairs);
        all.try_for_each(|(pair, adding)| pair.check(adding))
    }

    /// Takes a message that was checked.
    pub fn end(&mut self, adding: Adding) -> Result<(), AnswerError> {
        let mut all = self.pairs.iter_mut().zip(adding.pairs);
        all.try_for_each(|(pair, adding)| pair.end(adding, Ok(())))
    }

    /// Leaves a message out.
    pub fn leave_out(&mut self, adding: Adding) {
        for (pair, adding) in self.pairs.iter_mut().zip(adding.pairs) {
            let _: Result<(), AnswerError> = pair.end(adding, Err(AnswerError::NoMessages));
        }
        for (key, before) in adding.before.into_iter().rev() {
            match before {
                Some(origin) => _ = self.origins.insert(key, origin),
                None => _ = self.origins.remove(&key),
            }
        }
    }

    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        self.pairs.iter_mut().try_for_each(|pair| pair.set_messages_sent(stratum, messages))
    }

    pub fn set_delivery(&mut self, stratum: u32, delivery: &Delivery) -> Result<(), AnswerError> {
        self.pairs.iter_mut().try_for_each(|pair| pair.set_delivery(stratum, delivery))
    }

    /// Takes all messages of a stratum out, and with them the keys that only it holds.
    pub fn remove_stratum(&mut self, stratum: u32) {
        self.pairs.iter_mut().for_each(|pair| pair.remove_stratum(stratum));
        let [sums, ..] = &self.pairs;
        self.origins.retain(|key, _| sums.has(key));
    }

    /// All messages without regard to keys.
    pub fn all(&self) -> &Sample {
        self.pairs[0].all()
    }

    pub fn has(&self, key: &str) -> bool {
        self.pairs[0].has(key)
    }

    /// The counted keys, in order.
    pub fn keys(&self) -> Vec<&String> {
        self.pairs[0].keys()
    }

    /// Records of keys beyond the limit.
    pub fn uncounted_records(&self) -> u64 {
        self.pairs[0].uncounted_records()
    }

    /// Warnings about the whole table of keys.
    pub fn warnings(&self) -> Vec<Warning> {
        self.pairs[0].warnings()
    }

    /// The variance of a key's records.
    ///
    /// # Errors
    /// No counted record has the key, there is one record at most, or as [`Sample::ratio`].
    pub fn variance(&self, key: &str, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let [_, squares, both, mixed] = &self.pairs;
        let [squares, both, mixed] = [squares, both, mixed].map(|pair| pair.sample_of_key(key));
        let (squares, both, mixed) = (squares?, both?, mixed?);
        let mut records = 0.0;
        let variance = self.pairs[0].answer(key, |sums| {
            let (n, s) = sums.ratio_totals()?;
            records = n;
            let mut around = sums.clone();
            for (number, stratum) in &mut around.strata {
                let none = Moments::default();
                let of = |sample: &Sample| sample.moments(*number).copied().unwrap_or(none);
                let (squares, both, mixed) = (of(&squares), of(&both), of(&mixed));
                let sums = &stratum.moments;
                let pairs = Squares { sums, squares: &squares, both: &both, mixed: &mixed };
                stratum.moments = pairs.around(s / n);
            }
            around.mean_of_key(confidence)
        })?;
        if records <= 1.0 {
            return Err(AnswerError::ZeroDenominator);
        }
        let scale = self.origins.get(key).map_or(0.0, |origin| origin.scale);
        let factor = scale * scale * records / (records - 1.0);
        Ok(Estimate {
            value: factor * variance.value,
            low: (factor * variance.low).max(0.0),
            high: factor * variance.high,
            spread: variance.spread.scaled(factor),
            ..variance
        })
    }

    /// The standard deviation of a key's records.
    ///
    /// # Errors
    /// As [`Deviations::variance`].
    pub fn deviation(&self, key: &str, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let variance = self.variance(key, confidence)?;
        let value = variance.value.sqrt();
        Ok(Estimate {
            value,
            low: variance.low.sqrt(),
            high: variance.high.sqrt(),
            // The derivative of the root.
            spread: variance.spread.scaled(0.5 / value),
            ..variance
        })
    }
}
