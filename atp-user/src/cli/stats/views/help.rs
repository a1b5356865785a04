//! The help: keys and columns.

use super::{
    super::{app::App, columns::Column, input::KEYS},
    draw_lines, style,
};
use ratatui::{Frame, layout::Rect, text::Line};

/// Draws the help.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut lines = vec![Line::styled("KEYS", style::head())];
    lines.extend(KEYS.map(|(keys, meaning)| Line::raw(format!("{keys:<14} {meaning}"))));
    lines.push(Line::styled("COLUMNS", style::head()));
    let describe = |column: Column| format!("{:<14} {}", column.title(), column.meaning());
    lines.extend(Column::ALL.map(|column| Line::raw(describe(column))));
    draw_lines(frame, app, area, lines);
}
