//! The host's advice to the lanes of one sender, and what receipts have said of it.

use atp_common::wire::Advice;
use std::collections::BTreeMap;

/// Advice that differs from what the last receipt said by more than this part of it should be said
/// soon.
const MOVED_DIVISOR: u64 = 8;

/// The advice to one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    advice: Advice,
    told: Advice,
}

impl Lane {
    fn has_moved(self) -> bool {
        let [now, told] = [self.advice, self.told].map(Advice::bytes_per_s);
        now.abs_diff(told) > told / MOVED_DIVISOR
    }
}

/// Advice by group.
#[derive(Debug, Default)]
pub(crate) struct GivenAdvice {
    lanes: BTreeMap<u8, Lane>,
}

impl GivenAdvice {
    /// Sets the present advice to a lane.
    pub(crate) fn set(&mut self, group: u8, advice: Advice) {
        self.lanes.entry(group).or_default().advice = advice;
    }

    /// Whether any advice was ever set.
    pub(crate) fn is_given(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Whether a lane should hear of its advice soon.
    pub(crate) fn has_moved(&self) -> bool {
        self.lanes.values().any(|lane| lane.has_moved())
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
    fn has_moved__by_an_eighth() {
        let mut given = GivenAdvice::default();
        assert!(!given.has_moved() && given.first_group().is_none());
        given.set(3, Advice::of(64_000));
        assert!(given.has_moved());
        assert_eq!((given.tell(2), given.has_moved()), (Advice::NONE, true));
        assert_eq!((given.tell(3), given.has_moved()), (Advice::of(64_000), false));
        for (bytes_per_s, moved) in [(72_000, false), (72_064, true), (55_936, true)] {
            given.set(3, Advice::of(bytes_per_s));
            assert_eq!(given.has_moved(), moved, "{bytes_per_s}");
        }
        given.set(3, Advice::NONE);
        assert!(given.has_moved());
        assert_eq!((given.tell(3), given.has_moved()), (Advice::NONE, false));
    }
}
