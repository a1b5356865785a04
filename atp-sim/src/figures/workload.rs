//! The workloads that several figures share.

use super::Extent;
use crate::{
    engine::US,
    experiment::{Pattern, Point},
    workload::Sizes,
};

/// The two workloads of the paper.
#[derive(Clone, Copy)]
pub(super) enum Workload {
    KeyValue,
    Hadoop,
}

impl Workload {
    /// NetApprox §7.1: small messages, or fewer large ones. The large ones need a longer duration
    /// for the same number.
    pub fn apply(self, point: Point, extent: Extent) -> Point {
        let (sizes, duration_us) = match self {
            Self::KeyValue => (Sizes::KeyValue, 500),
            Self::Hadoop => (Sizes::Hadoop, 5_000),
        };
        Point { sizes, duration_ps: extent.shortened_us(duration_us) * US, ..point }
    }
}

/// Adds figure 9's incast to a point: all senders together offer 1.5 times the rate of the
/// receiver's line.
pub(super) fn incast_of(point: Point, extent: Extent) -> Point {
    Point {
        pattern: Pattern::Incast(None),
        load: 1.5 / f64::from(extent.hosts() - 1),
        duration_ps: extent.shortened_us(1_000) * US,
        ..point
    }
}
