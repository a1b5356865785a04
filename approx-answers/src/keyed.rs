//! Records by key, in random groups of messages, with a bound on the keys.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::check::uncounted;
use crate::groups::{GROUPS, Groups};
use crate::stratum::check_value;
use crate::{AnswerError, Sample, Warning};

/// Takes a record: its key and its value.
pub(crate) type OnRecord<'a, L> = &'a mut dyn FnMut(&L, f64) -> Result<(), AnswerError>;

/// What a group of messages holds of a key.
pub(crate) trait Cell: Clone + Default {
    fn push(&mut self, value: f64);
    fn merge(&mut self, other: &Self);
    /// The records that were added.
    fn records(&self) -> u64;
}

/// The cells of a key, by stratum and group.
pub(crate) type Cells<C> = BTreeMap<u32, Vec<C>>;

#[derive(Clone, Debug)]
pub(crate) struct Entry<C> {
    pub cells: Cells<C>,
    /// Messages with the key.
    pub messages: u64,
    /// The number of the last one, counted from 1.
    last_message: u64,
}

/// Records by key. A key that is counted is counted from its first record on.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, C> {
    pub messages: Sample,
    pub groups: Groups,
    pub entries: HashMap<K, Entry<C>>,
    pub keys_max: usize,
    pub uncounted_records: u64,
}

impl<K: Clone + Eq + Hash + Ord, C: Cell> Keyed<K, C> {
    pub fn new(keys_max: usize) -> Self {
        Self {
            messages: Sample::new(),
            groups: Groups::default(),
            entries: HashMap::new(),
            keys_max,
            uncounted_records: 0,
        }
    }

    /// Adds one message, whose records `each` gives: twice, and the same ones. `mix` sees them
    /// first, and `contents` then follows from all of them. A message with a bad record is left
    /// out.
    pub fn push<L, E>(
        &mut self,
        stratum: u32,
        mut each: impl FnMut(OnRecord<'_, L>) -> Result<(), E>,
        mut mix: impl FnMut(&L, f64),
        contents: impl FnOnce() -> u64,
    ) -> Result<(), E>
    where
        K: Borrow<L>,
        L: ToOwned<Owned = K> + Eq + Hash + ?Sized,
        E: From<AnswerError>,
    {
        let mut number = 0;
        each(&mut |key, value| {
            check_value(stratum, "value", value)?;
            mix(key, value);
            number += 1;
            Ok(())
        })?;
        self.messages.push(stratum, number, 0.0)?;
        let message = self.messages.messages();
        let group = self.groups.add(stratum, contents());
        each(&mut |key, value| {
            // Once a record was left out, a new key may lack its first ones.
            let has_room = self.uncounted_records == 0 && self.entries.len() < self.keys_max;
            let entry = match self.entries.get_mut(key) {
                Some(entry) => entry,
                None if has_room => self.entries.entry(key.to_owned()).or_default(),
                None => {
                    self.uncounted_records += 1;
                    return Ok(());
                }
            };
            cells_of(&mut entry.cells, stratum)[group].push(value);
            if entry.last_message != message {
                entry.last_message = message;
                entry.messages += 1;
            }
            Ok(())
        })
    }

    /// Adds another part of the job. Keys are kept as in [`crate::GroupBy::merge`], but in no case
    /// more than the limit.
    pub fn merge(&mut self, other: &Self) -> Result<(), AnswerError> {
        if self.keys_max != other.keys_max {
            let (one, other) = (self.keys_max, other.keys_max);
            return Err(AnswerError::KeyLimits { one, other });
        }
        self.messages.merge(&other.messages)?;
        let places = self.groups.merge(&other.groups);
        let is_whole = self.uncounted_records == 0;
        self.uncounted_records += other.uncounted_records;
        if other.uncounted_records > 0 {
            let mut dropped = 0;
            self.entries.retain(|key, entry| {
                let is_kept = other.entries.contains_key(key);
                dropped += if is_kept { 0 } else { entry.records() };
                is_kept
            });
            self.uncounted_records += dropped;
        }
        let mut theirs: Vec<(&K, &Entry<C>)> = other.entries.iter().collect();
        theirs.sort_unstable_by_key(|(key, _)| *key);
        for (key, theirs) in theirs {
            let is_new = !self.entries.contains_key(key);
            if is_new && (!is_whole || self.entries.len() >= self.keys_max) {
                self.uncounted_records += theirs.records();
                continue;
            }
            let own = self.entries.entry(key.clone()).or_default();
            own.messages += theirs.messages;
            for (stratum, cells) in &theirs.cells {
                let own = cells_of(&mut own.cells, *stratum);
                for (group, cell) in cells.iter().enumerate() {
                    own[places[stratum][group]].merge(cell);
                }
            }
        }
        Ok(())
    }

    /// A warning about records whose keys weren't counted.
    pub fn uncounted(&self) -> Option<Warning> {
        uncounted(self.uncounted_records, self.keys_max)
    }
}

impl<C: Cell> Entry<C> {
    fn records(&self) -> u64 {
        self.cells.values().flatten().map(Cell::records).sum()
    }
}

impl<C> Default for Entry<C> {
    fn default() -> Self {
        Self { cells: BTreeMap::new(), messages: 0, last_message: 0 }
    }
}

fn cells_of<C: Cell>(cells: &mut Cells<C>, stratum: u32) -> &mut Vec<C> {
    cells.entry(stratum).or_insert_with(|| vec![C::default(); GROUPS])
}
