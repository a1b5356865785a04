//! The measurements of one scheme in one run, as JSON.

use serde::Serialize;

use crate::job::accepted::Accepted;
use crate::job::answer::{QueryError, answer_error};
use crate::job::intervals::{Coverage, Interval, truth};
use crate::job::query::Query;
use crate::job::session::{JobRun, Plan, SchemeRun};
use crate::job::table::Table as Input;
use crate::median::{median, median_count};

/// A scheme's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub jct_s: f64,
    pub delivered: usize,
    pub dropped_share: f64,
    pub answer_error: f64,
    pub exact_p50_ms: Option<f64>,
    pub exact_p99_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct SchemeReport {
    #[serde(flatten)]
    measured: Measured,
    /// The MSR with which the jobs began; None if the scheme has none.
    pub msr: Option<f64>,
    exact_requests: u64,
    exact_unanswered: usize,
    pub jobs: Vec<JobReport>,
}

#[derive(Debug, Serialize)]
pub struct JobReport {
    jct_s: f64,
    pub delivered: usize,
    dropped_share: f64,
    answer_error: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    datapath: Option<String>,
    /// The outcome of an accepted error, if the receiver could ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    pub answers: Vec<AnswerReport>,
}

#[derive(Debug, Serialize)]
pub struct AnswerReport {
    pub query: String,
    #[serde(flatten)]
    error: QueryError,
    pub coverage: Coverage,
    pub intervals: Vec<IntervalReport>,
}

/// An interval beside the answer of the full table.
#[derive(Debug, Serialize)]
pub struct IntervalReport {
    #[serde(flatten)]
    pub interval: Interval,
    pub full: Option<f64>,
    pub contains_full: bool,
    /// Whether an accepted error is of this answer.
    pub is_of_emax: bool,
}

impl SchemeReport {
    pub fn new(run: &SchemeRun, plan: &Plan, input: &Input) -> SchemeReport {
        SchemeReport {
            measured: measured(run),
            msr: Some(run.msr).filter(|_| run.scheme.guarantees_msr()),
            exact_requests: run.exact.map_or(0, |latency| latency.requests),
            exact_unanswered: run.unanswered,
            jobs: run.jobs.iter().map(|job| JobReport::new(job, plan, input)).collect(),
        }
    }
}

impl JobReport {
    fn new(job: &JobRun, plan: &Plan, input: &Input) -> JobReport {
        let of_queries = job.coverage.iter().zip(&job.intervals);
        let answers = input.queries.iter().zip(&job.errors).zip(of_queries);
        JobReport {
            jct_s: job.window.seconds(),
            delivered: job.delivered,
            dropped_share: job.dropped_share,
            answer_error: answer_error(&job.errors),
            datapath: job.datapath.clone(),
            accepted: job.accepted.clone(),
            answers: answers
                .enumerate()
                .map(|(number, ((query, &error), (&coverage, intervals)))| AnswerReport {
                    query: describe(query, input),
                    error,
                    coverage,
                    intervals: intervals
                        .iter()
                        .map(|own| IntervalReport::new(own, number, query, plan))
                        .collect(),
                })
                .collect(),
        }
    }
}

impl IntervalReport {
    fn new(interval: &Interval, number: usize, query: &Query, plan: &Plan) -> IntervalReport {
        let full = truth(number, query, interval.key.as_deref(), &plan.answers);
        IntervalReport {
            interval: interval.clone(),
            full,
            contains_full: full.is_some_and(|full| interval.contains(full)),
            is_of_emax: query.value().is_none() || interval.key.is_none(),
        }
    }
}

fn describe(query: &Query, input: &Input) -> String {
    let name = |column: usize| &input.columns[column];
    match *query {
        Query::Average { value, key } => format!("average {} per {}", name(value), name(key)),
        Query::MostFrequent { key, count } => format!("{count} most frequent {}", name(key)),
    }
}

/// The numbers of one run: medians over its jobs.
pub fn measured(run: &SchemeRun) -> Measured {
    let over_jobs = |value: fn(&JobRun) -> f64| median(run.jobs.iter().map(value)).unwrap_or(0.0);
    Measured {
        jct_s: over_jobs(|job| job.window.seconds()),
        delivered: median_count(run.jobs.iter().map(|job| job.delivered).collect()),
        dropped_share: over_jobs(|job| job.dropped_share),
        answer_error: over_jobs(|job| answer_error(&job.errors)),
        exact_p50_ms: run.exact.map(|latency| latency.p50_ms),
        exact_p99_ms: run.exact.map(|latency| latency.p99_ms),
    }
}

/// A share in percent: 100 * 0.57 is 56.99999999999999.
pub fn in_percent(share: f64) -> f64 {
    (1e8 * share).round() / 1e6
}
