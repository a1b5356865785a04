//! The groups of the current window: their complete messages, and those that wait for earlier ones.

use super::{delivered::Delivered, sparse::Sparse};
use std::collections::BTreeMap;

/// The mentions of one word of a group's bitmap in receipts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The number of receipts that still have to name this word because of a change.
    pub(crate) repeats: u8,
    /// The number of the last receipt that named it.
    pub(crate) named_in: u32,
}

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) id: u8,
    pub(crate) delivered: Delivered,
    /// By word of `delivered`.
    pub(crate) marks: Sparse<Mark>,
    /// The older word that a receipt names next, round-robin.
    pub(crate) cursor: u32,
    /// Complete messages of an exact group that wait for earlier ones.
    held: BTreeMap<u32, Vec<u8>>,
}

/// The most memory that the record of one message can need: a group, and a branch and a leaf of
/// each of its two tables.
pub(crate) const RECORD_BYTES_MAX: u64 = 4_096;

impl Group {
    /// The bytes of the record of complete messages, without held messages.
    pub(crate) fn record_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.delivered.bytes() + self.marks.bytes()
    }

    /// Whether every message before `id` is complete.
    pub(crate) fn is_next(&self, id: u32) -> bool {
        id <= self.delivered.cumulative()
    }

    /// Keeps a complete message until the earlier ones are complete.
    pub(crate) fn hold(&mut self, id: u32, data: Vec<u8>) {
        self.held.insert(id, data);
    }

    /// Removes the first held message, if all earlier ones are complete. `all` removes it anyway.
    pub(crate) fn release(&mut self, all: bool) -> Option<(u32, Vec<u8>)> {
        let first = self.held.first_entry()?;
        let complete = *first.key() < self.delivered.cumulative();
        (all || complete).then(|| first.remove_entry())
    }
}

/// The groups with a message, in the order of their first messages.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// By id: the index in `groups` plus one, 0 for a group without a message.
    indices: Box<[u16; 256]>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { groups: Vec::new(), indices: Box::new([0; 256]) }
    }
}

impl Groups {
    pub(crate) fn get(&self, id: u8) -> Option<&Group> {
        let index = self.indices[usize::from(id)].checked_sub(1)?;
        self.groups.get(usize::from(index))
    }

    /// The group of this id, created if it is new.
    pub(crate) fn entry(&mut self, id: u8) -> &mut Group {
        let number = &mut self.indices[usize::from(id)];
        if *number == 0 {
            self.groups.push(Group { id, ..Group::default() });
            *number = self.groups.len() as u16;
        }
        &mut self.groups[usize::from(*number) - 1]
    }

    /// Whether the record of a complete message needs no more memory.
    pub(crate) fn has_entry(&self, group: u8, message: u32) -> bool {
        self.get(group).is_some_and(|group| group.delivered.has_entry(message))
    }

    /// The group at a position of a round-robin order, which may exceed the number of groups.
    pub(crate) fn round_robin(&mut self, position: usize) -> Option<&mut Group> {
        let number = self.groups.len();
        (number > 0).then(|| &mut self.groups[position % number])
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.groups.iter_mut()
    }

    /// Whether a message is complete.
    pub(crate) fn contains(&self, group: u8, message: u32) -> bool {
        self.get(group).is_some_and(|group| group.delivered.contains(message))
    }

    /// The number of a group's complete messages.
    pub(crate) fn delivered(&self, group: u8) -> u32 {
        self.get(group).map_or(0, |group| group.delivered.number())
    }

    /// The number of complete messages of all groups.
    pub(crate) fn number(&self) -> u32 {
        self.groups.iter().map(|group| group.delivered.number()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // An exact group's messages are released in order, for any order of completion.
        #[test]
        fn release__gives_everything_in_order(order in Just((0u32..60).collect::<Vec<_>>()).prop_shuffle()) {
            let mut group = Group::default();
            let mut out = vec![];
            for id in order {
                let next = group.is_next(id);
                group.delivered.insert(id);
                if next { out.push(id) } else { group.hold(id, vec![id as u8]) }
                while let Some((id, data)) = group.release(false) {
                    prop_assert_eq!(&data, &[id as u8]);
                    out.push(id);
                }
            }
            prop_assert!(out.into_iter().eq(0..60));
        }
    }

    #[test]
    fn entry__each_id_has_one_group() {
        let mut groups = Groups::default();
        for id in [7, 255, 0] {
            assert!(groups.entry(id).id == id && groups.entry(id).id == id);
            groups.entry(id).delivered.insert(u32::from(id));
            assert!(groups.contains(id, u32::from(id)));
        }
        assert_eq!((groups.len(), groups.number(), groups.delivered(9)), (3, 3, 0));
    }
}
