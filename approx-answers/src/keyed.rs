//! Records by key, in random groups of messages, with a bound on the keys.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::check::{single, table_warnings, uncounted};
use crate::groups::{GROUPS, Groups, mix};
use crate::moments::Alike;
use crate::room::Room;
use crate::stratum::check_value;
use crate::total::Total;
use crate::uncounted::Uncounted;
use crate::{AnswerError, Sample, Warning};

/// Takes a record: its key and its value.
pub(crate) type OnRecord<'a, L> = &'a mut dyn FnMut(&L, f64) -> Result<(), AnswerError>;

/// The content of a key in a group of messages.
pub(crate) trait Cell: Clone + Default {
    /// A cell whose draws follow from this number.
    fn seeded(_seed: u64) -> Self {
        Self::default()
    }
    fn push(&mut self, value: f64);
    fn merge(&mut self, other: &Self);
    /// The records that were added.
    fn records(&self) -> u64;
    /// The memory that it holds beside its own size.
    fn bytes(&self) -> usize;
    /// Keeps a summary from now on, where it has kept all records.
    fn thin(&mut self) {}
}

/// The messages and cells of a key in one stratum.
#[derive(Clone, Debug)]
pub(crate) struct InStratum<C> {
    /// The stratum's messages with the key.
    pub messages: u64,
    /// The cells of its groups.
    pub groups: Vec<C>,
    /// The messages with the key's total of the first one, but for the last message.
    pub alike: Alike,
    /// The key's total in the last message, to which more records may come.
    pub last: Option<f64>,
}

impl<C> InStratum<C> {
    /// No messages, and these groups.
    pub fn new(groups: Vec<C>) -> Self {
        Self { messages: 0, groups, alike: Alike::default(), last: None }
    }

    /// The messages that are known to have one total of the key. Groups don't tell.
    pub fn alike(&self) -> u64 {
        self.all_alike().messages()
    }

    pub fn all_alike(&self) -> Alike {
        let mut alike = self.alike;
        alike.merge(self.last.map_or(Alike::default(), Alike::of));
        alike
    }

    /// Adds a record to the total of its message. `is_first`: the first one of its message.
    fn note(&mut self, value: f64, is_first: bool) {
        if is_first {
            self.alike = self.all_alike();
            self.last = Some(value);
        } else {
            self.last = self.last.map(|total| total + value);
        }
    }
}

/// The messages and cells of a key, by stratum. Strata without the key aren't there.
pub(crate) type Cells<C> = BTreeMap<u32, InStratum<C>>;

#[derive(Clone, Debug)]
pub(crate) struct Entry<C> {
    pub cells: Cells<C>,
    /// Messages with the key.
    pub messages: u64,
    /// The number of the last one, counted from 1.
    last_message: u64,
    /// The memory of the key and its cells.
    bytes: usize,
}

/// A message that is being added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adding {
    stratum: u32,
    /// The message's number, counted from 1.
    message: u64,
    group: usize,
    /// The draws of new cells.
    seed: u64,
}

/// Records by key. A key that is counted is counted from its first record on.
#[derive(Clone, Debug)]
pub(crate) struct Keyed<K, C> {
    pub messages: Sample,
    pub groups: Groups,
    pub entries: HashMap<K, Entry<C>>,
    pub keys_max: usize,
    pub uncounted: Uncounted,
    pub room: Room,
    /// Whether cells keep summaries: all of them, from the same message on.
    pub is_thinned: bool,
}

