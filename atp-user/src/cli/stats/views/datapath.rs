//! The datapath page: interfaces, programs and counters.

use super::{
    super::{app::App, format},
    draw_lines, style,
};
use ratatui::{Frame, layout::Rect, text::Line};

/// Counters by what they count: title, names and meanings.
const COUNTERS: [(&str, &[(&str, &str)]); 4] = [
    (
        "DATA",
        &[
            ("paced", "left at the lane's rate"),
            ("data_arrived", "arrived for a receiver of this host"),
        ],
    ),
    (
        "DROPPED OR LOST",
        &[
            ("too_far", "departure too far ahead: the socket sends faster than its lane"),
            ("unsendable", "of a group without a lane, or a mixed GSO buffer"),
            ("impersonation", "of a process outside of the job"),
            ("unattended", "sent at the safe rate: the control loop was silent"),
            ("malformed", "not well formed"),
            ("ack_failed", "arrived, but no ACK could be sent"),
            ("ack_forged", "ACKs with a wrong cookie"),
            ("ack_unknown", "ACKs of unknown jobs, flows or lanes"),
            ("ack_raced", "ACKs lost to a race; the receipt repairs it"),
            ("probe_failed", "PROBEs without an answer"),
            ("probe_too_soon", "PROBEs that left too soon after the last"),
        ],
    ),
    (
        "ACKS",
        &[
            ("ack_sent", "sent by this host"),
            ("ack_news", "arrived, with news"),
            ("ack_stale", "arrived, known before"),
        ],
    ),
    (
        "PROBES",
        &[
            ("probe_answered", "answered by this host"),
            ("probe_news", "answers that were new"),
            ("probe_stale", "answers that had come before"),
        ],
    ),
];

/// Draws the page.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let lines = lines(app);
    draw_lines(frame, app, area, lines);
}

fn lines(app: &App) -> Vec<Line<'static>> {
    let stats = &app.stats;
    let title = |text: String| Line::styled(text, style::head());
    let mut lines = vec![title(format!("{:<16} {:<8} {:<8}", "INTERFACE", "ACKS BY", "PACING"))];
    for (interface, hook) in &stats.interfaces {
        let hook = if hook == "native" { "XDP" } else { hook };
        lines.push(Line::raw(format!("{interface:<16} {hook:<8} {:<8}", stats.pacing)));
    }
    let coverage = &stats.coverage;
    lines.push(Line::raw(format!(
        "flows past the programs: {} refused, {} lost, {} returned",
        coverage.refused_flows, coverage.lost_flows, coverage.returned_flows
    )));
    lines.extend(coverage.last_reason.as_ref().map(|reason| Line::raw(format!("last: {reason}"))));
    lines.push(Line::raw(format!(
        "epochs are evaluated by the {}",
        if stats.epochs == "kernel" { "programs" } else { "daemon" }
    )));
    lines.push(title(format!(
        "{:<16} {:>10} {:>10} {:>8} {:>8}",
        "PROGRAM", "RUNS", "RUNS/S", "NS/RUN", "CPU"
    )));
    match &stats.programs {
        None => {
            let hint = "run times are off: sysctl kernel.bpf_stats_enabled=1 turns them on";
            lines.push(Line::raw(hint));
        }
        Some(programs) => {
            for (name, runs) in programs {
                let rates = app.rates.programs.get(name).copied().unwrap_or_default();
                lines.push(Line::raw(format!(
                    "{name:<16} {:>10} {:>10} {:>8.0} {:>8}",
                    format::count(runs.runs),
                    format::per_second(rates.runs_per_s),
                    rates.ns_per_run,
                    format::percent(rates.share)
                )));
            }
        }
    }
    for (group, names) in COUNTERS {
        lines.push(title(format!("{group:<16} {:>10} {:>10}", "PACKETS", "PER S")));
        for (name, meaning) in names {
            lines.push(counter(app, name, meaning));
        }
    }
    let is_known = |name: &String| {
        COUNTERS.iter().any(|(_, names)| names.iter().any(|(known, _)| known == name))
    };
    for name in stats.counters.keys().filter(|name| !is_known(name)) {
        lines.push(counter(app, name, ""));
    }
    lines
}

fn counter(app: &App, name: &str, meaning: &str) -> Line<'static> {
    let value = app.stats.counters.get(name).copied().unwrap_or(0);
    let per_s = app.rates.counters.get(name).copied().unwrap_or(0.0);
    let per_s = format::per_second(per_s);
    Line::raw(format!("{name:<16} {:>10} {per_s:>10}  {meaning}", format::count(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::maps::Counter;

    #[test]
    fn counters__all_have_a_meaning() {
        for (_, name) in Counter::NAMES {
            let shown = |(_, names): &(_, &[(&str, &str)])| names.iter().any(|(n, _)| *n == name);
            assert_eq!(COUNTERS.iter().filter(|group| shown(group)).count(), 1, "{name}");
        }
    }
}
