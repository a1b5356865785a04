//! Records whose keys aren't counted, by stratum.

use std::collections::BTreeMap;

/// Records whose keys were beyond a limit. A stratum that is taken out takes its own along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncounted(BTreeMap<u32, u64>);

impl Uncounted {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of these records.
    pub fn records(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn add(&mut self, stratum: u32, records: u64) {
        if records > 0 {
            *self.0.entry(stratum).or_default() += records;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(stratum, records)| self.add(*stratum, *records));
    }

    pub fn remove_stratum(&mut self, stratum: u32) {
        self.0.remove(&stratum);
    }
}
