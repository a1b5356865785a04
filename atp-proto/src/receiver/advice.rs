//! The host's advice to the lanes of one sender, and what receipts have said of it.

use atp_common::wire::Advice;
use std::collections::BTreeMap;

/// Advice that differs from what the last receipt said by more than this part of it should be said
/// soon.
const MOVED_DIVISOR: u128 = 8;
/// Advice that is more than three halves of what the last receipt said, or less than two thirds,
/// should be said earlier: another lane ended or began.
const FAR: (u128, u128) = (3, 2);

/// How far advice is from what receipts have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moved {
    /// Near enough.
    No,
    /// The next receipt should come after the usual delay.
    Some,
    /// The next receipt should come earlier.
    Far,
}

/// The advice to one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    advice: Advice,
    told: Advice,
}

impl Lane {
    fn moved(self) -> Moved {
        let [now, told] = [self.advice, self.told].map(|advice| u128::from(advice.bytes_per_s()));
        let (least, most) = (now.min(told), now.max(told));
        if most * FAR.1 > least * FAR.0 {
            Moved::Far
        } else if now.abs_diff(told) > told / MOVED_DIVISOR {
            Moved::Some
        } else {
            Moved::No
        }
    }
}

/// Advice by group.
#[derive(Debug, Default)]
pub(crate) struct GivenAdvice {
    lanes: BTreeMap<u8, Lane>,
}

impl GivenAdvice {
    /// Sets the current advice to a lane.
    pub(crate) fn set(&mut self, group: u8, advice: Advice) {
        self.lanes.entry(group).or_default().advice = advice;
    }

    /// Whether any advice was ever set.
    pub(crate) fn is_given(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// How far the advice is from what receipts have said, of the lane where it is farthest.
    pub(crate) fn moved(&self) -> Moved {
        self.lanes.values().map(|lane| lane.moved()).max().unwrap_or(Moved::No)
    }

    /// The group whose advice is farthest from what receipts have said; `None` if all are near.
    pub(crate) fn farthest(&self) -> Option<u8> {
        let moved = self.lanes.iter().map(|(group, lane)| (lane.moved(), *group));
        moved.max().filter(|(moved, _)| *moved != Moved::No).map(|(_, group)| group)
    }

    /// The first group with advice.
    pub(crate) fn first_group(&self) -> Option<u8> {
        self.lanes.keys().next().copied()
    }

    /// The advice for a receipt that is written now and names `group`.
    pub(crate) fn tell(&mut self, group: u8) -> Advice {
        self.lanes.get_mut(&group).map_or(Advice::NONE, |lane| {
            lane.told = lane.advice;
            lane.advice
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved__by_an_eighth_and_by_a_half() {
        let mut given = GivenAdvice::default();
        assert!(given.moved() == Moved::No && given.first_group().is_none());
        given.set(3, Advice::of(64_000));
        assert_eq!(given.moved(), Moved::Far);
        assert_eq!((given.tell(2), given.moved()), (Advice::NONE, Moved::Far));
        assert_eq!((given.tell(3), given.moved()), (Advice::of(64_000), Moved::No));
        for (bytes_per_s, moved) in [
            (72_000, Moved::No),
            (72_064, Moved::Some),
            (55_936, Moved::Some),
            (96_000, Moved::Some),
            (96_064, Moved::Far),
            (42_688, Moved::Some),
            (42_624, Moved::Far),
        ] {
            given.set(3, Advice::of(bytes_per_s));
            assert_eq!(given.moved(), moved, "{bytes_per_s}");
        }
        given.set(3, Advice::NONE);
        assert_eq!(given.moved(), Moved::Far);
        assert_eq!((given.tell(3), given.moved()), (Advice::NONE, Moved::No));
    }
}
