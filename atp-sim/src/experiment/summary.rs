//! Summarizes an outcome in a few numbers.

use super::Outcome;
use crate::{engine::US, waste::Spent};
use serde::{Deserialize, Serialize};

/// Statistics of times, some of which may never have ended. A time that never ended counts as
/// longer than all others, because a mean over the rest would flatter a scheme that starves jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The number of times.
    pub number: usize,
    /// The number of times that never ended.
    pub never: usize,
    /// The mean, microseconds; `None` if one never ended, or there is none.
    pub mean_us: Option<f64>,
    /// The median, microseconds; `None` if half of the times never ended.
    pub median_us: Option<f64>,
    /// The 99th percentile, microseconds; `None` if one in a hundred never ended.
    pub p99_us: Option<f64>,
    /// The longest time, microseconds; `None` if one never ended, or there is none.
    pub slowest_us: Option<f64>,
}

impl Times {
    /// The statistics of times in picoseconds, `None` for a time that never ended.
    pub fn of_ps(times: impl Iterator<Item = Option<u64>>) -> Self {
        let all: Vec<Option<u64>> = times.collect();
        let mut ended_us: Vec<f64> =
            all.iter().flatten().map(|ps| *ps as f64 / US as f64).collect();
        ended_us.sort_by(f64::total_cmp);
        let sum_us: f64 = ended_us.iter().sum();
        let never = all.len() - ended_us.len();
        // At 100 % the index would be past the end.
        let index = |percent: usize| (all.len() * percent / 100).min(all.len().saturating_sub(1));
        Self {
            number: all.len(),
            never,
            mean_us: (never == 0 && !all.is_empty()).then(|| sum_us / all.len() as f64),
            median_us: ended_us.get(index(50)).copied(),
            p99_us: ended_us.get(index(99)).copied(),
            slowest_us: ended_us.last().copied().filter(|_| never == 0),
        }
    }
}

/// The outcome of one scheme in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Completion times of approximate jobs.
    pub completion: Times,
    /// Completion times of coflows; `None` without coflows.
    pub coflow_completion: Option<Times>,
    /// The time from the first message to the end of the last job, microseconds; `None` if a job
    /// never ended.
    pub all_done_us: Option<f64>,
    /// The share of approximate jobs' messages that were not delivered. Most of them were not
    /// needed.
    pub messages_undelivered_share: f64,
    /// The share of packets that switches dropped.
    pub packets_dropped_share: f64,
    /// The share of approximate jobs' data bytes that were wasted.
    pub wasted_share: f64,
    /// The use of these bytes.
    pub spent: Spent,
    /// Bytes that waited at a switch port while messages arrived, the mean over time and ports.
    pub queue_mean_bytes: u64,
    /// The mean over time at the port with the highest mean.
    pub queue_worst_bytes: u64,
    /// The mean time of exact messages, microseconds; `None` without exact messages, or if one
    /// never arrived.
    pub exact_mean_us: Option<f64>,
    /// The 99th percentile of exact messages' times, microseconds.
    pub exact_p99_us: Option<f64>,
}

impl Outcome {
    /// Summarizes the outcome.
    pub fn summary(&self) -> Summary {
        let us = |ps: u64| ps as f64 / US as f64;
        let coflows = self.coflows();
        let of_coflows = || Times::of_ps(coflows.iter().map(|coflow| coflow.completion_ps));
        Summary {
            completion: Times::of_ps(self.approximate().map(|job| job.completion_ps)),
            coflow_completion: (!coflows.is_empty()).then(of_coflows),
            all_done_us: self.all_done_ps.map(us),
            messages_undelivered_share: self.undelivered_share(),
            packets_dropped_share: self.dropped_share(),
            wasted_share: self.spent.wasted_share(),
            spent: self.spent,
            queue_mean_bytes: self.queue_mean_bytes,
            queue_worst_bytes: self.queue_worst_bytes,
            exact_mean_us: self.exact_mean_ps.map(us),
            exact_p99_us: self.exact_p99_ps.map(us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(ended: u64, never: usize) -> Times {
        let ended = (1..=ended).map(|us| Some(us * US));
        Times::of_ps(ended.chain(std::iter::repeat_n(None, never)))
    }

    #[test]
    fn of_ps__has_a_mean_only_if_all_times_ended() {
        let all = times(200, 0);
        assert_eq!(
            (all.mean_us, all.median_us, all.p99_us),
            (Some(100.5), Some(101.0), Some(199.0))
        );
        let one_never = times(199, 1);
        assert_eq!((one_never.mean_us, one_never.p99_us), (None, Some(199.0)));
        assert_eq!((all.slowest_us, one_never.slowest_us), (Some(200.0), None));
        assert_eq!((one_never.number, one_never.never), (200, 1));
    }

    /// A scheme that starves half of its jobs has no median.
    #[test]
    fn of_ps__counts_a_time_without_end_as_the_longest() {
        let starved = times(100, 100);
        assert_eq!((starved.median_us, starved.p99_us), (None, None));
        assert_eq!(times(100, 99).median_us, Some(100.0));
        assert_eq!(
            times(0, 0),
            Times {
                number: 0,
                never: 0,
                mean_us: None,
                median_us: None,
                p99_us: None,
                slowest_us: None
            }
        );
    }
}
