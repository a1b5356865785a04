//! Records whose keys aren't counted, by stratum.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Records whose keys were beyond a limit. A stratum that is taken out takes its own along.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Uncounted(
    #[serde(deserialize_with = "crate::wire::strata::deserialize")] BTreeMap<u32, u64>,
);

impl Uncounted {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of these records.
    pub fn records(&self) -> u64 {
        self.by_stratum().fold(0, u64::saturating_add)
    }

    /// The numbers of the strata.
    pub fn by_stratum(&self) -> impl Iterator<Item = u64> {
        self.0.values().copied()
    }

    pub fn add(&mut self, stratum: u32, records: u64) {
        if records > 0 {
            let own = self.0.entry(stratum).or_default();
            *own = own.saturating_add(records);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(stratum, records)| self.add(*stratum, *records));
    }

    pub fn remove_stratum(&mut self, stratum: u32) {
        self.0.remove(&stratum);
    }
}
