//! The metrics of `atp-kafka send`.

use super::{
    assignment::{Assignment, Key},
    partition::{Counts, Partition},
    times::Of,
};
use crate::metrics::{TotalOf, gauge, total};
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;

/// A partition's counters.
const TOTALS: [TotalOf<Counts>; 8] = [
    ("records", "Records that were read", |counts| counts.records),
    ("windows_closed", "Windows that were closed", |counts| counts.windows),
    ("windows_confirmed", "Windows that the receiver has stored", |counts| counts.confirmed),
    ("late_records", "Records that came after their window had closed", |counts| counts.late),
    ("refused_records", "Records longer than record_bytes_max, never sent", |counts| {
        counts.refused
    }),
    ("untimed_records", "Records whose event time is missing or wrong, sent exactly", |counts| {
        counts.untimed
    }),
    ("unnumbered_records", "Records without the number of the accepted error", |counts| {
        counts.unnumbered
    }),
    ("failures", "Attempts to send windows that failed", |counts| counts.failures),
];

/// The name, the unit, the meaning and the value of a gauge.
type PartitionGauge = (&'static str, Option<Unit>, &'static str, fn(&Partition) -> Option<f64>);

/// Registers the metrics of all partitions. Those that were assigned before keep their counters.
pub fn fill(registry: &mut Registry, assignment: &Assignment) {
    let state = assignment.state();
    let assigned = state.partitions.iter().map(|(key, partition)| (key, partition.counts()));
    let mut counts: BTreeMap<&Key, Counts> =
        state.past.iter().map(|(key, counts)| (key, *counts)).collect();
    counts.extend(assigned);
    for (name, help, value) in TOTALS {
        let values = counts.iter().map(|(key, counts)| (of(key), value(counts)));
        total(registry, name, help, values);
    }
    let gauges: [PartitionGauge; 5] = [
        ("unconfirmed_windows", None, "Windows that are closed and not confirmed", |partition| {
            Some(partition.unconfirmed() as f64)
        }),
        ("held", Some(Unit::Bytes), "Windows that are open or not confirmed", |partition| {
            Some(partition.bytes() as f64)
        }),
        ("paused", None, "1 while the partition isn't read, to bound memory", |partition| {
            Some(f64::from(u8::from(partition.is_paused())))
        }),
        ("lag_records", None, "Records of the partition that aren't confirmed", |partition| {
            partition.lag().map(|lag| lag as f64)
        }),
        (
            "since_confirmation",
            Some(Unit::Seconds),
            "Time since a window was confirmed, or since the assignment",
            |partition| Some(partition.since_confirmation().as_secs_f64()),
        ),
    ];
    for (name, unit, help, value) in gauges {
        let values = state.partitions.iter();
        let values = values.filter_map(|(key, partition)| Some((of(key), value(partition)?)));
        gauge(registry, name, unit, help, values);
    }
    let help = "Time from the close of a window to its confirmation";
    registry.register_with_unit("confirmation", help, Unit::Seconds, assignment.times().clone());
}

fn of((topic, partition): &Key) -> Of {
    Of::new(topic, *partition)
}
