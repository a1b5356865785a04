//! What figures 10 and 11 have in common: a job beside background traffic (NetApprox §7.1.2).

use crate::{
    experiment::{Pattern, Place, Point},
    net::topology::Star,
    workload::{Background, Between, Interval},
};

/// Hosts 1 to 4 send to host 0, the first of them a job of FBKV whose messages come for `duration_ps` as
/// fast as its line takes them, the others background traffic.
///
/// Two lines' worth of that is the least that lets a job of MSR 0.5 lose more than it may. Its packets are
/// as long as the job's messages are on the average: queues count bytes, and where full packets compete
/// for the last of them, short ones find room.
pub(super) fn beside_background(duration_ps: u64, intervals: Vec<Interval>) -> Point {
    let background = Background {
        between: Between::Pairs(vec![(2, 0), (3, 0), (4, 0)]),
        share: 0.75,
        payload_bytes: 188,
        intervals,
    };
    Point {
        place: Place::Star(Star { hosts: 5 }),
        pattern: Pattern::Incast(Some(1)),
        load: 1.0,
        duration_ps,
        background: vec![background],
        ..Point::default()
    }
}
