//! The page of jobs.

use super::{
    super::{app::App, format},
    draw_lines, style,
};
use approxlib::control::{JobInfo, LaneStats};
use ratatui::{Frame, layout::Rect, text::Line};

/// Draws the page.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let head = format!(
        "{:>10} {:<16} {:>6} {:>7} {:>5} {:>11} {:>11} {}",
        "JOB", "NAME", "UID", "SOCKETS", "LANES", "RATE", "ACHIEVED", "CGROUP"
    );
    let mut lines = vec![Line::styled(head, style::head())];
    if app.stats.jobs.is_empty() {
        lines.push(Line::styled("no jobs", style::faint()));
    }
    lines.extend(app.stats.jobs.iter().map(|job| line(job, &app.stats.lanes)));
    draw_lines(frame, app, area, lines);
}

fn line(job: &JobInfo, lanes: &[LaneStats]) -> Line<'static> {
    let own = || lanes.iter().filter(|lane| lane.job == job.id);
    let rate = own().map(|lane| lane.rate_bytes_per_s).fold(0, u64::saturating_add);
    let sent = own().filter_map(|lane| lane.achieved_bytes_per_s).fold(0, u64::saturating_add);
    let cgroup = job.cgroup.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
    Line::raw(format!(
        "{:>10} {:<16} {:>6} {:>7} {:>5} {:>11} {:>11} {cgroup}",
        job.id,
        job.name.as_deref().unwrap_or("-"),
        job.uid,
        job.flows,
        own().count(),
        format::rate(rate),
        format::rate(sent),
    ))
}