impl<K: Clone + Eq + Hash + Ord, C: Cell> Keyed<K, C> {
    pub fn new(keys_max: usize) -> Self {
        Self {
            messages: Sample::new(),
            groups: Groups::default(),
            entries: HashMap::new(),
            keys_max,
            uncounted: Uncounted::default(),
            room: Room::default(),
            is_thinned: false,
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
        let adding = self.begin(stratum, number, contents())?;
        each(&mut |key, value| {
            self.add(&adding, key, value);
            Ok(())
        })?;
        self.end();
        Ok(())
    }

    /// Takes a key in, with what was counted of it.
    pub fn take(&mut self, key: K, cells: Cells<C>) {
        let messages = cells.values().map(|own| own.messages).sum();
        let bytes = size_of_val(&key) + size_of::<(K, Entry<C>)>();
        let mut entry = Entry { cells, messages, last_message: 0, bytes };
        entry.bytes += entry.cells_bytes();
        self.entries.insert(key, entry);
    }

    /// Counts the memory of keys that were taken in, and keeps to its limits.
    pub fn settle(&mut self) {
        self.count_bytes();
        self.thin_if_large();
        self.drop_rarest();
    }

    /// Whether a message with this number of records fits in.
    pub fn check(&self, stratum: u32, records: u64) -> Result<(), AnswerError> {
        self.messages.check_push(stratum, Total::of(records as f64), Total::default())
    }

    /// Begins a message with this number of records. `contents` is a number that follows from all
    /// of them.
    pub fn begin(
        &mut self,
        stratum: u32,
        records: u64,
        contents: u64,
    ) -> Result<Adding, AnswerError> {
        self.messages.push(stratum, records, 0.0)?;
        let message = self.messages.messages();
        let group = self.groups.add(stratum, contents);
        Ok(Adding { stratum, message, group, seed: self.groups.state() })
    }

    /// Adds a record whose value was checked.
    pub fn add<L>(&mut self, adding: &Adding, key: &L, value: f64)
    where
        K: Borrow<L>,
        L: ToOwned<Owned = K> + Eq + Hash + ?Sized,
    {
        let Adding { stratum, message, group, seed } = *adding;
        // Once a record was left out, a new key may lack its first ones.
        let key_bytes = size_of_val(key) + size_of::<(K, Entry<C>)>();
        let has_room = self.uncounted.is_empty()
            && self.entries.len() < self.keys_max
            && self.room.fits(key_bytes);
        let entry = match self.entries.get_mut(key) {
            Some(entry) => entry,
            None if has_room => {
                self.room.bytes += key_bytes;
                let entry = self.entries.entry(key.to_owned()).or_default();
                entry.bytes = key_bytes;
                entry
            }
            None => {
                self.uncounted.add(stratum, 1);
                return;
            }
        };
        let is_first = entry.last_message != message;
        entry.last_message = message;
        let seeds = Seeds { seed, is_thinned: self.is_thinned };
        let Grown { bytes, held_bytes } = entry.push(stratum, group, value, seeds, is_first);
        self.room.bytes = self.room.bytes.saturating_add_signed(bytes);
        self.room.held_bytes = self.room.held_bytes.saturating_add_signed(held_bytes);
        // At once: a message may hold more than all others.
        self.thin_if_large();
    }

    /// Ends a message.
    pub fn end(&mut self) {
        self.drop_rarest();
    }

    /// Takes all messages of a stratum out, and with them the keys that only it holds.
    pub fn remove_stratum(&mut self, stratum: u32) {
        self.messages.remove_stratum(stratum);
        self.uncounted.remove_stratum(stratum);
        self.groups.remove_stratum(stratum);
        self.entries.retain(|_, entry| {
            let key_bytes = entry.key_bytes();
            entry.messages -= entry.cells.remove(&stratum).map_or(0, |own| own.messages);
            entry.bytes = key_bytes + entry.cells_bytes();
            // The next messages get numbers that others had.
            entry.last_message = 0;
            entry.messages > 0
        });
        self.count_bytes();
    }

    fn thin_if_large(&mut self) {
        if !self.is_thinned && self.room.held_bytes > self.room.exact_bytes_max {
            self.thin();
        }
    }

    /// Keeps summaries in all cells from now on.
    fn thin(&mut self) {
        self.is_thinned = true;
        for entry in self.entries.values_mut() {
            let key_bytes = entry.key_bytes();
            entry.cells.values_mut().flat_map(|own| &mut own.groups).for_each(Cell::thin);
            entry.bytes = key_bytes + entry.cells_bytes();
        }
        self.count_bytes();
    }

    fn count_bytes(&mut self) {
        self.room.bytes = self.entries.values().map(|entry| entry.bytes).sum();
        self.room.held_bytes = self.entries.values().map(Entry::held_bytes).sum();
    }

    /// Drops the keys in the fewest messages until the memory suffices.
    fn drop_rarest(&mut self) {
        if !self.room.fits(0) && !self.is_thinned {
            self.thin();
        }
        if self.room.fits(0) {
            return;
        }
        let keys = self.entries.iter().map(|(key, entry)| (entry.messages, key, entry.bytes));
        let excess = self.room.excess(keys, self.keys_max);
        let excess: Vec<K> = excess.into_iter().cloned().collect();
        for key in excess {
            let entry = self.entries.remove(&key).unwrap_or_default();
            self.room.bytes -= entry.bytes;
            self.room.held_bytes -= entry.held_bytes();
            entry.leave_out(&mut self.uncounted);
        }
    }

    /// Warnings about the whole table of keys.
    pub fn table_warnings(&self) -> Vec<Warning> {
        let singles = self.entries.values().filter_map(|entry| {
            let with_key = entry.cells.iter().map(|(stratum, own)| (*stratum, own.messages));
            single(&self.messages, with_key)
        });
        table_warnings(&self.messages, singles, self.uncounted.records(), self.keys_max)
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
        if other.is_thinned {
            self.thin();
        }
        let seeds = Seeds { seed: self.groups.state(), is_thinned: self.is_thinned };
        let is_whole = self.uncounted.is_empty();
        self.uncounted.merge(&other.uncounted);
        if !other.uncounted.is_empty() {
            let uncounted = &mut self.uncounted;
            self.entries.retain(|key, entry| {
                let is_kept = other.entries.contains_key(key);
                if !is_kept {
                    entry.leave_out(uncounted);
                }
                is_kept
            });
        }
        let mut theirs: Vec<(&K, &Entry<C>)> = other.entries.iter().collect();
        theirs.sort_unstable_by_key(|(key, _)| *key);
        for (key, theirs) in theirs {
            let is_new = !self.entries.contains_key(key);
            if is_new && (!is_whole || self.entries.len() >= self.keys_max) {
                theirs.leave_out(&mut self.uncounted);
                continue;
            }
            let own = self.entries.entry(key.clone()).or_default();
            own.messages += theirs.messages;
            for (stratum, theirs) in &theirs.cells {
                let own = cells_of(&mut own.cells, *stratum, seeds);
                own.messages += theirs.messages;
                own.alike = own.all_alike();
                own.alike.merge(theirs.all_alike());
                own.last = None;
                for (group, cell) in theirs.groups.iter().enumerate() {
                    own.groups[places[stratum][group]].merge(cell);
                }
            }
            own.bytes = theirs.key_bytes() + own.cells_bytes();
        }
        self.settle();
        Ok(())
    }

    /// A warning about records whose keys weren't counted.
    pub fn uncounted(&self) -> Option<Warning> {
        uncounted(self.uncounted.records(), self.keys_max)
    }
}

impl<C: Cell> Entry<C> {
    /// Adds its records to those whose keys aren't counted.
    fn leave_out(&self, uncounted: &mut Uncounted) {
        for (stratum, own) in &self.cells {
            uncounted.add(*stratum, own.groups.iter().map(Cell::records).sum());
        }
    }

