//! Answers by key, with bounded memory.

mod tally;

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use tally::Tally;

use crate::check::{contradictions, key_warnings, single, table_warnings, uncounted};
use crate::room::Room;
use crate::strata_methods::strata_methods;
use crate::stratum::check_value;
use crate::total::Total;
use crate::uncounted::Uncounted;
use crate::{AnswerError, Confidence, Delivery, Estimate, Moments, Sample, Warning};

/// The codes of keys whose places are kept while a message is added: dictionaries may be long.
const CODES_MAX: usize = 1024;

/// The memory of a key in one stratum.
const CELL_BYTES: usize = size_of::<InStratum>();

/// A key in one stratum.
#[derive(Clone, Debug)]
pub(crate) struct InStratum {
    pub stratum: u32,
    pub records: u64,
    /// The moments of its messages with the key.
    pub moments: Moments,
}

/// A counted key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The memory of the key.
    key_bytes: usize,
    /// The strata with the key, in order.
    pub strata: Vec<InStratum>,
    /// The message that is being added.
    current: Tally,
}

/// A message that is being added.
#[derive(Debug)]
pub(crate) struct Adding {
    stratum: u32,
    /// The entries and the room before it.
    known: usize,
    room: Room,
    /// Records whose keys aren't counted.
    uncounted: Tally,
    /// All records of the message, with and without values, in place of `x`.
    rows: Option<u64>,
    missing: u64,
    /// The places of keys, by their codes in this message.
    codes: Vec<Option<usize>>,
}

/// Sums, counts and means by key.
///
/// A key is a domain: a message without it has zero records and a total of zero. Only messages
/// with the key are kept, as moments, and the zeros of the others are added when an answer is asked
/// for. A key that is counted is counted from its first record on; once `keys_max` keys are there,
/// records of other keys are left out, and each answer says how many. Memory is some 310 bytes for
/// each key and stratum in which it occurs. Beyond 256 MiB, the rarest keys are left out as well.
#[derive(Clone, Debug)]
pub struct GroupBy<K> {
    /// All messages, by stratum: their numbers and facts.
    pub(crate) messages: Sample,
    /// Positions in `entries`.
    pub(crate) positions: HashMap<K, usize>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) keys_max: usize,
    /// Beside a key's total, its moments have all records of each message, to which the total
    /// has a ratio. The key's own records aren't kept.
    pub(crate) is_of_rows: bool,
    room: Room,
    pub(crate) uncounted: Uncounted,
    /// Entries with records of the message that is being added.
    touched: Vec<usize>,
}

impl<K: Clone + Eq + Hash + Ord> GroupBy<K> {
    /// A group-by that counts at most `keys_max` keys.
    pub fn new(keys_max: usize) -> Self {
        Self {
            messages: Sample::new(),
            positions: HashMap::new(),
            entries: Vec::new(),
            keys_max,
            is_of_rows: false,
            room: Room::default(),
            uncounted: Uncounted::default(),
            touched: Vec::new(),
        }
    }

    /// The memory of one of several: they share the bound.
    pub(crate) fn one_of(mut self, several: usize) -> Self {
        self.room = self.room.one_of(several);
        self
    }

    /// A group-by of sums alone. Where senders state exact numbers of records, the sums of keys use
    /// them.
    pub(crate) fn of_sums(keys_max: usize) -> Self {
        Self { is_of_rows: true, ..Self::new(keys_max) }
    }

