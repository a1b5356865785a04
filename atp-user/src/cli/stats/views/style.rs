//! Styles. Color only repeats what a text, a mark or a modifier says as well.

use ratatui::style::{Color, Modifier, Style};

pub const fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

pub const fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// The head of a table.
pub const fn head() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

pub const fn cursor() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// The selected row. It is also marked with `>`.
pub const fn selected(color: bool) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if color { style.fg(Color::Black).bg(Color::Cyan) } else { style }
}

pub const fn warning(color: bool) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if color { style.fg(Color::Red) } else { style }
}

/// The first curve of a chart.
pub const fn first(color: bool) -> Style {
    if color { Style::new().fg(Color::Cyan) } else { Style::new() }
}

/// The second curve of a chart.
pub const fn second(color: bool) -> Style {
    if color { Style::new().fg(Color::Yellow) } else { Style::new() }
}
