//! The table of lanes.

use super::{
    super::{
        app::App,
        columns::{Column, Row, fitting, is_above_target},
    },
    style,
};
use ratatui::{Frame, buffer::Buffer, layout::Rect, style::Style, text::Line};

/// The widest job name and address that get all the room they need.
const JOB_MAX: usize = 24;
const PEER_MAX: usize = 47;

/// Draws the lanes that fit, with the selected one among them.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    if area.height < 2 || area.width < 2 {
        return;
    }
    let widest = |column: Column, max: usize| {
        let widths = app.rows().map(|row| column.text(row).chars().count());
        widths.max().unwrap_or(0).min(max) as u16
    };
    // One cell at the left is for the mark of the selected lane.
    let width = area.width - 1;
    let columns = fitting(width, widest(Column::Job, JOB_MAX), widest(Column::Peer, PEER_MAX));
    let height = usize::from(area.height - 1);
    let selected = app.selected().map(|(at, _)| at);
    app.window = (first_row(app, selected, height), height);
    let buffer = frame.buffer_mut();
    draw_titles(buffer, app, area, &columns);
    let rows = app.rows().enumerate().skip(app.window.0);
    for ((at, row), line) in rows.zip(area.rows().skip(1)) {
        draw_row(buffer, app, line, &columns, row, Some(at) == selected);
    }
    if app.rows().len() == 0 {
        let text = match app.stats.lanes.is_empty() {
            true => "no lanes: no job sends through this daemon now".to_owned(),
            false => format!("no lane matches \"{}\": Esc clears the filter", app.filter),
        };
        let below = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(Line::styled(text, style::faint()), below);
    }
}

/// The first row to show: that of last time, unless the selected lane would be outside.
fn first_row(app: &App, selected: Option<usize>, height: usize) -> usize {
    let last = app.rows().len().saturating_sub(height);
    let at = app.window.0.min(last);
    match selected {
        Some(selected) if selected < at => selected,
        Some(selected) if selected >= at + height => selected + 1 - height,
        _ => at,
    }
}

fn draw_titles(buffer: &mut Buffer, app: &App, area: Rect, columns: &[(Column, u16)]) {
    let line = Rect { height: 1, ..area };
    buffer.set_style(line, style::head());
    let mut x = area.x + 1;
    for &(column, width) in columns {
        let mark = match (column == app.sort, app.descending) {
            (false, _) => "",
            (true, true) => "v",
            (true, false) => "^",
        };
        let title = column.title();
        // A column that is full has its mark in the space before it.
        let room = usize::from(width) + 1 - usize::from(x == area.x + 1);
        let text = match column.is_number() {
            true => format!("{:>room$}", format!("{mark}{title}")),
            false => format!("{title}{mark}"),
        };
        let start = match column.is_number() {
            true => x + width - text.len() as u16,
            false => x,
        };
        buffer.set_stringn(start, area.y, text, room, style::head());
        x += width + 1;
    }
}

fn draw_row(
    buffer: &mut Buffer,
    app: &App,
    line: Rect,
    columns: &[(Column, u16)],
    row: Row<'_>,
    is_selected: bool,
) {
    let base = if is_selected { style::selected(app.color) } else { Style::new() };
    buffer.set_style(line, base);
    if is_selected {
        buffer.set_stringn(line.x, line.y, ">", 1, base);
    }
    let mut x = line.x + 1;
    for &(column, width) in columns {
        let text = column.text(row);
        let is_warning = column == Column::Loss && is_above_target(row.lane) && !is_selected;
        let style = if is_warning { style::warning(app.color) } else { base };
        let cells = usize::from(width);
        let text = match column.is_number() {
            true => format!("{text:>cells$}"),
            false => text,
        };
        buffer.set_stringn(x, line.y, text, cells, style);
        x += width + 1;
    }
}
