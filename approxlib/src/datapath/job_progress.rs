//! Sums the progress of all flows of a job: the target loss rate is that of a (job, group) on this
//! host, not of one flow (NetApprox §4.2).

use atp_common::maps::GroupProgress;
use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// The sums over all flows of a job, by group.
pub struct JobProgress([Sums; 256]);

#[derive(Default)]
struct Sums {
    messages: AtomicU32,
    delivered: AtomicU32,
    lost: AtomicU32,
    /// MSR times N, in parts per billion of a message: receivers may have asked for different MSRs.
    needed_parts: AtomicU64,
}

impl JobProgress {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(std::array::from_fn(|_| Sums::default())))
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

    /// Sets this flow's progress of a group to `now`, and returns the sum over all flows of the
    /// job. Its MSR is the mean over the messages.
    pub fn update(&mut self, group: u8, now: GroupProgress) -> GroupProgress {
        let Some(total) = &self.total else { return now };
        let sums = &total.0[usize::from(group)];
        let before = std::mem::replace(&mut self.own[usize::from(group)], now);
        // Differences may wrap, but the sums never do. A sum read between the updates of two flows
        // is a little old, which does no harm.
        let add = |sum: &AtomicU32, before: u32, now: u32| {
            let difference = now.wrapping_sub(before);
            sum.fetch_add(difference, Relaxed).wrapping_add(difference)
        };
        let difference = needed_parts(&now).wrapping_sub(needed_parts(&before));
        let needed_parts =
            sums.needed_parts.fetch_add(difference, Relaxed).wrapping_add(difference);
        let messages = add(&sums.messages, before.messages, now.messages);
        let msr = needed_parts.div_ceil(u64::from(messages).max(1));
        GroupProgress {
            messages,
            delivered: add(&sums.delivered, before.delivered, now.delivered),
            lost: add(&sums.lost, before.lost, now.lost),
            msr_parts_per_billion: match messages {
                0 => now.msr_parts_per_billion,
                _ => u32::try_from(msr).unwrap_or(u32::MAX),
            },
        }
    }
}

fn needed_parts(progress: &GroupProgress) -> u64 {
    u64::from(progress.messages) * u64::from(progress.msr_parts_per_billion)
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
    fn update__returns_the_sum_over_all_flows() {
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
        // One receiver asks for more: the mean over the messages, rounded up.
        assert_eq!(b.update(3, with(50, 1, 2, 907)), with(150, 21, 3, 307));
        assert_eq!(FlowProgress::new(None).update(3, progress(1, 1, 0)), progress(1, 1, 0));
        // A flow that ends takes its messages out.
        drop(b);
        assert_eq!(a.update(3, progress(100, 30, 1)), progress(100, 30, 1));
    }
}
