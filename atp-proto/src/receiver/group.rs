//! What a receiver keeps of each group of the present window: which messages are whole, and those
//! that wait for others before them.

use super::{delivered::Delivered, receipt::Mark, sparse::Sparse};
use std::collections::BTreeMap;

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) id: u8,
    pub(crate) delivered: Delivered,
    /// What receipts said of each word of `delivered`.
    pub(crate) marks: Sparse<Mark>,
    /// Where the round over older words goes on.
    pub(crate) cursor: u32,
    /// Whole messages of an exact group that wait for one before them.
    held: BTreeMap<u32, Vec<u8>>,
}

impl Group {
    /// Whether every message before `id` is whole.
    pub(crate) fn is_next(&self, id: u32) -> bool {
        id <= self.delivered.cumulative()
    }

    /// Keeps a whole message until those before it are here.
    pub(crate) fn hold(&mut self, id: u32, data: Vec<u8>) {
        self.held.insert(id, data);
    }

    /// The first message held, if nothing before it is missing; `all`: even so.
    pub(crate) fn release(&mut self, all: bool) -> Option<(u32, Vec<u8>)> {
        let first = self.held.first_entry()?;
        let complete = *first.key() < self.delivered.cumulative();
        (all || complete).then(|| first.remove_entry())
    }
}

/// All groups that were heard of, in the order of their first message.
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// By id: one more than where it is, 0 if it is nowhere.
    places: Box<[u16; 256]>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { groups: Vec::new(), places: Box::new([0; 256]) }
    }
}

impl Groups {
    pub(crate) fn get(&self, id: u8) -> Option<&Group> {
        let place = self.places[usize::from(id)].checked_sub(1)?;
        self.groups.get(usize::from(place))
    }

    /// The group of this id, made if it is new.
    pub(crate) fn entry(&mut self, id: u8) -> &mut Group {
        let place = &mut self.places[usize::from(id)];
        if *place == 0 {
            self.groups.push(Group { id, ..Group::default() });
            *place = self.groups.len() as u16;
        }
        &mut self.groups[usize::from(*place) - 1]
    }

    /// The group at a place, counted round and round.
    pub(crate) fn at(&mut self, turn: usize) -> Option<&mut Group> {
        let number = self.groups.len();
        (number > 0).then(|| &mut self.groups[turn % number])
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.groups.iter_mut()
    }

    /// Whether a message is whole.
    pub(crate) fn contains(&self, group: u8, message: u32) -> bool {
        self.get(group).is_some_and(|group| group.delivered.contains(message))
    }

    /// Whole messages of a group.
    pub(crate) fn delivered(&self, group: u8) -> u32 {
        self.get(group).map_or(0, |group| group.delivered.number())
    }

    /// Whole messages of all groups.
    pub(crate) fn number(&self) -> u32 {
        self.groups.iter().map(|group| group.delivered.number()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Whatever the order in which an exact group's messages become whole, they come out in order.
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
    fn entry__each_id_has_one_place() {
        let mut groups = Groups::default();
        for id in [7, 255, 0] {
            assert!(groups.entry(id).id == id && groups.entry(id).id == id);
            groups.entry(id).delivered.insert(u32::from(id));
            assert!(groups.contains(id, u32::from(id)));
        }
        assert_eq!((groups.len(), groups.number(), groups.delivered(9)), (3, 3, 0));
    }
}
