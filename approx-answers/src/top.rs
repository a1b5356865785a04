//! The keys with the largest totals, and whether the sample can tell them from the others.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::candidates::Candidates;
use crate::check::{job_warnings, key_warnings};
use crate::groups::variance;
use crate::keyed::{Cell, Cells, Entry, InStratum, Keyed, OnRecord};
use crate::part::Part;
use crate::spread::Spread;
use crate::strata_methods::strata_methods;
use crate::stratum::Stratum;
use crate::students::Students;
use crate::with_value::with_value;
use crate::{AnswerError, Confidence, Delivery, Estimate, Sample, Warning};

/// The total of a key in a group of messages.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Total {
    pub sum: f64,
    pub records: u64,
}

impl Cell for Total {
    fn push(&mut self, value: f64) {
        self.sum += value;
        self.records += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.records += other.records;
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// The largest keys by total.
///
/// The variance of a total, and of the difference of two, is the delete-group jackknife's, with 50
/// random groups of messages in each stratum. Memory is some 870 bytes for each key and stratum in
/// which it occurs. Beyond 256 MiB, the keys in the fewest messages are left out.
#[derive(Clone, Debug)]
pub struct Top<K> {
    pub(crate) keyed: Keyed<K, Total>,
}

/// The answer of [`Top::largest`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking<K> {
    /// The keys with the largest totals, the largest first. All intervals together contain their
    /// keys' totals with the asked confidence, although the same sample chose the keys: the risk is
    /// divided by the number of keys that may be among the ranks (Bonferroni).
    pub ranks: Vec<(K, Estimate)>,
    /// By how much the last rank's total is larger than the next key's; `None` if there is no next
    /// key. The interval allows for each pair of keys that may have these two ranks.
    pub gap: Option<Estimate>,
    /// Whether the sample shows, with the asked confidence, that these are the largest keys: each
    /// key of the ranking is larger than each other one. The level is divided by the number of
    /// these pairs (Bonferroni).
    pub separates: bool,
    /// Reasons to doubt the ranking.
    pub warnings: Vec<Warning>,
}

impl<K: Clone + Eq + Hash + Ord> Top<K> {
    /// A ranking of at most `keys_max` keys.
    pub fn new(keys_max: usize) -> Self {
        Self { keyed: Keyed::new(keys_max) }
    }

    /// Adds the records of one message, each with the number that it adds to its key's total: 1 to
    /// rank keys by records. A record with `None` as its number is left out, and counted
    /// ([`Warning::MissingValues`]).
    ///
    /// # Errors
    /// A value is NaN, infinite or huge, or more messages arrive than were sent. The message is
    /// then left out.
    pub fn push_message<Q>(
        &mut self,
        stratum: u32,
        records: impl IntoIterator<Item = (Q, impl Into<Option<f64>>)>,
    ) -> Result<(), AnswerError>
    where
        Q: Borrow<K>,
    {
        let (records, missing) = with_value(records);
        self.push_by(stratum, |on| records.iter().try_for_each(|(key, x)| on(key.borrow(), *x)))?;
        self.keyed.messages.note_missing(stratum, missing);
        Ok(())
    }

    /// As [`crate::Quantiles::push_by`].
    pub(crate) fn push_by<L, E>(
        &mut self,
        stratum: u32,
        each: impl FnMut(OnRecord<'_, L>) -> Result<(), E>,
    ) -> Result<(), E>
    where
        K: Borrow<L>,
        L: ToOwned<Owned = K> + Eq + Hash + ?Sized,
        E: From<AnswerError>,
    {
        let contents = RefCell::new(DefaultHasher::new());
        let mix = |key: &L, x: f64| (key, x.to_bits()).hash(&mut *contents.borrow_mut());
        self.keyed.push(stratum, each, mix, || contents.borrow().finish())
    }

    /// As [`Keyed::check`].
    pub(crate) fn check(&self, stratum: u32, records: u64) -> Result<(), AnswerError> {
        self.keyed.check(stratum, records)
    }

    pub(crate) fn keyed(&mut self) -> &mut Keyed<K, Total> {
        &mut self.keyed
    }

    strata_methods!(keyed.messages);

    /// Whether all keys that arrived are counted.
    pub(crate) fn is_whole(&self) -> bool {
        self.keyed.uncounted.is_empty()
    }

    /// As [`crate::Answering::remove_stratum`].
    pub(crate) fn remove_stratum(&mut self, stratum: u32) {
        self.keyed.remove_stratum(stratum);
    }

    /// Adds another part of the job. No message may be in both.
    ///
    /// # Errors
    /// The limits differ, the parts contradict each other, or the keys of both exceed the limit or
    /// did so before: the largest keys may then be among those left out. The ranking stays as it
    /// was.
    pub fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        let (own, other) = (&mut self.keyed, &other.keyed);
        let new = other.entries.keys().filter(|key| !own.entries.contains_key(*key)).count();
        let is_whole = own.uncounted.is_empty() && other.uncounted.is_empty();
        if own.keys_max == other.keys_max && (!is_whole || own.entries.len() + new > own.keys_max) {
            return Err(AnswerError::TooManyKeys { limit: own.keys_max });
        }
        own.merge(other)
    }

