//! The setup that figures 10 and 11 share: a job beside background traffic (NetApprox §7.1.2).

use crate::{
    experiment::{NetworkSpec, Pattern, Point},
    net::topology::Star,
    workload::{Background, Between, Interval},
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
        ..Point::default()
    }
}
