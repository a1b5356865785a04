//! The quantities of figures.

use crate::{experiment::Summary, statistics::Estimate};
use serde::{Deserialize, Serialize};

/// A quantity of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The mean completion time of jobs, microseconds. It does not exist if a job never completed.
    CompletionUs,
    /// The 99th percentile of the completion times, microseconds. It does not exist if one job in a
    /// hundred never completed.
    CompletionP99Us,
    /// The completion time of the slowest job, microseconds.
    SlowestUs,
    /// The time from the first message of any job until the last job is complete, microseconds.
    AllDoneUs,
    /// The mean time of exact jobs' messages, microseconds.
    ExactUs,
    /// The 99th percentile of these times, microseconds.
    ExactP99Us,
    /// The mean queue of a switch port, bytes.
    QueueBytes,
    /// The mean queue of the port with the longest mean queue, bytes.
    WorstQueueBytes,
    /// The share of approximate jobs' messages that were not delivered.
    UndeliveredShare,
    /// The share of packets that switches dropped.
    DroppedShare,
    /// The share of approximate jobs' data bytes that were wasted.
    WastedShare,
}

impl Metric {
    /// All quantities.
    pub const ALL: [Self; 11] = [
        Self::CompletionUs,
        Self::CompletionP99Us,
        Self::SlowestUs,
        Self::AllDoneUs,
        Self::ExactUs,
        Self::ExactP99Us,
        Self::QueueBytes,
        Self::WorstQueueBytes,
        Self::UndeliveredShare,
        Self::DroppedShare,
        Self::WastedShare,
    ];

    /// The label of an axis or a table.
    pub const fn label(self) -> &'static str {
        match self {
            Self::CompletionUs => "mean job completion time [us]",
            Self::CompletionP99Us => "99th percentile of job completion times [us]",
            Self::SlowestUs => "completion time of the slowest job [us]",
            Self::AllDoneUs => "time until all jobs are complete [us]",
            Self::ExactUs => "mean time of an exact message [us]",
            Self::ExactP99Us => "99th percentile of exact messages' times [us]",
            Self::QueueBytes => "mean queue at a switch port [bytes]",
            Self::WorstQueueBytes => "mean queue at the worst switch port [bytes]",
            Self::UndeliveredShare => "messages not delivered [%]",
            Self::DroppedShare => "packets dropped [%]",
            Self::WastedShare => "bytes wasted [%]",
        }
    }

    /// The quantities to show below this one.
    pub const fn beside(self) -> &'static [Self] {
        match self {
            Self::CompletionUs => &[Self::CompletionP99Us, Self::SlowestUs, Self::DroppedShare],
            Self::ExactUs => &[Self::ExactP99Us],
            Self::QueueBytes => &[Self::WorstQueueBytes],
            _ => &[],
        }
    }

    /// Whether the quantity tells nothing about jobs that never completed.
    pub const fn counts_all_jobs(self) -> bool {
        matches!(
            self,
            Self::CompletionUs | Self::CompletionP99Us | Self::SlowestUs | Self::AllDoneUs
        )
    }

    const fn is_share(self) -> bool {
        matches!(self, Self::UndeliveredShare | Self::DroppedShare | Self::WastedShare)
    }

    /// The value of one run; `None` if it does not exist.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        match self {
            Self::CompletionUs => summary.completion.mean_us,
            Self::CompletionP99Us => summary.completion.p99_us,
            Self::SlowestUs => summary.completion.slowest_us,
            Self::AllDoneUs => summary.all_done_us,
            Self::ExactUs => summary.exact_mean_us,
            Self::ExactP99Us => summary.exact_p99_us,
            Self::QueueBytes => Some(summary.queue_mean_bytes as f64),
            Self::WorstQueueBytes => Some(summary.queue_worst_bytes as f64),
            Self::UndeliveredShare => Some(summary.messages_undelivered_share),
            Self::DroppedShare => Some(summary.packets_dropped_share),
            Self::WastedShare => Some(summary.wasted_share),
        }
    }

    /// The estimate as figures and tables show it: shares in percent.
    pub(super) fn shown(self, estimate: &Estimate) -> Estimate {
        let scale = if self.is_share() { 100.0 } else { 1.0 };
        let Estimate { mean, half_width_95, least, most } = *estimate;
        Estimate {
            mean: scale * mean,
            half_width_95: half_width_95.map(|half_width| scale * half_width),
            least: scale * least,
            most: scale * most,
        }
    }

    /// Formats an estimate of this quantity, shares in percent. From 1,000 on it has no decimal
    /// place.
    pub fn text(self, estimate: &Estimate) -> String {
        let shown = self.shown(estimate);
        match !self.is_share() && shown.mean >= 1_000.0 {
            true => format!("{shown:.0}"),
            false => shown.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all__has_every_quantity_once_with_a_label_of_its_own() {
        let mut labels: Vec<&str> = Metric::ALL.map(Metric::label).to_vec();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Metric::ALL.len());
        assert!(Metric::ALL.is_sorted());
    }

    #[test]
    fn text__has_the_precision_of_the_quantity() {
        let estimate = |mean, half_width_95| Estimate { mean, half_width_95, least: 0., most: 1. };
        assert_eq!(Metric::CompletionUs.text(&estimate(368.04, Some(2.06))), "368.0 ±2.1");
        assert_eq!(Metric::CompletionUs.text(&estimate(1_368.04, Some(12.6))), "1368 ±13");
        assert_eq!(Metric::DroppedShare.text(&estimate(0.0512, Some(0.001))), "5.1 ±0.1");
        assert_eq!(Metric::QueueBytes.text(&estimate(77.0, None)), "77.0");
    }
}
