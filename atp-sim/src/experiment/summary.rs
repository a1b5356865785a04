//! What people ask first of an outcome.

use super::Outcome;
use crate::engine::US;
use serde::Serialize;

/// Times of which some may never have come to an end. Those are longer than all others: a mean over the
/// rest would make a scheme look quick that starves its slow ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// How many there are.
    pub number: usize,
    /// How many never came to an end.
    pub never: usize,
    /// Their mean, microseconds; `None` if one never came to an end, or there is none.
    pub mean_us: Option<f64>,
    /// Half of them are shorter, microseconds; `None` if half of them never came to an end.
    pub median_us: Option<f64>,
    /// One in a hundred is longer, microseconds; `None` if that many never came to an end.
    pub p99_us: Option<f64>,
}

impl Times {
    /// Of picoseconds, `None` where one never came to an end.
    pub fn of_ps(times: impl Iterator<Item = Option<u64>>) -> Self {
        let all: Vec<Option<u64>> = times.collect();
        let mut ended_us: Vec<f64> =
            all.iter().flatten().map(|ps| *ps as f64 / US as f64).collect();
        ended_us.sort_by(f64::total_cmp);
        let sum_us: f64 = ended_us.iter().sum();
        let never = all.len() - ended_us.len();
        // The last place is as far as a share goes.
        let place = |percent: usize| (all.len() * percent / 100).min(all.len().saturating_sub(1));
        Self {
            number: all.len(),
            never,
            mean_us: (never == 0 && !all.is_empty()).then(|| sum_us / all.len() as f64),
            median_us: ended_us.get(place(50)).copied(),
            p99_us: ended_us.get(place(99)).copied(),
        }
    }
}

/// One scheme's outcome in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Of approximate jobs.
    pub completion: Times,
    /// Of coflows, if there are any.
    pub coflow_completion: Option<Times>,
    /// From the first message to the end of the last job, microseconds; `None` if one never ended.
    pub all_done_us: Option<f64>,
    /// The share of approximate jobs' messages that weren't delivered, most since nobody needed them.
    pub messages_undelivered_share: f64,
    /// The share of packets that switches dropped.
    pub packets_dropped_share: f64,
    /// The share of approximate jobs' data that was of no use.
    pub wasted_share: f64,
    /// How long exact messages took, microseconds; `None` if there were none, or one never came.
    pub exact_mean_us: Option<f64>,
    /// The time that one in a hundred of them exceeded.
    pub exact_p99_us: Option<f64>,
}

impl Outcome {
    /// In a few numbers.
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
    fn of_ps__has_a_mean_only_if_all_came_to_an_end() {
        let all = times(200, 0);
        assert_eq!(
            (all.mean_us, all.median_us, all.p99_us),
            (Some(100.5), Some(101.0), Some(199.0))
        );
        let one_never = times(199, 1);
        assert_eq!((one_never.mean_us, one_never.p99_us), (None, Some(199.0)));
        assert_eq!((one_never.number, one_never.never), (200, 1));
    }

    /// Whoever starves half of the jobs is not quick.
    #[test]
    fn of_ps__what_never_ends_is_longer_than_the_rest() {
        let starved = times(100, 100);
        assert_eq!((starved.median_us, starved.p99_us), (None, None));
        assert_eq!(times(100, 99).median_us, Some(100.0));
        assert_eq!(
            times(0, 0),
            Times { number: 0, never: 0, mean_us: None, median_us: None, p99_us: None }
        );
    }
}