    /// Adds a record; `is_first`: the first one of its message. Returns by how much the memory
    /// grew; a sketch that compacts may shrink.
    fn push(
        &mut self,
        stratum: u32,
        group: usize,
        value: f64,
        seeds: Seeds,
        is_first: bool,
    ) -> Grown {
        self.messages += u64::from(is_first);
        let known = self.cells.len();
        let own = cells_of(&mut self.cells, stratum, seeds);
        own.messages += u64::from(is_first);
        own.note(value, is_first);
        let cell = &mut own.groups[group];
        let before = cell.bytes();
        cell.push(value);
        let held_bytes = cell.bytes() as isize - before as isize;
        let of_new = if self.cells.len() > known { own_bytes::<C>() as isize } else { 0 };
        let bytes = held_bytes + of_new;
        self.bytes = self.bytes.saturating_add_signed(bytes);
        Grown { bytes, held_bytes }
    }

    /// The memory of the key alone.
    fn key_bytes(&self) -> usize {
        self.bytes - self.cells_bytes()
    }

    /// The memory of the cells.
    fn cells_bytes(&self) -> usize {
        self.cells.len() * own_bytes::<C>() + self.held_bytes()
    }

    /// The memory that the cells hold.
    fn held_bytes(&self) -> usize {
        self.cells.values().flat_map(|own| &own.groups).map(Cell::bytes).sum()
    }
}

impl<C> Default for Entry<C> {
    fn default() -> Self {
        Self { cells: BTreeMap::new(), messages: 0, last_message: 0, bytes: 0 }
    }
}

/// By how much a key's memory grew, as [`Room`] counts it.
struct Grown {
    bytes: isize,
    held_bytes: isize,
}

/// The draws and the form of new cells.
#[derive(Clone, Copy)]
struct Seeds {
    seed: u64,
    is_thinned: bool,
}

fn cells_of<C: Cell>(cells: &mut Cells<C>, stratum: u32, seeds: Seeds) -> &mut InStratum<C> {
    let seeded = |group: u64| {
        let mut cell = C::seeded(mix(seeds.seed ^ group));
        if seeds.is_thinned {
            cell.thin();
        }
        cell
    };
    let groups = || (0..GROUPS as u64).map(seeded).collect();
    cells.entry(stratum).or_insert_with(|| InStratum::new(groups()))
}

/// The memory of a key in a stratum, besides that which its cells hold elsewhere.
fn own_bytes<C>() -> usize {
    GROUPS * size_of::<C>() + size_of::<(u32, InStratum<C>)>()
}

#[cfg(test)]
mod tests;
