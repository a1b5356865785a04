//! Keys whose rows lack the query's numbers.

use std::collections::BTreeSet;

/// The most of these keys that are kept.
const KEYS_MAX: usize = 1_000;
/// Longer keys aren't kept.
const KEY_BYTES_MAX: usize = 1_000;

/// Keys of rows without a value, in order. Some may have values in other rows. They take no place
/// of the keys that are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct WithoutValue(BTreeSet<String>);

impl WithoutValue {
    pub fn note(&mut self, key: &str) {
        let has_room = self.0.len() < KEYS_MAX && key.len() <= KEY_BYTES_MAX;
        if has_room && !self.0.contains(key) {
            self.0.insert(key.to_owned());
        }
    }

    /// Adds the keys of a message, but for those that have values.
    pub fn add(&mut self, other: Self, has_value: impl Fn(&String) -> bool) {
        if self.0.len() + other.0.len() > KEYS_MAX {
            self.0.retain(|key| !has_value(key));
        }
        for key in other.0.iter().filter(|key| !has_value(key)) {
            self.note(key);
        }
    }

    pub fn keys(&self, has_value: impl Fn(&String) -> bool) -> Vec<&String> {
        self.0.iter().filter(|key| !has_value(key)).collect()
    }
}
