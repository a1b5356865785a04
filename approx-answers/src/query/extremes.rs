//! The smallest or largest number of a column that arrived, or its different values. Each is a
//! bound for all rows.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::check::uncounted;
use crate::room::Room;
use crate::spread::Spread;
use crate::stratum::check_value;
use crate::total::Total;
use crate::uncounted::Uncounted;
use crate::{AnswerError, Confidence, Estimate, Sample, Warning};

/// The memory of a value in a set, and of a key in the map, beside its text.
const VALUE_BYTES: usize = 32;
const KEY_BYTES: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Least,
    Most,
    Distinct,
}

/// The numbers and values of a key in some messages.
#[derive(Clone, Debug, Default)]
struct Found {
    /// The smallest or largest number, by the kind.
    number: Option<f64>,
    values: HashSet<Box<str>>,
}

/// The records of a message that is being added, by key.
#[derive(Debug, Default)]
pub(super) struct Adding {
    by_key: HashMap<String, Found>,
    bytes: usize,
    uncounted: u64,
}

/// The extremes or the different values of each key. Beyond the limits, records aren't counted.
#[derive(Clone, Debug)]
pub(super) struct Extremes {
    pub messages: Sample,
    kind: Kind,
    by_key: HashMap<String, BTreeMap<u32, Found>>,
    keys_max: usize,
    room: Room,
    uncounted: Uncounted,
}

impl Extremes {
    /// Extremes of at most `keys_max` keys, in the memory of one of `several`.
    pub fn new(kind: Kind, keys_max: usize, several: usize) -> Self {
        Self {
            messages: Sample::new(),
            kind,
            by_key: HashMap::new(),
            keys_max,
            room: Room::default().one_of(several),
            uncounted: Uncounted::default(),
        }
    }

    /// Adds a record to a message.
    pub fn add(
        &self,
        stratum: u32,
        adding: &mut Adding,
        key: &str,
        number: f64,
        text: &str,
    ) -> Result<(), AnswerError> {
        check_value(stratum, "value", number)?;
        let known = self.by_key.get(key);
        let is_new = known.is_none() && !adding.by_key.contains_key(key);
        let keys = self.by_key.len() + adding.by_key.len();
        let own = known.and_then(|strata| strata.get(&stratum));
        let is_new_value = self.kind == Kind::Distinct
            && !own.is_some_and(|own| own.values.contains(text))
            && !adding.by_key.get(key).is_some_and(|own| own.values.contains(text));
        let of_key = if is_new { KEY_BYTES + key.len() } else { 0 };
        let of_value = if is_new_value { VALUE_BYTES + text.len() } else { 0 };
        let is_full = of_key + of_value > 0 && !self.room.fits(adding.bytes + of_key + of_value);
        // Once a record was left out, a new key may lack its first ones.
        let has_left_out = !self.uncounted.is_empty() || adding.uncounted > 0;
        if is_full || is_new && (has_left_out || keys >= self.keys_max) {
            adding.uncounted += 1;
            return Ok(());
        }
        adding.bytes += of_key + of_value;
        if is_new {
            adding.by_key.insert(key.to_owned(), Found::default());
        }
        let found = match adding.by_key.get_mut(key) {
            Some(found) => found,
            None => adding.by_key.entry(key.to_owned()).or_default(),
        };
        found.add(self.kind, number);
        if is_new_value {
            found.values.insert(text.into());
        }
        Ok(())
    }

    pub fn check(&self, stratum: u32) -> Result<(), AnswerError> {
        self.messages.check_push(stratum, Total::default(), Total::default())
    }

    /// Ends a message.
    pub fn end(&mut self, stratum: u32, adding: Adding) -> Result<(), AnswerError> {
        self.messages.push_totals(stratum, Total::default(), Total::default())?;
        self.room.bytes += adding.bytes;
        self.uncounted.add(stratum, adding.uncounted);
        for (key, found) in adding.by_key {
            let own = self.by_key.entry(key).or_default().entry(stratum).or_default();
            own.merge(self.kind, found);
        }
        Ok(())
    }

    pub fn has(&self, key: &str) -> bool {
        self.by_key.contains_key(key)
    }

    /// The keys, in order.
    pub fn keys(&self) -> Vec<&String> {
        let mut keys: Vec<&String> = self.by_key.keys().collect();
        keys.sort_unstable();
        keys
    }

    /// Whether all records that arrived are counted.
    pub fn is_whole(&self) -> bool {
        self.uncounted.is_empty()
    }

    pub fn warnings(&self) -> Option<Warning> {
        uncounted(self.uncounted.records(), self.keys_max)
    }

    /// Takes all messages of a stratum out, and with them the keys that only it holds.
    pub fn remove_stratum(&mut self, stratum: u32) {
        self.messages.remove_stratum(stratum);
        self.uncounted.remove_stratum(stratum);
        self.by_key.retain(|_, strata| {
            strata.remove(&stratum);
            !strata.is_empty()
        });
        let bytes = |(key, strata): (&String, &BTreeMap<u32, Found>)| {
            let values = strata.values().flat_map(|found| &found.values);
            KEY_BYTES + key.len() + values.map(|text| VALUE_BYTES + text.len()).sum::<usize>()
        };
        self.room.bytes = self.by_key.iter().map(bytes).sum();
    }

    /// The bound of a key: the answer itself once all messages arrived.
    pub fn bound(&self, key: &str, confidence: Confidence) -> Result<Estimate, AnswerError> {
        let strata = self.messages.parts()?;
        if strata.is_empty() {
            return Err(AnswerError::NoMessages);
        }
        let none = BTreeMap::new();
        let mut all = Found::default();
        for found in self.by_key.get(key).unwrap_or(&none).values() {
            all.merge(self.kind, found.clone());
        }
        let value = match self.kind {
            Kind::Distinct => all.values.len() as f64,
            Kind::Least | Kind::Most => all.number.ok_or(AnswerError::ZeroDenominator)?,
        };
        let is_exact = self.is_whole() && strata.iter().all(|(_, part)| part.is_complete());
        let estimate = Spread::default().estimate(value, confidence, "bound", &self.messages)?;
        let estimate = Estimate { warnings: self.warnings().into_iter().collect(), ..estimate };
        Ok(match (is_exact, self.kind) {
            (true, _) => estimate,
            (false, Kind::Least) => Estimate { low: f64::NEG_INFINITY, ..estimate },
            (false, _) => Estimate { high: f64::INFINITY, ..estimate },
        })
    }
}

impl Found {
    fn add(&mut self, kind: Kind, number: f64) {
        self.number = Some(match (kind, self.number) {
            (Kind::Least, Some(own)) => own.min(number),
            (_, Some(own)) => own.max(number),
            (_, None) => number,
        });
    }

    fn merge(&mut self, kind: Kind, other: Self) {
        other.number.into_iter().for_each(|number| self.add(kind, number));
        match self.values.is_empty() {
            true => self.values = other.values,
            false => self.values.extend(other.values),
        }
    }
}
