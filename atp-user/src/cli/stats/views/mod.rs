//! Draws the screen: a head of two lines, a view, and a line of hints.

mod chart;
mod datapath;
mod lanes;

use super::{
    app::{App, View},
    format,
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
};

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    app.settle();
    let rows = [Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    draw_head(frame, app, head);
    match app.view {
        _ if app.help => help::draw(frame, app, body),
        View::Lanes => lanes::draw(frame, app, body),
        View::Chart => chart::draw(frame, app, body),
        View::Datapath => datapath::draw(frame, app, body),
        View::Jobs => jobs::draw(frame, app, body),
    }
    draw_foot(frame, app, foot);
}

/// The names of the views, and below them the sums of all lanes or what is wrong.
fn draw_head(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let [first, second] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let mut views = vec![Span::styled("ATP", style::strong())];
    for (number, (view, name)) in View::ALL.iter().enumerate() {
        let text = format!("{} {name}", number + 1);
        views.push(match *view == app.view {
            true => Span::styled(format!(" [{text}]"), style::strong()),
            false => Span::raw(format!("  {text} ")),
        });
    }
    if app.paused {
        views.push(Span::styled("  PAUSED", style::warning(app.color)));
    }
    frame.render_widget(Line::from(views), first);
    frame.render_widget(summary(app), second);
}

fn summary(app: &App) -> Line<'static> {
    if let Some(trouble) = &app.trouble {
        return Line::styled(trouble.clone(), style::warning(app.color));
    }
    let stats = &app.stats;
    Line::raw(format!(
        "{}, {} sent | {} allowed | {} law, {} | up {}",
        plural(stats.lanes.len(), "lane"),
        format::rates(stats.lanes.iter().map(|lane| lane.achieved_bytes_per_s)),
        format::rates(stats.lanes.iter().map(|lane| Some(lane.rate_bytes_per_s))),
        stats.law,
        stats.pacing,
        format::duration(stats.uptime_s),
    ))
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn draw_foot(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let line = match app.view {
        _ if app.typing => Line::from(vec![
            Span::styled("filter: ", style::strong()),
            Span::raw(app.filter.clone()),
            Span::styled(" ", style::cursor()),
            Span::styled("  Enter keeps it, Esc clears it", style::faint()),
        ]),
        _ if app.help => Line::raw("?:close  q:close  Up/Down:scroll"),
        View::Lanes => Line::raw(
            "q:quit ?:help /:filter s:sort r:reverse Enter:chart p:pause Tab:view Up/Down:select",
        ),
        View::Chart => Line::raw("q:quit ?:help Esc:lanes Up/Down:other lane p:pause Tab:view"),
        View::Datapath | View::Jobs => {
            Line::raw("q:quit ?:help Esc:lanes p:pause Tab:view Up/Down:scroll")
        }
    };
    frame.render_widget(line, area);
}

/// Draws lines, scrolled as far as the user asked and the lines reach.
fn draw_lines(frame: &mut Frame<'_>, app: &mut App, area: Rect, lines: Vec<Line<'_>>) {
    let hidden = lines.len().saturating_sub(usize::from(area.height));
    app.scroll = app.scroll.min(hidden as u16);
    app.window = (usize::from(app.scroll), usize::from(area.height));
    let visible = lines.into_iter().skip(usize::from(app.scroll));
    for (line, row) in visible.zip(area.rows()) {
        frame.render_widget(line, row);
    }
    let more = hidden - usize::from(app.scroll);
    if more > 0 && area.height > 1 {
        let text = format!(" {more} more below ");
        let width = (text.len() as u16).min(area.width);
        let at = Rect::new(area.right() - width, area.bottom() - 1, width, 1);
        frame.render_widget(Line::styled(text, style::head()), at);
    }
}

/// The help: keys and columns.
mod help {
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
}

/// The page of jobs.
mod jobs {
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
        let own = || lanes.iter().filter(|lane| lane.is_of(job));
        let cgroup =
            job.cgroup.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string());
        Line::raw(format!(
            "{:>10} {:<16} {:>6} {:>7} {:>5} {:>11} {:>11} {cgroup}",
            job.id,
            job.name.as_deref().unwrap_or("-"),
            job.user().to_string(),
            job.flows,
            own().count(),
            format::rates(own().map(|lane| Some(lane.rate_bytes_per_s))),
            format::rates(own().map(|lane| lane.achieved_bytes_per_s)),
        ))
    }
}

/// Styles. Color only repeats what a text, a mark or a modifier says as well.
mod style {
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
}
