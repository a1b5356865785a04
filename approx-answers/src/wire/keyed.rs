//! Quantiles and rankings by key as bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::checked::{Checked, ensure};
use super::{Stored, from_bytes, strata, to_bytes};
use crate::groups::{GROUPS, Groups};
use crate::keyed::{self, InStratum, Keyed};
use crate::moments::Alike;
use crate::uncounted::Uncounted;
use crate::{AnswerError, Sample};

/// The content of a key in a group of messages, as it is stored.
pub(crate) trait StoredCell: keyed::Cell + Serialize + DeserializeOwned {
    /// The name of the format.
    const FORMAT: &'static str;

    /// Checks what no type says.
    fn check(&self) -> Checked;

    /// Counts the memory of what was read.
    fn settle(&mut self) {}
}

/// The bytes of a [`Keyed`].
#[derive(Deserialize, Serialize)]
#[serde(bound = "C: StoredCell", deny_unknown_fields)]
struct Table<C> {
    messages: Sample,
    /// The number of messages in each group.
    #[serde(deserialize_with = "strata::deserialize")]
    groups: BTreeMap<u32, Vec<u64>>,
    /// From which the group of the next message is drawn.
    state: u64,
    keys_max: u64,
    thinned: bool,
    uncounted: Uncounted,
    keys: BTreeMap<String, Key<C>>,
}

#[derive(Deserialize, Serialize)]
#[serde(bound = "C: StoredCell")]
struct Key<C>(#[serde(deserialize_with = "strata::deserialize")] BTreeMap<u32, Own<C>>);

/// A key in one stratum.
#[derive(Deserialize, Serialize)]
#[serde(bound = "C: StoredCell", deny_unknown_fields)]
struct Own<C> {
    messages: u64,
    alike: Alike,
    groups: Vec<C>,
}

impl<C: StoredCell> Keyed<String, C> {
    pub fn to_bytes(&self) -> Vec<u8> {
        let own = |(&stratum, own): (&u32, &InStratum<C>)| {
            let (messages, alike, groups) = (own.messages, own.all_alike(), own.groups.clone());
            (stratum, Own { messages, alike, groups })
        };
        let keys = self
            .entries
            .iter()
            .map(|(name, entry)| (name.clone(), Key(entry.cells.iter().map(own).collect())));
        let sizes = self.groups.sizes.iter();
        to_bytes(&Table {
            messages: self.messages.clone(),
            groups: sizes.map(|(stratum, sizes)| (*stratum, sizes.to_vec())).collect(),
            state: self.groups.state,
            keys_max: self.keys_max as u64,
            thinned: self.is_thinned,
            uncounted: self.uncounted.clone(),
            keys: keys.collect(),
        })
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        let table: Table<C> = from_bytes(bytes)?;
        let mut keyed = Self::new(usize::try_from(table.keys_max).unwrap_or(usize::MAX));
        let array = |sizes: Vec<u64>| <[u64; GROUPS]>::try_from(sizes).unwrap_or([0; GROUPS]);
        let sizes = table.groups.into_iter().map(|(stratum, sizes)| (stratum, array(sizes)));
        keyed.groups = Groups { sizes: sizes.collect(), state: table.state };
        (keyed.messages, keyed.uncounted) = (table.messages, table.uncounted);
        keyed.is_thinned = table.thinned;
        for (name, Key(cells)) in table.keys {
            let own = |(stratum, Own { messages, alike, mut groups }): (u32, Own<C>)| {
                groups.iter_mut().for_each(C::settle);
                (stratum, InStratum { messages, alike, ..InStratum::new(groups) })
            };
            keyed.take(name, cells.into_iter().map(own).collect());
        }
        keyed.settle();
        Ok(keyed)
    }
}

impl<C: StoredCell> Stored for Table<C> {
    const FORMAT: &'static str = C::FORMAT;

    fn check(&self) -> Checked {
        self.messages.check()?;
        self.uncounted.check()?;
        for (number, sizes) in &self.groups {
            let sum = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
            let is_fine = sizes.len() == GROUPS && sum == Some(self.arrived(*number));
            ensure(is_fine, &format!("groups of stratum {number} that aren't its messages"))?;
        }
        let has_groups = |number: &u32| self.groups.contains_key(number);
        let arrived = self.messages.strata.iter().filter(|(_, own)| own.arrived() > 0);
        ensure(arrived.map(|(number, _)| number).all(has_groups), "a stratum without groups")?;
        ensure(self.keys.len() as u64 <= self.keys_max, "more keys than the limit")?;
        self.keys.iter().try_for_each(|(name, Key(cells))| {
            ensure(!cells.is_empty(), "a key without a record")?;
            cells.iter().try_for_each(|(number, own)| {
                self.check_own(*number, own).map_err(|what| {
                    format!("key {:?} in stratum {number}: {what}", super::shortened(name))
                })
            })
        })
    }
}

impl<C: StoredCell> Table<C> {
    fn arrived(&self, stratum: u32) -> u64 {
        self.messages.moments(stratum).map_or(0, |moments| moments.messages())
    }

    fn check_own(&self, number: u32, own: &Own<C>) -> Checked {
        let Own { messages, alike, groups } = own;
        let is_part = (1..=self.arrived(number)).contains(messages);
        ensure(is_part, "a number of messages out of range")?;
        ensure(alike.messages() <= *messages && alike.number().is_finite(), "equal totals")?;
        ensure(groups.len() == GROUPS, "another number of groups")?;
        let (mut records, mut used) = (0u64, 0u64);
        for (cell, size) in groups.iter().zip(&self.groups[&number]) {
            cell.check()?;
            let is_used = cell.records() > 0;
            ensure(!is_used || *size > 0, "records in an empty group")?;
            records += cell.records();
            used += u64::from(is_used);
        }
        ensure(records >= *messages && used <= *messages, "records of no message")
    }
}
