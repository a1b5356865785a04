//! The state of a host as text.

use super::{
    columns::{Column, Row},
    format,
};
use approxlib::control::{HostStats, LaneStats, PolicyRefusals};
use std::fmt::Write;

/// The columns of the printed table.
const COLUMNS: [Column; 14] = [
    Column::Job,
    Column::Group,
    Column::Peer,
    Column::Process,
    Column::Messages,
    Column::Delivered,
    Column::Lost,
    Column::Msr,
    Column::Tlr,
    Column::Loss,
    Column::Rate,
    Column::Achieved,
    Column::Queue,
    Column::Rtt,
];

/// Interfaces, lanes, and the counters that are not 0.
pub fn text(stats: &HostStats) -> String {
    let mut out = String::new();
    for (interface, kind) in &stats.interfaces {
        _ = match kind.as_str() {
            "gone" | "not covered" => {
                writeln!(out, "{interface}: {kind}; the daemon's log says why")
            }
            hook => writeln!(
                out,
                "{interface}: ACKs consumed by {hook}, packets paced by {}",
                stats.pacing
            ),
        };
    }
    _ = writeln!(
        out,
        "up {}, {} jobs, {} lanes",
        format::duration(stats.uptime_s),
        stats.jobs.len(),
        stats.lanes.len()
    );
    if !stats.lanes.is_empty() {
        table(&mut out, stats);
    }
    let coverage = &stats.coverage;
    if let Some(reason) = &coverage.last_reason {
        _ = writeln!(
            out,
            "coverage: {} flows refused, {} lost, {} returned; last: {reason}",
            coverage.refused_flows, coverage.lost_flows, coverage.returned_flows
        );
    }
    let PolicyRefusals { jobs_max, msr_min, queue_highest } = stats.policy_refusals;
    if [jobs_max, msr_min, queue_highest].into_iter().any(|refused| refused > 0) {
        _ = writeln!(
            out,
            "policy: {jobs_max} requests refused by jobs_max, {msr_min} by msr_min, \
             {queue_highest} by queue_highest"
        );
    }
    for (name, count) in stats.counters.iter().filter(|(_, count)| **count > 0) {
        _ = writeln!(out, "{name} {count}");
    }
    out
}

fn table(out: &mut String, stats: &HostStats) {
    let name = |lane: &LaneStats| stats.jobs.iter().find(|job| lane.is_of(job))?.name.as_deref();
    let head: Vec<String> = COLUMNS.iter().map(|column| column.title().to_owned()).collect();
    let lines: Vec<Vec<String>> = stats
        .lanes
        .iter()
        .map(|lane| COLUMNS.map(|column| column.text(Row { lane, job: name(lane) })).to_vec())
        .collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| lines.iter().chain([&head]).map(|line| line[at].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    for line in [&head].into_iter().chain(&lines) {
        let cells = line.iter().zip(COLUMNS).zip(&widths).map(|((text, column), &width)| {
            if column.is_number() { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join(" ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text__names_interfaces_and_nonzero_counters() {
        let stats = HostStats {
            interfaces: [("eth0", "native"), ("eth1", "not covered")]
                .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
                .into(),
            pacing: "fq".into(),
            counters: [("paced".to_owned(), 3), ("too_far".to_owned(), 0)].into(),
            policy_refusals: PolicyRefusals { msr_min: 2, ..PolicyRefusals::default() },
            ..HostStats::default()
        };
        let text = text(&stats);
        assert!(text.contains("policy: 0 requests refused by jobs_max, 2 by msr_min, 0 by"));
        assert!(text.contains("eth0: ACKs consumed by native, packets paced by fq"));
        assert!(text.contains("eth1: not covered; the daemon's log says why\n"));
        assert!(text.contains("paced 3") && !text.contains("too_far"));
    }
}
