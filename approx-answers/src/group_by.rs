//! Answers by key, with bounded memory.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Delivery, Estimate, Moments, Sample, Warning};

/// Records and their total, of one message and key.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    records: u64,
    total: f64,
}

/// Sums, counts and means by key.
///
/// A key is a domain: a message without it has zero records and a total of zero. Only messages
/// with the key are kept, as moments, and the zeros of the others are added when an answer is asked
/// for. A key that is counted is counted from its first record on; once `keys_max` keys are there,
/// records of other keys are left out, and each answer says how many.
#[derive(Clone, Debug)]
pub struct GroupBy<K> {
    /// All messages, by stratum: their numbers and facts.
    messages: Sample,
    keys: HashMap<K, Vec<(u32, Moments)>>,
    keys_max: usize,
    uncounted_records: u64,
    current: HashMap<K, Tally>,
}

impl<K: Clone + Eq + Hash + Ord> GroupBy<K> {
    /// A group-by that counts at most `keys_max` keys.
    pub fn new(keys_max: usize) -> Self {
        Self {
            messages: Sample::new(),
            keys: HashMap::new(),
            keys_max,
            uncounted_records: 0,
            current: HashMap::new(),
        }
    }

    /// Adds the records of one message.
    ///
    /// # Errors
    /// A value is NaN, infinite or huge, or more messages arrive than were sent. The message is
    /// then left out.
    pub fn push_message<Q>(
        &mut self,
        stratum: u32,
        records: impl IntoIterator<Item = (Q, f64)>,
    ) -> Result<(), AnswerError>
    where
        Q: Borrow<K>,
    {
        self.current.clear();
        let room = self.keys_max.saturating_sub(self.keys.len());
        let mut new_keys = 0;
        let mut uncounted = 0;
        let (mut all, mut whole) = (0u64, 0.0);
        for (key, value) in records {
            let key = key.borrow();
            crate::stratum::check_value(stratum, "value", value)?;
            all += 1;
            whole += value;
            if let Some(tally) = self.current.get_mut(key) {
                tally.records += 1;
                tally.total += value;
                continue;
            }
            // New keys of this message take room as well.
            let is_known = self.keys.contains_key(key);
            if is_known || new_keys < room {
                new_keys += usize::from(!is_known);
                self.current.insert(key.clone(), Tally { records: 1, total: value });
            } else {
                uncounted += 1;
            }
        }
        self.messages.push(stratum, all, whole)?;
        self.uncounted_records += uncounted;
        for (key, tally) in self.current.drain() {
            let strata = self.keys.entry(key).or_default();
            moments_of(strata, stratum).push(tally.records as f64, tally.total);
        }
        Ok(())
    }

    /// Sets the number of messages that a stratum sent.
    ///
    /// # Errors
    /// As [`Sample::set_messages_sent`].
    pub fn set_messages_sent(&mut self, stratum: u32, messages: u64) -> Result<(), AnswerError> {
        self.messages.set_messages_sent(stratum, messages)
    }

    /// Sets how the job was delivered, for the warnings.
    pub fn set_delivery(&mut self, delivery: Delivery) {
        self.messages.set_delivery(delivery);
    }

