//! The pull queue of a host's interface (NDP, SIGCOMM 2017, §3.2): all flows that end here share it.
//!
//! Pulls leave one after the other, flow by flow, so that the data that they ask for comes at the rate
//! of the line and in equal shares. A flow that has nothing to ask for is passed over, and what it
//! leaves the others have (§6.2, "Sender-limited traffic").

use super::Place;
use crate::net::duration_ps;
use std::collections::BTreeSet;

/// Whose turn it is, and when.
#[derive(Debug, Default)]
pub struct Pulls {
    /// Ends that want to pull.
    waiting: BTreeSet<Place>,
    /// Who did last.
    last: Place,
    /// From when on the line is free for what the next pull brings.
    free_ps: u64,
}

impl Pulls {
    /// An end wants to pull, or no longer does.
    pub fn file(&mut self, place: Place, wants: bool) {
        if wants {
            self.waiting.insert(place);
        } else {
            self.waiting.remove(&place);
        }
    }

    /// A pull could leave at once, and nobody waits for that.
    pub fn is_free(&self, now_ps: u64) -> bool {
        self.waiting.is_empty() && self.free_ps <= now_ps
    }

    /// Who pulls now: the next one after who did last.
    pub fn next(&self, now_ps: u64) -> Option<Place> {
        if self.free_ps > now_ps {
            return None;
        }
        self.waiting.range(self.last + 1..).next().or_else(|| self.waiting.first()).copied()
    }

    /// An end has pulled so many bytes.
    pub fn note(&mut self, now_ps: u64, place: Place, wire_bytes: u32, bits_per_s: u64) {
        self.last = place;
        self.free_ps = now_ps + duration_ps(wire_bytes, bits_per_s);
    }

    /// When the next one can pull; `None` if nobody wants to.
    pub fn due_ps(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.free_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    /// NDP §3.2: fair by default, at the rate of the line; who has nothing to ask for is passed over.
    #[test]
    fn pulls__take_turns() {
        let mut pulls = Pulls::default();
        assert!(pulls.is_free(0));
        for place in [3, 5, 9] {
            pulls.file(place, true);
        }
        let mut now_ps = 0;
        let mut order = Vec::new();
        for turn in 0..9 {
            if turn == 5 {
                pulls.file(5, false);
            }
            assert!(!pulls.is_free(now_ps));
            assert!(now_ps == 0 || pulls.next(now_ps - 1).is_none());
            let place = pulls.next(now_ps).unwrap();
            pulls.note(now_ps, place, 1_500, 10 * GBIT);
            order.push(place);
            now_ps += 1_200_000;
            assert_eq!(pulls.due_ps(), Some(now_ps));
        }
        assert_eq!(order, [3, 5, 9, 3, 5, 9, 3, 9, 3]);
        pulls.file(3, false);
        pulls.file(9, false);
        assert_eq!(pulls.due_ps(), None);
    }
}