    /// The `ranks` keys with the largest totals. Equal totals are in the order of the keys.
    ///
    /// # Errors
    /// A stratum hasn't said how many messages it sent, or none of them arrived.
    pub fn largest(&self, ranks: usize, confidence: Confidence) -> Result<Ranking<K>, AnswerError> {
        let strata = self.keyed.messages.parts()?;
        if strata.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let unknown = strata.iter().find(|(_, stratum)| stratum.sent.is_none());
        if let Some(&(stratum, _)) = unknown {
            return Err(AnswerError::SentUnknown { stratum });
        }
        let mut totals: Vec<(f64, &K)> =
            self.keyed.entries.iter().map(|(key, e)| (total(&strata, &e.cells), key)).collect();
        totals.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
        let keys: Vec<&K> = totals.into_iter().map(|(_, key)| key).collect();
        let (inside, outside) = keys.split_at(ranks.min(keys.len()));

        let entries = &self.keyed.entries;
        let none = Entry::default();
        let with_spread = |key: &&K| {
            let entry = &entries[*key];
            let spread = Spread::new(self.parts(&strata, entry, &none), f64::INFINITY);
            (total(&strata, &entry.cells), spread)
        };
        let candidates = Candidates::new(keys.iter().map(with_spread), confidence);
        let estimate = |one: &K, other: Option<&K>, level: Confidence| {
            let other = other.map_or(&none, |key| &entries[key]);
            let estimate = self.difference(&strata, &entries[one], other, level)?;
            // The stricter level pays for the choice: what is left is the asked confidence.
            Ok::<Estimate, AnswerError>(Estimate { confidence, ..estimate })
        };
        let level = candidates.level_of_first(inside.len());
        let ranks: Result<Vec<(K, Estimate)>, AnswerError> =
            inside.iter().map(|key| Ok(((*key).clone(), estimate(key, None, level)?))).collect();
        let gap = match (inside.last(), outside.first()) {
            (Some(last), Some(next)) => {
                Some(estimate(last, Some(next), candidates.level_of_gap(inside.len() - 1))?)
            }
            _ => None,
        };
        let is_complete = strata.iter().all(|(_, stratum)| stratum.is_complete());
        let pairs = (inside.len() * outside.len()).max(1) as f64;
        let strict = Confidence::at_most(1.0 - (1.0 - confidence.level()) / pairs);
        let mut separates =
            self.keyed.uncounted.is_empty() && (gap.is_some() || is_complete) && !inside.is_empty();
        let mut students = Students::new(strict);
        for (one, other) in inside.iter().flat_map(|one| outside.iter().map(move |o| (one, o))) {
            if !separates {
                break;
            }
            let (one, other) = (&entries[*one], &entries[*other]);
            let value = total(&strata, &one.cells) - total(&strata, &other.cells);
            separates = students.show_positive(value, &self.spread(&strata, one, other));
        }
        let mut warnings = job_warnings(&strata);
        // A key that no message holds isn't among the largest.
        warnings.extend(self.keyed.uncounted());
        Ok(Ranking { ranks: ranks?, gap, separates, warnings })
    }

    /// The difference of two keys' totals over all messages, arrived or not.
    fn difference(
        &self,
        strata: &[(u32, &Stratum)],
        one: &Entry<Total>,
        other: &Entry<Total>,
        confidence: Confidence,
    ) -> Result<Estimate, AnswerError> {
        let value = total(strata, &one.cells) - total(strata, &other.cells);
        let spread = self.spread(strata, one, other);
        let mut warnings: Vec<Warning> = spread.warnings(with_either(one, other)).collect();
        let with_either = |number| with_either_in(one.cells.get(&number), other.cells.get(&number));
        key_warnings(&mut warnings, strata, with_either);
        let estimate = spread.estimate(value, confidence, "total", &self.keyed.messages)?;
        Ok(Estimate { warnings, ..estimate })
    }

    /// The spread of that difference.
    fn spread(
        &self,
        strata: &[(u32, &Stratum)],
        one: &Entry<Total>,
        other: &Entry<Total>,
    ) -> Spread {
        // As with sums: messages without the keys bring no degrees of freedom.
        Spread::new(self.parts(strata, one, other), with_either(one, other).max(1) as f64)
    }

