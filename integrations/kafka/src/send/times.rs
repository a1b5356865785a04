//! The times from the close of windows to their confirmation, as histograms.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        family::{Family, MetricConstructor},
        histogram::{Histogram, exponential_buckets},
    },
};

/// The labels of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Of {
    topic: String,
    partition: i32,
}

impl Of {
    /// The labels of this partition of a topic.
    pub fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.to_owned(), partition }
    }
}

/// The times from the close of windows to their confirmation, of each partition.
pub type Times = Family<Of, Histogram, Buckets>;

/// Makes histograms: 5 ms to 164 s.
#[derive(Clone, Debug, Default)]
pub struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.005, 2.0, 16))
    }
}
