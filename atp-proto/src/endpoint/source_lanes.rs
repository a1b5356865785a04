//! The lanes of one sender that get advice.

use atp_common::maps::RECEIVER_LANES;

/// Lanes of one sender that get advice. A sender's address may be forged, so none takes all places.
const LANES_MAX: usize = RECEIVER_LANES / 8;

/// Lanes of one sender by group, each with what its adviser knows of it.
pub struct SourceLanes<L> {
    /// The groups in `lanes`, as bits.
    known: [u64; 4],
    lanes: Vec<(u8, L)>,
}

impl<L> Default for SourceLanes<L> {
    fn default() -> Self {
        Self { known: [0; 4], lanes: Vec::new() }
    }
}

impl<L> SourceLanes<L> {
    /// Adds the lane of `group` that `open` returns, if the group has none and there is room.
    /// Without room, the lane's next packet tries again.
    pub fn open(&mut self, group: u8, open: impl FnOnce() -> Option<L>) {
        let (word, bit) = (&mut self.known[usize::from(group) / 64], 1 << (group % 64));
        if *word & bit != 0 || self.lanes.len() >= LANES_MAX {
            return;
        }
        if let Some(lane) = open() {
            *word |= bit;
            self.lanes.push((group, lane));
        }
    }

    /// The lane of `group`.
    pub fn get_mut(&mut self, group: u8) -> Option<&mut L> {
        self.lanes.iter_mut().find(|(known, _)| *known == group).map(|(_, lane)| lane)
    }

    /// All lanes with their groups.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut L)> {
        self.lanes.iter_mut().map(|(group, lane)| (*group, lane))
    }

    /// Removes all lanes, and returns their groups.
    pub fn clear(&mut self) -> impl Iterator<Item = u8> {
        self.known = [0; 4];
        std::mem::take(&mut self.lanes).into_iter().map(|(group, _)| group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open__each_group_once_and_no_more_than_a_share() {
        let mut lanes = SourceLanes::default();
        for _ in 0..2 {
            (0..=255).for_each(|group| lanes.open(group, || Some(u32::from(group))));
        }
        assert!(lanes.iter_mut().map(|(group, _)| usize::from(group)).eq(0..LANES_MAX));
        assert_eq!((lanes.get_mut(63).copied(), lanes.get_mut(64)), (Some(63), None));
        assert_eq!(lanes.clear().count(), LANES_MAX);
        lanes.open(255, || None);
        lanes.open(255, || Some(1));
        assert_eq!(lanes.get_mut(255), Some(&mut 1));
    }
}
