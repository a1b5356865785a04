//! Sums the progress of all flows of a job: the target loss rate is that of a (job, group) on this
//! host, not of one flow (NetApprox §4.2).
//!
//! Only flows with the same MSR share their slack. A receiver may ask for another MSR, and a flow
//! that needs all of its messages must not lose as many as the others can spare.

use atp_common::{maps::GroupProgress, units::Msr};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The sums over all flows of a job, by group and MSR.
#[derive(Default)]
pub struct JobProgress(Mutex<BTreeMap<(u8, Msr), GroupProgress>>);

impl JobProgress {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Replaces one flow's part, and returns the sum of which `now` is a part.
    fn replace(&self, group: u8, before: GroupProgress, now: GroupProgress) -> GroupProgress {
        // Every update is complete before the lock is released.
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if before.messages > 0
            && let Some(sum) = sums.get_mut(&(group, before.msr()))
        {
            // A flow takes out no more than it has put in.
            sum.messages = sum.messages.wrapping_sub(before.messages);
            sum.delivered = sum.delivered.wrapping_sub(before.delivered);
            sum.lost = sum.lost.wrapping_sub(before.lost);
            if sum.messages == 0 {
                sums.remove(&(group, before.msr()));
            }
        }
        if now.messages == 0 {
            return sums.get(&(group, now.msr())).copied().unwrap_or(now);
        }
        let sum = sums.entry((group, now.msr())).or_insert(GroupProgress {
            msr_parts_per_billion: now.msr_parts_per_billion,
            ..GroupProgress::default()
        });
        sum.messages = sum.messages.wrapping_add(now.messages);
        sum.delivered = sum.delivered.wrapping_add(now.delivered);
        sum.lost = sum.lost.wrapping_add(now.lost);
        *sum
    }
}

/// One flow's part of its job's progress.
pub struct FlowProgress {
    /// The sums; `None` if the job has no other flow.
    total: Option<Arc<JobProgress>>,
    /// The progress that this flow has added to the sums, by group.
    own: Box<[GroupProgress; 256]>,
}

impl FlowProgress {
    pub fn new(total: Option<&Arc<JobProgress>>) -> Self {
        Self { total: total.cloned(), own: Box::new([GroupProgress::default(); 256]) }
    }

    /// Sets this flow's progress of a group to `now`, and returns the sum over the flows of the job
    /// that have the same MSR.
    pub fn update(&mut self, group: u8, now: GroupProgress) -> GroupProgress {
        let Some(total) = &self.total else { return now };
        let before = std::mem::replace(&mut self.own[usize::from(group)], now);
        total.replace(group, before, now)
    }
}

/// A flow that has ended has no slack that other flows could use: its receiver has what it needs,
/// or gets nothing more.
impl Drop for FlowProgress {
    fn drop(&mut self) {
        for group in 0..=255 {
            self.update(group, GroupProgress::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update__returns_the_sum_over_all_flows_of_one_msr() {
        let total = JobProgress::new();
        let (mut a, mut b) = (FlowProgress::new(Some(&total)), FlowProgress::new(Some(&total)));
        let with = |messages, delivered, lost, msr_parts_per_billion| GroupProgress {
            messages,
            delivered,
            lost,
            msr_parts_per_billion,
        };
        let progress = |messages, delivered, lost| with(messages, delivered, lost, 7);
        assert_eq!(a.update(3, progress(100, 10, 5)), progress(100, 10, 5));
        assert_eq!(b.update(3, progress(50, 1, 2)), progress(150, 11, 7));
        assert_eq!(a.update(3, progress(100, 20, 1)), progress(150, 21, 3));
        assert_eq!(b.update(4, progress(0, 0, 0)), progress(0, 0, 0));
        // One receiver asks for more: the flows no longer share their slack.
        assert_eq!(b.update(3, with(50, 1, 2, 907)), with(50, 1, 2, 907));
        assert_eq!(a.update(3, progress(100, 20, 1)), progress(100, 20, 1));
        assert_eq!(b.update(3, with(50, 1, 2, 7)), with(150, 21, 3, 7));
        assert_eq!(FlowProgress::new(None).update(3, progress(1, 1, 0)), progress(1, 1, 0));
        // A flow that ends takes its messages out.
        drop(b);
        assert_eq!(a.update(3, progress(100, 30, 1)), progress(100, 30, 1));
        drop(a);
        assert!(total.0.lock().unwrap().is_empty());
    }
}