    /// The parts of its variance.
    fn parts(
        &self,
        strata: &[(u32, &Stratum)],
        one: &Entry<Total>,
        other: &Entry<Total>,
    ) -> Vec<Part> {
        let mut parts = Vec::new();
        for (number, stratum) in strata.iter().filter(|(_, stratum)| !stratum.is_complete()) {
            let (of_one, of_other) = (one.cells.get(number), other.cells.get(number));
            let at = |own: Option<&InStratum<Total>>, group: usize| {
                own.map_or(0.0, |own| own.groups[group].sum)
            };
            let sizes = self.keyed.groups.sizes(*number);
            let (square, degrees_of_freedom) =
                variance(&sizes, |group| at(of_one, group) - at(of_other, group));
            let sent = stratum.sent.unwrap_or(0) as f64;
            let part = Part {
                stratum: *number,
                sent: stratum.sent,
                arrived: stratum.arrived(),
                nonzero: with_either_in(of_one, of_other),
                square: sent * sent * square,
                cube: 0.0,
                degrees_of_freedom,
                extreme_share: 0.0,
                agrees: square == 0.0,
                is_bounded: false,
                is_full: false,
                alike: alike(of_one, of_other),
            };
            let own = || of_one.into_iter().chain(of_other);
            // Only parts that agree need the rule.
            parts.push(if part.agrees && own().all(is_count) {
                let scale = sent / stratum.arrived() as f64;
                // A message without records changes a difference by no more than the larger key.
                let count = own().map(|own| scale * sum(own)).fold(0.0, f64::max);
                part.with_rule_of_three(stratum, count)
            } else {
                part
            });
        }
        parts
    }
}

/// Messages with one of two keys, at least: many hold both.
fn with_either(one: &Entry<Total>, other: &Entry<Total>) -> u64 {
    one.messages.max(other.messages)
}

/// Messages of one stratum with one of two keys, at least.
fn with_either_in(one: Option<&InStratum<Total>>, other: Option<&InStratum<Total>>) -> u64 {
    let messages = |own: Option<&InStratum<Total>>| own.map_or(0, |own| own.messages);
    messages(one).max(messages(other))
}

/// Messages of a stratum with one total of a key. At most as many have one difference of two keys.
fn alike(one: Option<&InStratum<Total>>, other: Option<&InStratum<Total>>) -> u64 {
    one.into_iter().chain(other).map(InStratum::alike).min().unwrap_or(0)
}

fn sum(own: &InStratum<Total>) -> f64 {
    own.groups.iter().map(|cell| cell.sum).sum()
}

/// Whether a key's total is its number of records, so that no message has less than none.
fn is_count(own: &InStratum<Total>) -> bool {
    own.groups.iter().all(|cell| cell.sum == cell.records as f64)
}

fn total(strata: &[(u32, &Stratum)], cells: &Cells<Total>) -> f64 {
    let part = |(number, stratum): &(u32, &Stratum)| {
        let sum = cells.get(number).map_or(0.0, sum);
        stratum.sent.unwrap_or(0) as f64 / stratum.arrived() as f64 * sum
    };
    strata.iter().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const P95: Confidence = Confidence::P95;

    /// Messages of 20 records, in which keys occur in turn.
    fn top(messages: u32, sent: u64, counts: &[(&'static str, u32)]) -> Top<&'static str> {
        let mut top = Top::new(10);
        top.set_messages_sent(0, sent).unwrap();
        top.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..messages {
            let records = counts.iter().flat_map(|&(key, count)| {
                // One record more or less, by turns.
                let count = count + (message + count) % 3;
                (0..count).map(move |_| (key, 1.0))
            });
            top.push_message(0, records).unwrap();
        }
        top
    }

    #[test]
    fn largest__ranks_and_separates() {
        let top = top(200, 250, &[("c", 2), ("a", 9), ("b", 5)]);
        let ranking = top.largest(2, P95).unwrap();
        let keys: Vec<&str> = ranking.ranks.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["a", "b"]);
        assert!((ranking.ranks[0].1.value - 2_500.0).abs() < 10.0, "{:?}", ranking.ranks);
        let gap = ranking.gap.unwrap();
        assert!(ranking.separates && gap.low > 0.0 && gap.contains(3.0 * 250.0), "{gap}");
        assert_eq!(ranking.warnings, []);
    }

    /// Ten large keys and 400 small ones, in messages of two strata that differ in size.
    fn of_many_keys() -> Top<u32> {
        let mut top = Top::new(1_000);
        for (stratum, messages) in [(0, 300), (1, 90)] {
            top.set_messages_sent(stratum, messages + 50).unwrap();
            top.set_delivery(stratum, &Delivery::shuffled()).unwrap();
            for message in 0..messages as u32 {
                let large = (0..10).map(|key| (key, f64::from(100 + (message * 7 + key) % 13)));
                let small = (10..410).map(|key| (key, f64::from((message * key) % 11)));
                top.push_message(stratum, large.chain(small)).unwrap();
            }
        }
        top
    }

    /// A quantile for each pair took seconds with 10,000 keys.
    #[test]
    fn show_positive__computes_few_quantiles() {
        let top = of_many_keys();
        assert!(top.largest(10, P95).unwrap().separates);
        let strata = top.keyed.messages.parts().unwrap();
        let entries = &top.keyed.entries;
        let mut students = Students::new(P95);
        let mut positive = 0;
        for (one, other) in (0..10).flat_map(|one| (0..410).map(move |other| (one, other))) {
            let spread = top.spread(&strata, &entries[&one], &entries[&other]);
            let cells = [one, other].map(|key| total(&strata, &entries[&key].cells));
            let value = cells[0] - cells[1];
            let shown = students.show_positive(value, &spread);
            let exact = top.difference(&strata, &entries[&one], &entries[&other], P95).unwrap();
            assert_eq!(shown, exact.low > 0.0, "{one} and {other}: {exact}");
            positive += u32::from(shown);
        }
        assert!((4_000..4_090).contains(&positive), "{positive}");
        assert!(students.computed < 200, "{} of 4,100 pairs", students.computed);
    }

    #[test]
    fn largest__equal_keys_do_not_separate() {
        let ranking = top(200, 250, &[("a", 3), ("b", 3), ("c", 1)]).largest(1, P95).unwrap();
        assert!(!ranking.separates);
        assert_eq!(ranking.gap.unwrap().value, 0.0);
    }

    /// The two keys are together in 18 messages, which carry their ranks and the gap alike.
    #[test]
    fn largest__counts_a_message_with_both_keys_once() {
        let mut top: Top<&str> = Top::new(10);
        top.set_messages_sent(0, 1_000).unwrap();
        top.set_delivery(0, &Delivery::shuffled()).unwrap();
        for message in 0..100 {
            let (a, b) = if message < 18 { (20 + message % 5, 3 + message % 4) } else { (0, 0) };
            let keys = (0..a).map(|_| "a").chain((0..b).map(|_| "b"));
            top.push_message(0, keys.map(|key| (key, 1.0))).unwrap();
        }
        let Ranking { ranks, gap, .. } = top.largest(1, P95).unwrap();
        let gap = gap.unwrap();
        for estimate in [&ranks[0].1, &gap] {
            assert!(estimate.warnings.contains(&Warning::FewMessages { messages: 18 }), "{gap:?}");
        }
        assert_eq!(gap.degrees_of_freedom, 18.0);
    }

    #[test]
    fn largest__of_a_complete_job_is_exact() {
        let whole = top(40, 40, &[("a", 3), ("b", 2)]);
        let ranking = whole.largest(1, P95).unwrap();
        assert!(ranking.separates && ranking.warnings.is_empty());
        assert_eq!(ranking.ranks[0].1.half_width(), 0.0);
        assert!(whole.largest(5, P95).unwrap().separates);
        assert!(!top(40, 50, &[("a", 3)]).largest(5, P95).unwrap().separates);
    }

    #[test]
    fn largest__keys_beyond_the_limit_take_the_ranking_s_certainty() {
        let mut top = top(40, 40, &[("a", 9), ("b", 2)]);
        top.keyed.keys_max = 2;
        assert!(top.largest(1, P95).unwrap().separates);
        assert!(top.push_message(1, [("c", 1.0)]).is_ok());
        top.set_messages_sent(1, 1).unwrap();
        top.set_delivery(1, &Delivery::shuffled()).unwrap();
        let ranking = top.largest(1, P95).unwrap();
        assert!(!ranking.separates);
        assert_eq!(ranking.warnings, [Warning::UncountedRecords { records: 1, limit: 2 }]);
    }

    #[test]
    fn merge__equals_one_stream() {
        let counts = [("a", 3), ("b", 2)];
        let mut left = top(30, 200, &counts);
        left.merge(&top(60, 200, &counts)).unwrap();
        let one = left.largest(1, P95).unwrap().ranks.remove(0).1;
        let sum: f64 =
            [30, 60].map(|m| (0..m).map(|i| 3 + i % 3).sum::<u32>()).map(f64::from).iter().sum();
        assert!((one.value - sum * 200.0 / 90.0).abs() < 1e-9);
        let mut small: Top<&str> = Top::new(1);
        small.push_message(0, [("a", 1.0)]).unwrap();
        let mut other = Top::new(1);
        other.push_message(0, [("b", 1.0)]).unwrap();
        assert_eq!(small.merge(&other), Err(AnswerError::TooManyKeys { limit: 1 }));
    }
}
