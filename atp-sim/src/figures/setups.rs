//! Setups that several figures share: the two workloads, the incast of figure 9, and the job beside
//! background traffic of figures 10 and 11 (NetApprox §7.1).

use super::Extent;
use crate::{
    engine::US,
    experiment::{NetworkSpec, Pattern, Point},
    net::topology::Star,
    workload::{Background, Between, Interval, Sizes},
};

/// A star where hosts 1 to 4 send to host 0. Host 1 has a job with FBKV messages, which arrive at
/// its line's rate for `duration_ps`. The others send background traffic.
///
/// The background traffic offers 2.25 lines. With less than two lines, a job of MSR 0.5 does not
/// lose more than it may. Background packets have the mean length of the job's messages: queues
/// count bytes, so shorter packets would find room where the job's packets do not.
pub(super) fn job_beside_background(duration_ps: u64, intervals: Vec<Interval>) -> Point {
    let background = Background {
        between: Between::Pairs(vec![(2, 0), (3, 0), (4, 0)]),
        share: 0.75,
        payload_bytes: 188,
        intervals,
    };
    Point {
        network_spec: NetworkSpec::Star(Star { hosts: 5 }),
        pattern: Pattern::Incast(Some(1)),
        load: 1.0,
        duration_ps,
        background: vec![background],
        scheme: "atp:paper".parse().expect("the name of a scheme"),
        ..Point::default()
    }
}

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
