//! Sets of offsets, and how they are sent.

use rangemap::RangeSet;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor},
};
use std::ops::Range;

/// A set of offsets, kept as ranges.
///
/// Serialized as gaps and lengths in turn: small numbers for offsets that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets(RangeSet<u64>);

impl Offsets {
    /// The most ranges that are read. A window with more is closed early.
    pub(crate) const RANGES_MAX: usize = 1 << 20;

    /// Adds an offset; [`u64::MAX`] is none.
    pub fn insert(&mut self, offset: u64) {
        self.insert_range(offset..offset.saturating_add(1));
    }

    /// Adds a range of offsets.
    pub fn insert_range(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.insert(range);
        }
    }

    /// Adds the offsets of another set.
    pub fn extend(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.0.insert(range));
    }

    /// Removes the offsets below `end`.
    pub fn remove_below(&mut self, end: u64) {
        if end > 0 {
            self.0.remove(0..end);
        }
    }

    /// The offsets of this set that aren't in `other`.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.0.clone();
        other.ranges().for_each(|range| rest.remove(range));
        Self(rest)
    }

    /// Whether the offset is in this set.
    pub fn contains(&self, offset: u64) -> bool {
        self.0.contains(&offset)
    }

    /// The number of offsets.
    pub fn len(&self) -> u64 {
        self.ranges().map(|range| range.end - range.start).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, in ascending order, with gaps between them.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.0.iter().cloned()
    }

    /// The number of ranges.
    pub(crate) fn ranges_len(&self) -> usize {
        self.0.len()
    }

    /// The memory of the ranges, about.
    pub(crate) fn memory_bytes(&self) -> u64 {
        48 * self.ranges_len() as u64
    }

    /// The least offset.
    pub fn first(&self) -> Option<u64> {
        self.0.first().map(|range| range.start)
    }
}

impl Extend<u64> for Offsets {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, offsets: T) {
        offsets.into_iter().for_each(|offset| self.insert(offset));
    }
}

impl FromIterator<u64> for Offsets {
    fn from_iter<T: IntoIterator<Item = u64>>(offsets: T) -> Self {
        let mut set = Self::default();
        Extend::extend(&mut set, offsets);
        set
    }
}

/// Ranges as people write them: `3, 7-9`.
impl std::fmt::Display for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            let (comma, last) = (if index > 0 { ", " } else { "" }, range.end - 1);
            match last == range.start {
                true => write!(f, "{comma}{last}")?,
                false => write!(f, "{comma}{}-{last}", range.start)?,
            }
        }
        Ok(())
    }
}

impl Serialize for Offsets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut at = 0;
        let mut step = |to: u64| to - std::mem::replace(&mut at, to);
        let steps: Vec<u64> =
            self.ranges().flat_map(|range| [range.start, range.end]).map(&mut step).collect();
        steps.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Offsets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Steps)
    }
}

/// Reads gaps and lengths. A few bytes of another host become a range of many bytes here, so their
/// number is limited.
struct Steps;

impl<'de> Visitor<'de> for Steps {
    type Value = Offsets;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("gaps and lengths of ranges of offsets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<Offsets, A::Error> {
        let mut offsets = Offsets::default();
        let mut end = 0u64;
        while let Some(gap) = steps.next_element::<u64>()? {
            let Some(length) = steps.next_element::<u64>()? else {
                return Err(A::Error::custom("a range of offsets without an end"));
            };
            if length == 0 || gap == 0 && end > 0 {
                return Err(A::Error::custom("offsets that don't ascend"));
            }
            if offsets.ranges_len() == Offsets::RANGES_MAX {
                return Err(A::Error::custom("too many ranges of offsets"));
            }
            let start = end.checked_add(gap);
            let range = start.and_then(|start| Some(start..start.checked_add(length)?));
            let range = range.ok_or_else(|| A::Error::custom("an offset beyond 2^64"))?;
            end = range.end;
            offsets.insert_range(range);
        }
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};

    #[test]
    fn display__is_ranges() {
        let offsets: Offsets = [9, 3, 7, 8].into_iter().collect();
        assert_eq!(offsets.to_string(), "3, 7-9");
        assert_eq!((offsets.len(), offsets.first()), (4, Some(3)));
    }

    #[test]
    fn deserialize__refuses_what_serialize_does_not_write() {
        for steps in ["[1]", "[1,0]", "[1,1,0,1]", "[1,18446744073709551615,1,1]"] {
            assert!(serde_json::from_str::<Offsets>(steps).is_err(), "{steps}");
        }
        assert!(serde_json::from_str::<Offsets>("[0,1,5,2]").is_ok());
    }

    proptest! {
        #[test]
        fn deserialize__gives_what_was_serialized(set in btree_set(0u64..60, 0..40)) {
            let offsets: Offsets = set.iter().copied().collect();
            let bytes = postcard::to_allocvec(&offsets).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Offsets>(&bytes).unwrap(), offsets.clone());
            prop_assert_eq!(offsets.len(), set.len() as u64);
        }

        #[test]
        fn without__is_the_difference(
            a in btree_set(0u64..60, 0..40),
            b in btree_set(0u64..60, 0..40),
        ) {
            let of = |set: &std::collections::BTreeSet<u64>| -> Offsets {
                set.iter().copied().collect()
            };
            let expected: Offsets = a.difference(&b).copied().collect();
            prop_assert_eq!(of(&a).without(&of(&b)), expected);
        }
    }
}
