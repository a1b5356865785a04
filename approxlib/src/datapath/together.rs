//! What the senders of one job to several destinations have done together: the target loss rate is
//! that of a (job, group) on this host, not of one of its flows (NetApprox §4.2).

use atp_common::maps::GroupProgress;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// Sums over all flows of a job, by group.
pub struct Together([Sums; 256]);

#[derive(Default)]
struct Sums {
    messages: AtomicU32,
    delivered: AtomicU32,
    lost: AtomicU32,
}

impl Together {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(std::array::from_fn(|_| Sums::default())))
    }
}

/// One flow's part in it; of a job with one flow, all of it.
pub struct Member {
    together: Option<Arc<Together>>,
    /// What this flow said last, by group.
    own: Box<[GroupProgress; 256]>,
}

impl Member {
    pub fn of(together: Option<&Arc<Together>>) -> Self {
        Self { together: together.cloned(), own: Box::new([GroupProgress::default(); 256]) }
    }

    /// This flow's progress is `now`; returns that of all flows of the job.
    pub fn update(&mut self, group: u8, now: GroupProgress) -> GroupProgress {
        let Some(together) = &self.together else { return now };
        let sums = &together.0[usize::from(group)];
        let before = std::mem::replace(&mut self.own[usize::from(group)], now);
        // Wrapping differences: the sums themselves never wrap, and one that is read between two
        // flows' updates is as true as a moment earlier.
        let add = |sum: &AtomicU32, before: u32, now: u32| {
            let difference = now.wrapping_sub(before);
            sum.fetch_add(difference, Relaxed).wrapping_add(difference)
        };
        GroupProgress {
            messages: add(&sums.messages, before.messages, now.messages),
            delivered: add(&sums.delivered, before.delivered, now.delivered),
            lost: add(&sums.lost, before.lost, now.lost),
            ..now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update__sums_what_all_flows_say_last() {
        let together = Together::new();
        let (mut a, mut b) = (Member::of(Some(&together)), Member::of(Some(&together)));
        let progress = |messages, delivered, lost| GroupProgress {
            messages,
            delivered,
            lost,
            msr_parts_per_billion: 7,
        };
        assert_eq!(a.update(3, progress(100, 10, 5)), progress(100, 10, 5));
        assert_eq!(b.update(3, progress(50, 1, 2)), progress(150, 11, 7));
        assert_eq!(a.update(3, progress(100, 20, 1)), progress(150, 21, 3));
        assert_eq!(b.update(4, progress(0, 0, 0)), progress(0, 0, 0));
        assert_eq!(Member::of(None).update(3, progress(1, 1, 0)), progress(1, 1, 0));
    }
}