    /// Adds another part of the job. No message may be in both.
    ///
    /// A key is kept if neither part has left out a record of it. If one part has left out records,
    /// its own keys alone are sure to be whole. The records of dropped keys become uncounted.
    ///
    /// # Errors
    /// The limits differ, or the parts contradict each other. The group-by stays as it was.
    pub fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        if self.keys_max != other.keys_max {
            let (one, other) = (self.keys_max, other.keys_max);
            return Err(AnswerError::KeyLimits { one, other });
        }
        self.messages.merge(&other.messages)?;
        let (is_whole, other_is_whole) =
            (self.uncounted_records == 0, other.uncounted_records == 0);
        self.uncounted_records += other.uncounted_records;
        let is_kept = |own: bool, others: bool| (own || is_whole) && (others || other_is_whole);
        let dropped: Vec<K> = self
            .keys
            .keys()
            .filter(|key| !is_kept(true, other.keys.contains_key(*key)))
            .cloned()
            .collect();
        for key in dropped {
            self.drop_key(&key);
        }
        for (key, theirs) in &other.keys {
            if is_kept(self.keys.contains_key(key), true) {
                let own = self.keys.entry(key.clone()).or_default();
                theirs.iter().for_each(|(s, moments)| moments_of(own, *s).merge(moments));
            } else {
                self.uncounted_records += records_of(theirs);
            }
        }
        self.drop_rarest();
        Ok(())
    }

    /// Drops the keys with the fewest records until the limit holds.
    fn drop_rarest(&mut self) {
        let mut keys: Vec<(u64, K)> =
            self.keys.iter().map(|(key, strata)| (records_of(strata), key.clone())).collect();
        keys.sort_unstable();
        let excess = keys.len().saturating_sub(self.keys_max);
        for (_, key) in keys.into_iter().take(excess) {
            self.drop_key(&key);
        }
    }

    fn drop_key(&mut self, key: &K) {
        let strata = self.keys.remove(key).unwrap_or_default();
        self.uncounted_records += records_of(&strata);
    }

    /// The counted keys, in order.
    pub fn keys(&self) -> Vec<&K> {
        let mut keys: Vec<&K> = self.keys.keys().collect();
        keys.sort_unstable();
        keys
    }

    /// Records of keys beyond the limit.
    pub fn uncounted_records(&self) -> u64 {
        self.uncounted_records
    }

    /// All messages without regard to keys: their records and totals.
    pub fn all(&self) -> &Sample {
        &self.messages
    }

    /// The sum over a key's records in all messages, arrived or not.
    ///
    /// # Errors
    /// No counted record has the key, or as [`Sample::sum`].
    pub fn sum(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.sum(confidence))
    }

    /// The number of a key's records in all messages, arrived or not.
    ///
    /// # Errors
    /// As [`GroupBy::sum`].
    pub fn count(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.count(confidence))
    }

    /// The mean over a key's records.
    ///
    /// # Errors
    /// No counted record has the key, or as [`Sample::mean`].
    pub fn mean(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.mean(confidence))
    }

    fn answer(
        &self,
        key: &K,
        ask: impl Fn(&Sample) -> Result<Estimate, AnswerError>,
    ) -> Result<Estimate, AnswerError> {
        let present = self.keys.get(key).ok_or(AnswerError::UnknownKey)?;
        let mut sample = self.messages.clone();
        let mut with_key = 0;
        for (number, stratum) in &mut sample.strata {
            let moments = present.iter().find(|(found, _)| found == number);
            let mut moments = moments.map(|(_, moments)| *moments).unwrap_or_default();
            with_key += moments.messages();
            moments.add_zeros(stratum.arrived() - moments.messages());
            stratum.moments = moments;
        }
        let mut estimate = ask(&sample)?;
        let is_few = |warning: &Warning| matches!(warning, Warning::FewMessages { .. });
        let is_known = estimate.warnings.iter().any(is_few);
        if self.is_incomplete() && with_key < MESSAGES_MIN && !is_known {
            estimate.warnings.push(Warning::FewMessages { messages: with_key });
        }
        if self.uncounted_records > 0 {
            estimate.warnings.push(self.uncounted());
        }
        Ok(estimate)
    }

    /// Warnings about the whole table of keys.
    pub fn warnings(&self) -> Vec<Warning> {
        let missing = self.messages.messages_sent().map(|sent| sent - self.messages.messages());
        let unseen = self.is_incomplete().then_some(Warning::UnseenKeys { missing });
        let uncounted = (self.uncounted_records > 0).then(|| self.uncounted());
        unseen.into_iter().chain(uncounted).collect()
    }

    fn is_incomplete(&self) -> bool {
        self.messages.messages_sent() != Some(self.messages.messages())
    }

    fn uncounted(&self) -> Warning {
        Warning::UncountedRecords { records: self.uncounted_records, limit: self.keys_max }
    }
}