    /// Adds the records of one message. A record with `None` as its value is left out, and counted
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
        self.push_pairs(stratum, records.into_iter().map(|(key, value)| (key, 1.0, value)))
    }

    /// Adds the records of one message with two columns, the denominator first, for
    /// [`GroupBy::mean`] as their ratio. A record that lacks one of them is left out, and counted.
    ///
    /// # Errors
    /// As [`GroupBy::push_message`].
    pub fn push_pairs<Q>(
        &mut self,
        stratum: u32,
        records: impl IntoIterator<Item = (Q, impl Into<Option<f64>>, impl Into<Option<f64>>)>,
    ) -> Result<(), AnswerError>
    where
        Q: Borrow<K>,
    {
        let mut adding = self.begin(stratum);
        let added = records.into_iter().try_for_each(|(key, x, y)| match x.into().zip(y.into()) {
            Some((x, y)) => self.add(&mut adding, (key.borrow(), None), x, y),
            None => {
                adding.missing += 1;
                Ok(())
            }
        });
        self.end(adding, added)
    }

    /// Begins a message. [`GroupBy::end`] must follow.
    pub(crate) fn begin(&self, stratum: u32) -> Adding {
        let (known, room) = (self.entries.len(), self.room);
        let (uncounted, codes) = (Tally::default(), Vec::new());
        Adding { stratum, known, room, uncounted, rows: None, missing: 0, codes }
    }

    /// Adds a record with its denominator and its total. A key may have a code: equal codes of a
    /// message stand for equal keys, which are looked up once.
    pub(crate) fn add<L>(
        &mut self,
        adding: &mut Adding,
        (key, code): (&L, Option<usize>),
        x: f64,
        y: f64,
    ) -> Result<(), AnswerError>
    where
        K: Borrow<L>,
        L: ToOwned<Owned = K> + Eq + Hash + ?Sized,
    {
        check_value(adding.stratum, "denominator", x)?;
        check_value(adding.stratum, "value", y)?;
        let coded = code.and_then(|code| *adding.codes.get(code)?);
        let Some(position) = coded.or_else(|| self.position(adding, key)) else {
            adding.uncounted.add(x, y);
            return Ok(());
        };
        if let Some(code) = code.filter(|&code| coded.is_none() && code < CODES_MAX) {
            adding.codes.resize(adding.codes.len().max(code + 1), None);
            adding.codes[code] = Some(position);
        }
        let tally = &mut self.entries[position].current;
        if tally.records == 0 {
            self.touched.push(position);
        }
        tally.add(x, y);
        Ok(())
    }

    /// The place of a key, which may be a new one; `None` if it isn't counted.
    fn position<L>(&mut self, adding: &Adding, key: &L) -> Option<usize>
    where
        K: Borrow<L>,
        L: ToOwned<Owned = K> + Eq + Hash + ?Sized,
    {
        if let Some(&position) = self.positions.get(key) {
            return Some(position);
        }
        // Once a record was left out, a new key may lack its first ones.
        let is_whole = self.uncounted.is_empty() && adding.uncounted.records == 0;
        let is_counted = is_whole && self.has_room(key);
        is_counted.then(|| self.insert(key.to_owned(), key_bytes::<K, L>(key)))
    }

    /// Sets the number of all records of the message, with and without values.
    pub(crate) fn set_rows(&self, adding: &mut Adding, rows: u64) {
        adding.rows = self.is_of_rows.then_some(rows);
    }

    /// The number of all records of the message, their `x` and their `y`.
    fn totals(&self, adding: &Adding) -> (u64, Total, Total) {
        let mut all = adding.uncounted;
        self.touched.iter().for_each(|position| all.merge(&self.entries[*position].current));
        let x = adding.rows.map_or(all.x(), |rows| Total::of(rows as f64));
        (all.records, x, all.y)
    }

    /// Whether the message fits in: [`GroupBy::end`] then takes it.
    pub(crate) fn check(&self, adding: &Adding) -> Result<(), AnswerError> {
        let (_, x, y) = self.totals(adding);
        self.messages.check_push(adding.stratum, x, y)
    }

    /// Ends a message: it is left out if a record was refused.
    pub(crate) fn end<E: From<AnswerError>>(
        &mut self,
        adding: Adding,
        added: Result<(), E>,
    ) -> Result<(), E> {
        let (records, all_x, all_y) = self.totals(&adding);
        let Adding { stratum, known, room, uncounted, missing, .. } = adding;
        let is_nonzero = match self.is_of_rows {
            true => records > 0,
            false => all_x.value() != 0.0 || all_y.value() != 0.0,
        };
        let added = added
            .and_then(|()| Ok(self.messages.push_counted(stratum, all_x, all_y, is_nonzero)?));
        if added.is_err() {
            if self.entries.len() > known {
                self.positions.retain(|_, position| *position < known);
                self.entries.truncate(known);
            }
            self.room = room;
            for position in self.touched.drain(..).filter(|&position| position < known) {
                self.entries[position].current = Tally::default();
            }
            return added;
        }
        self.uncounted.add(stratum, uncounted.records);
        self.messages.note_missing(stratum, missing);
        for position in self.touched.drain(..) {
            let entry = &mut self.entries[position];
            let tally = std::mem::take(&mut entry.current);
            let strata = entry.strata.len();
            let x = if self.is_of_rows { all_x } else { tally.x() };
            let own = in_stratum(&mut entry.strata, stratum);
            own.records += tally.records;
            own.moments.push_totals(x, tally.y);
            self.room.bytes += (entry.strata.len() - strata) * CELL_BYTES;
        }
        self.drop_rarest();
        Ok(())
    }

    fn has_room<L: ?Sized>(&self, key: &L) -> bool {
        self.entries.len() < self.keys_max && self.room.fits(key_bytes::<K, L>(key))
    }

    /// Takes a key in, with what was counted of it.
    pub(crate) fn take(&mut self, key: K, strata: Vec<InStratum>) {
        let key_bytes = key_bytes::<K, K>(&key);
        let position = self.insert(key, key_bytes);
        self.room.bytes += strata.len() * CELL_BYTES;
        self.entries[position].strata = strata;
    }

    fn insert(&mut self, key: K, key_bytes: usize) -> usize {
        let position = self.entries.len();
        self.positions.insert(key, position);
        let (strata, current) = (Vec::new(), Tally::default());
        self.entries.push(Entry { key_bytes, strata, current });
        self.room.bytes += key_bytes;
        position
    }

    strata_methods!(messages);

    /// As [`Sample::set_exact_records_of`].
    pub(crate) fn set_exact_records_of(
        &mut self,
        stratum: u32,
        records: f64,
        messages: Option<u64>,
    ) -> Result<(), AnswerError> {
        self.messages.set_exact_records_of(stratum, records, messages)
    }

    /// Takes all messages of a stratum out, and with them the keys that only it holds.
    pub(crate) fn remove_stratum(&mut self, stratum: u32) {
        self.messages.remove_stratum(stratum);
        self.uncounted.remove_stratum(stratum);
        let mut others = HashSet::new();
        for (key, &position) in &self.positions {
            let entry = &mut self.entries[position];
            entry.strata.retain(|own| own.stratum != stratum);
            if !entry.strata.is_empty() {
                others.insert(key.clone());
            }
        }
        self.keep(|key| others.contains(key));
    }

    /// Adds another part of the job. No message may be in both.
    ///
    /// A key is kept if neither part has left out a record of it. If one part has left out records,
    /// its own keys alone are sure to be whole. The records of dropped keys become uncounted.
    ///
    /// # Errors
    /// The limits differ, or the parts contradict each other. The group-by stays as it was.
    pub fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        if self.keys_max != other.keys_max || self.is_of_rows != other.is_of_rows {
            let (one, other) = (self.keys_max, other.keys_max);
            return Err(AnswerError::KeyLimits { one, other });
        }
        self.messages.merge(&other.messages)?;
        let (is_whole, other_is_whole) = (self.uncounted.is_empty(), other.uncounted.is_empty());
        self.uncounted.merge(&other.uncounted);
        if !other_is_whole {
            self.keep(|key| other.positions.contains_key(key));
        }
        for (key, &position) in &other.positions {
            let theirs = &other.entries[position];
            let position = match self.positions.get(key) {
                Some(&position) => position,
                None if is_whole => self.insert(key.clone(), theirs.key_bytes),
                None => {
                    theirs.leave_out(&mut self.uncounted);
                    continue;
                }
            };
            let own = &mut self.entries[position];
            let strata = own.strata.len();
            for theirs in &theirs.strata {
                let own = in_stratum(&mut own.strata, theirs.stratum);
                own.records = own.records.saturating_add(theirs.records);
                own.moments.merge(&theirs.moments);
            }
            self.room.bytes += (own.strata.len() - strata) * CELL_BYTES;
        }
        self.drop_rarest();
        Ok(())
    }

    /// Drops the keys with the fewest records until the limits hold.
    pub(crate) fn drop_rarest(&mut self) {
        if self.entries.len() <= self.keys_max && self.room.fits(0) {
            return;
        }
        let keys = self.positions.iter().map(|(key, &position)| {
            let entry = &self.entries[position];
            (entry.records(), key, entry.bytes())
        });
        let excess: HashSet<K> =
            self.room.excess(keys, self.keys_max).into_iter().cloned().collect();
        self.keep(|key| !excess.contains(key));
    }

    /// Keeps some keys. The records of the others become uncounted.
    fn keep(&mut self, is_kept: impl Fn(&K) -> bool) {
        let mut old: Vec<Option<Entry>> = self.entries.drain(..).map(Some).collect();
        let (entries, uncounted) = (&mut self.entries, &mut self.uncounted);
        self.positions.retain(|key, position| {
            let Some(entry) = old[*position].take() else { return false };
            let is_kept = is_kept(key);
            if is_kept {
                *position = entries.len();
                entries.push(entry);
            } else {
                entry.leave_out(uncounted);
            }
            is_kept
        });
        self.room.bytes = self.entries.iter().map(Entry::bytes).sum();
    }

    /// The counted keys, in order.
    pub fn keys(&self) -> Vec<&K> {
        let mut keys: Vec<&K> = self.positions.keys().collect();
        keys.sort_unstable();
        keys
    }

    /// Records of keys beyond the limit.
    pub fn uncounted_records(&self) -> u64 {
        self.uncounted.records()
    }

    /// The sum over a key's records in all messages, arrived or not.
    ///
    /// # Errors
    /// No counted record has the key, or as [`Sample::sum`].
    pub fn sum(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.sum_of_key(confidence))
    }

    /// The number of a key's records in all messages, arrived or not.
    ///
    /// # Errors
    /// As [`GroupBy::sum`].
    pub fn count(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.count(confidence))
    }

    /// The number of a key's records, each of which has added one to the key's total.
    pub(crate) fn count_of_total(
        &self,
        key: &K,
        confidence: Confidence,
    ) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.count_of_total(confidence))
    }

    /// The mean over a key's records.
    ///
    /// # Errors
    /// No counted record has the key, or as [`Sample::mean`].
    pub fn mean(&self, key: &K, confidence: Confidence) -> Result<Estimate, AnswerError> {
        self.answer(key, |sample| sample.mean_of_key(confidence))
    }

    /// Whether a counted record has the key.
    pub(crate) fn has<L>(&self, key: &L) -> bool
    where
        K: Borrow<L>,
        L: Eq + Hash + ?Sized,
    {
        self.positions.contains_key(key)
    }

    /// The answer of a key that no record has.
    pub(crate) fn of_no_record(
        &self,
        ask: impl Fn(&Sample) -> Result<Estimate, AnswerError>,
    ) -> Result<Estimate, AnswerError> {
        self.answer_of(&[], ask)
    }

    /// The answer of a key from all messages with its own totals.
    pub(crate) fn answer<L>(
        &self,
        key: &L,
        ask: impl FnOnce(&Sample) -> Result<Estimate, AnswerError>,
    ) -> Result<Estimate, AnswerError>
    where
        K: Borrow<L>,
        L: Eq + Hash + ?Sized,
    {
        let position = *self.positions.get(key).ok_or(AnswerError::UnknownKey)?;
        self.answer_of(&self.entries[position].strata, ask)
    }

    /// `present`: the strata with the key.
    fn answer_of(
        &self,
        present: &[InStratum],
        ask: impl FnOnce(&Sample) -> Result<Estimate, AnswerError>,
    ) -> Result<Estimate, AnswerError> {
        let sample = self.sample_of(present);
        let mut estimate = ask(&sample)?;
        if !self.is_of_rows {
            estimate.warnings.extend(contradictions(&self.messages.parts()?));
        }
        let parts = sample.parts()?;
        let with_key = |number| in_stratum_of(present, number).map_or(0, |own| own.messages());
        key_warnings(&mut estimate.warnings, &parts, with_key);
        estimate.warnings.extend(uncounted(self.uncounted.records(), self.keys_max));
        Ok(estimate)
    }

    /// All messages, with a key's own totals.
    pub(crate) fn sample_of_key<L>(&self, key: &L) -> Result<Sample, AnswerError>
    where
        K: Borrow<L>,
        L: Eq + Hash + ?Sized,
    {
        let position = *self.positions.get(key).ok_or(AnswerError::UnknownKey)?;
        Ok(self.sample_of(&self.entries[position].strata))
    }

    /// `present`: the strata with the key.
    fn sample_of(&self, present: &[InStratum]) -> Sample {
        let mut sample = self.messages.clone();
        for (number, stratum) in &mut sample.strata {
            let mut moments = in_stratum_of(present, *number).copied().unwrap_or_default();
            if self.is_of_rows {
                stratum.moments = moments.among(&stratum.moments);
                continue;
            }
            moments.add_zeros(stratum.arrived() - moments.messages());
            stratum.moments = moments;
            // It is that of all keys.
            stratum.exact_x = None;
        }
        sample
    }

    /// The stratum of each key that one message of the incomplete strata holds.
    fn singles(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().filter_map(|entry| {
            let with_key = entry.strata.iter().map(|own| (own.stratum, own.moments.messages()));
            single(&self.messages, with_key)
        })
    }

    /// Warnings about the whole table of keys.
    pub fn warnings(&self) -> Vec<Warning> {
        table_warnings(&self.messages, self.singles(), self.uncounted.records(), self.keys_max)
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.key_bytes + self.strata.len() * CELL_BYTES
    }

    fn records(&self) -> u64 {
        self.strata.iter().map(|own| own.records).fold(0, u64::saturating_add)
    }

    /// Adds its records to those whose keys aren't counted.
    fn leave_out(&self, uncounted: &mut Uncounted) {
        self.strata.iter().for_each(|own| uncounted.add(own.stratum, own.records));
    }
}

/// The memory of a key: its own, and its places in the map and among the entries.
fn key_bytes<K, L: ?Sized>(key: &L) -> usize {
    size_of_val(key) + size_of::<(K, usize)>() + size_of::<Entry>()
}

/// A key's part in one stratum.
fn in_stratum(strata: &mut Vec<InStratum>, stratum: u32) -> &mut InStratum {
    let at = strata.binary_search_by_key(&stratum, |own| own.stratum).unwrap_or_else(|at| {
        if strata.len() < 4 {
            // Most keys are in one stratum, and a vector begins with room for four.
            strata.reserve_exact(1);
        }
        strata.insert(at, InStratum { stratum, records: 0, moments: Moments::default() });
        at
    });
    &mut strata[at]
}

/// The moments of a key's messages in one stratum.
fn in_stratum_of(present: &[InStratum], number: u32) -> Option<&Moments> {
    let at = present.binary_search_by_key(&number, |own| own.stratum).ok()?;
    Some(&present[at].moments)
}

#[cfg(test)]
mod tests;
