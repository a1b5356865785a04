//! Sums, counts and means by key as bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::checked::{Checked, ensure};
use super::moments::check_moments;
use super::{Stored, from_bytes, strata, to_bytes};
use crate::group_by::{Entry, InStratum};
use crate::uncounted::Uncounted;
use crate::{AnswerError, GroupBy, Moments, Sample};

/// Records of one key add up to more than a value may be.
const TOTAL_MAX: f64 = 1e80;
/// Numbers of records of all strata add up without an overflow.
const RECORDS_MAX: u64 = 1 << 47;

/// The bytes of a [`GroupBy`].
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    messages: Sample,
    keys_max: u64,
    /// The totals of keys stand beside all records of each message.
    of_rows: bool,
    uncounted: Uncounted,
    keys: BTreeMap<String, Key>,
}

#[derive(Deserialize, Serialize)]
struct Key(#[serde(deserialize_with = "strata::deserialize")] BTreeMap<u32, Cell>);

/// A key in one stratum.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    records: u64,
    moments: Moments,
}

impl GroupBy<String> {
    /// The group-by as bytes, as [`Sample::to_bytes`] has those of a sample.
    pub fn to_bytes(&self) -> Vec<u8> {
        let cell =
            |own: &InStratum| (own.stratum, Cell { records: own.records, moments: own.moments });
        let key = |entry: &Entry| Key(entry.strata.iter().map(cell).collect());
        let keys = self.positions.iter().map(|(name, &at)| (name.clone(), key(&self.entries[at])));
        to_bytes(&Table {
            messages: self.messages.clone(),
            keys_max: self.keys_max as u64,
            of_rows: self.is_of_rows,
            uncounted: self.uncounted.clone(),
            keys: keys.collect(),
        })
    }

    /// The group-by of [`GroupBy::to_bytes`]. It gives the same answers, and merges as that one.
    ///
    /// # Errors
    /// The bytes are no group-by, are of another version, or contradict themselves.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AnswerError> {
        let Table { messages, keys_max, of_rows, uncounted, keys } = from_bytes(bytes)?;
        let mut by = Self::new(usize::try_from(keys_max).unwrap_or(usize::MAX));
        (by.messages, by.uncounted, by.is_of_rows) = (messages, uncounted, of_rows);
        for (name, Key(cells)) in keys {
            let own =
                |(stratum, Cell { records, moments })| InStratum { stratum, records, moments };
            let strata: Vec<InStratum> = cells.into_iter().map(own).collect();
            by.take(name, strata);
        }
        by.drop_rarest();
        Ok(by)
    }
}

impl Stored for Table {
    const FORMAT: &'static str = "approx-answers group-by";

    fn check(&self) -> Checked {
        self.messages.check()?;
        self.uncounted.check()?;
        ensure(self.keys.len() as u64 <= self.keys_max, "more keys than the limit")?;
        self.keys.iter().try_for_each(|(name, Key(cells))| {
            let key = || format!("key {:?}", super::shortened(name));
            ensure(!cells.is_empty(), "a key without a record")?;
            cells.iter().try_for_each(|(number, cell)| {
                let checked = cell.check(self.messages.moments(*number));
                checked.map_err(|what| format!("{} in stratum {number}: {what}", key()))
            })
        })
    }
}

impl Cell {
    /// `all`: the moments of all messages of the stratum.
    fn check(&self, all: Option<&Moments>) -> Checked {
        let Self { records, moments } = self;
        check_moments(moments, TOTAL_MAX)?;
        let arrived = all.map_or(0, Moments::messages);
        ensure(moments.messages() <= arrived, "more messages than arrived")?;
        let is_of_records = (moments.messages()..=RECORDS_MAX).contains(records);
        ensure(is_of_records, "a number of records out of range")
    }
}

impl Uncounted {
    pub(super) fn check(&self) -> Checked {
        let is_fine = |records: u64| (1..=RECORDS_MAX).contains(&records);
        ensure(self.by_stratum().all(is_fine), "a number of uncounted records out of range")
    }
}