/// A key's moments in one stratum. Jobs have few strata, and a key fewer: a list is short.
fn moments_of(strata: &mut Vec<(u32, Moments)>, stratum: u32) -> &mut Moments {
    let at = strata.iter().position(|(number, _)| *number == stratum).unwrap_or_else(|| {
        strata.push((stratum, Moments::default()));
        strata.len() - 1
    });
    &mut strata[at].1
}

fn records_of(strata: &[(u32, Moments)]) -> u64 {
    strata.iter().map(|(_, moments)| moments.sum_x().round() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const P95: Confidence = Confidence::P95;

    fn group_by(keys_max: usize, messages: &[&[(&'static str, f64)]]) -> GroupBy<&'static str> {
        let mut group_by = GroupBy::new(keys_max);
        for message in messages {
            group_by.push_message(0, message.iter().copied()).unwrap();
        }
        group_by
    }

    const MESSAGES: [&[(&str, f64)]; 4] =
        [&[("a", 1.0), ("b", 2.0), ("a", 3.0)], &[("b", 5.0)], &[], &[("c", 7.0), ("a", 9.0)]];

    #[test]
    fn answers__are_those_of_messages_with_zeros() {
        let mut by = group_by(10, &MESSAGES);
        by.set_messages_sent(0, 8).unwrap();
        let mut sample = Sample::new();
        sample.set_messages_sent(0, 8).unwrap();
        for (records, total) in [(2, 4.0), (0, 0.0), (0, 0.0), (1, 9.0)] {
            sample.push(0, records, total).unwrap();
        }
        let expected = [sample.sum(P95), sample.count(P95), sample.mean(P95)];
        let found = [by.sum(&"a", P95), by.count(&"a", P95), by.mean(&"a", P95)];
        for (found, expected) in found.into_iter().zip(expected) {
            let (found, expected) = (found.unwrap(), expected.unwrap());
            assert!((found.value - expected.value).abs() < 1e-12);
            assert!((found.half_width() - expected.half_width()).abs() < 1e-9);
        }
        assert_eq!(by.warnings(), [Warning::UnseenKeys { missing: Some(4) }]);
        assert_eq!(by.sum(&"z", P95), Err(AnswerError::UnknownKey));
    }

    #[test]
    fn push_message__keys_beyond_the_limit_are_named() {
        let by = group_by(2, &MESSAGES);
        assert_eq!((by.keys(), by.uncounted_records()), (vec![&"a", &"b"], 1));
        let warning = Warning::UncountedRecords { records: 1, limit: 2 };
        assert!(by.mean(&"a", P95).unwrap().warnings.contains(&warning));
        assert!(by.warnings().contains(&warning));
        assert_eq!(group_by(0, &MESSAGES).uncounted_records(), 6);
    }

    #[test]
    fn push_message__a_bad_value_leaves_the_message_out() {
        let mut by = group_by(2, &MESSAGES[..1]);
        assert!(by.push_message(0, [("a", 1.0), ("b", f64::NAN)]).is_err());
        assert_eq!(by.all().messages(), 1);
        assert_eq!(by.keys["a"][0].1.sum_y(), 4.0);
    }

    #[test]
    fn merge__equals_one_stream() {
        for cut in 0..=4 {
            let mut left = group_by(10, &MESSAGES[..cut]);
            left.merge(&group_by(10, &MESSAGES[cut..])).unwrap();
            let whole = group_by(10, &MESSAGES);
            assert_eq!(left.keys(), whole.keys());
            for key in ["a", "b", "c"] {
                let (one, other) = (left.mean(&key, P95).unwrap(), whole.mean(&key, P95).unwrap());
                assert!((one.value - other.value).abs() < 1e-12, "{key}");
            }
        }
    }

    #[test]
    fn merge__drops_keys_that_a_full_part_may_have_left_out() {
        // The left part has no room for `c`, the right one has no room for `b`.
        let mut left = group_by(2, &[&[("a", 1.0), ("b", 1.0), ("c", 1.0)]]);
        let right = group_by(2, &[&[("a", 1.0), ("c", 1.0), ("b", 1.0)]]);
        left.merge(&right).unwrap();
        assert_eq!((left.keys(), left.uncounted_records()), (vec![&"a"], 4));
        assert!(left.merge(&group_by(3, &[])).is_err());
    }
}
