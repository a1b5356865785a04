//! Completion times of coflows.

use super::{JobOutcome, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a coflow: a set of jobs that one application waits for. A coflow begins with the
/// first message of any of its jobs, and is complete with its last job (Chowdhury and Stoica,
/// "Coflow", HotNets 2012; cited from memory). Here a job is complete with its MSR's share of
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CoflowOutcome {
    /// The coflow's number in the trace.
    pub coflow: u32,
    /// The number of its jobs.
    pub jobs: usize,
    /// The number of its complete jobs.
    pub jobs_complete: usize,
    /// The completion time, picoseconds; `None` if the coflow never was complete.
    pub completion_ps: Option<u64>,
}

impl Outcome {
    /// The coflows by number; empty if no job belongs to one.
    pub fn coflows(&self) -> Vec<CoflowOutcome> {
        let mut jobs_of: BTreeMap<u32, Vec<&JobOutcome>> = BTreeMap::new();
        for job in self.jobs.iter().filter(|job| job.messages > 0) {
            if let Some(coflow) = job.coflow {
                jobs_of.entry(coflow).or_default().push(job);
            }
        }
        jobs_of.into_iter().map(|(coflow, jobs)| CoflowOutcome::of(coflow, &jobs)).collect()
    }
}

impl CoflowOutcome {
    fn of(coflow: u32, jobs: &[&JobOutcome]) -> Self {
        let done_ps = |job: &&JobOutcome| Some(job.began_ps + job.completion_ps?);
        let last_ps = jobs.iter().map(done_ps).try_fold(0, |last, done| Some(done?.max(last)));
        let began_ps = jobs.iter().map(|job| job.began_ps).min();
        Self {
            coflow,
            jobs: jobs.len(),
            jobs_complete: jobs.iter().filter(|job| job.completion_ps.is_some()).count(),
            completion_ps: last_ps.zip(began_ps).map(|(last_ps, began_ps)| last_ps - began_ps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(began_ps: u64, completion_ps: Option<u64>) -> JobOutcome {
        JobOutcome {
            source: 0,
            destination: 1,
            tenant: 0,
            coflow: Some(3),
            exact: false,
            messages: 9,
            needed: 5,
            delivered: 0,
            began_ps,
            completion_ps,
            dropped_packets: 0,
        }
    }

    #[test]
    fn of__lasts_from_the_first_message_to_the_last_job() {
        let (early, late) = (job(10, Some(50)), job(40, Some(25)));
        let done = CoflowOutcome::of(3, &[&late, &early]);
        assert_eq!((done.completion_ps, done.jobs_complete), (Some(55), 2));
        let never = CoflowOutcome::of(3, &[&early, &job(20, None), &late]);
        assert_eq!((never.completion_ps, never.jobs, never.jobs_complete), (None, 3, 2));
    }
}
