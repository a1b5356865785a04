//! The selected lane over time: loss and TLR, rate and achieved rate, queue (the curves of
//! NetApprox, Figure 10).

use super::{
    super::{
        app::{App, Sample},
        columns::Column,
        format,
    },
    style,
};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::Style,
    symbols::Marker,
    text::{Line, Span},
    widgets::{Axis, Chart, Dataset, GraphType},
};

/// Values outside of these are no lane's. A line to infinity never ends: ratatui 0.30 draws all of
/// its dots.
const LONGEST_S: f64 = 1e9;
const HIGHEST: f64 = 1e18;

/// Draws three charts, one above the other.
pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let samples: Vec<Sample> =
        app.selected_key().into_iter().flat_map(|key| app.history.of(key)).copied().collect();
    let rows =
        [Constraint::Length(1), Constraint::Fill(3), Constraint::Fill(3), Constraint::Fill(2)];
    let [title, losses, rates, queue] = Layout::vertical(rows).areas(area);
    frame.render_widget(describe(app, &samples), title);
    let Some(last) = samples.last() else { return };
    let end_s = last.at_s;
    let points = |value: &dyn Fn(&Sample) -> Option<f32>| -> Vec<(f64, f64)> {
        let at = |sample: &Sample| Some((sample.at_s - end_s, f64::from(value(sample)?)));
        let is_drawn =
            |(x, y): &(f64, f64)| (-LONGEST_S..=0.0).contains(x) && (0.0..=HIGHEST).contains(y);
        samples.iter().filter_map(at).filter(is_drawn).collect()
    };
    let first_s = samples.iter().map(|sample| sample.at_s - end_s).fold(-10.0, f64::min);
    let start_s = first_s.max(-LONGEST_S);
    let color = app.color;
    let loss = points(&|sample| Some(sample.loss * 100.0));
    let tlr = points(&|sample| Some(sample.tlr * 100.0));
    let top = nice(loss.iter().chain(&tlr).map(|(_, y)| *y).fold(1.0, f64::max));
    Panel { title: "percent", start_s, top, label: &|y| format!("{y:.0}%"), color }.draw(
        frame,
        losses,
        Curve { name: "measured loss", points: &loss },
        Some(Curve { name: "TLR", points: &tlr }),
    );
    let rate = points(&|sample| Some(sample.rate));
    let achieved = points(&|sample| sample.achieved);
    let top = nice(rate.iter().chain(&achieved).map(|(_, y)| *y).fold(1.0, f64::max));
    Panel { title: "rate", start_s, top, label: &|y| format::rate((y / 8.0) as u64), color }.draw(
        frame,
        rates,
        Curve { name: "achieved", points: &achieved },
        Some(Curve { name: "allowed", points: &rate }),
    );
    let of_queue = points(&|sample| Some(sample.queue.into()));
    Panel { title: "queue", start_s, top: 7.0, label: &|y| format!("{y:.0}"), color }.draw(
        frame,
        queue,
        Curve { name: "queue", points: &of_queue },
        None,
    );
}

fn describe(app: &App, samples: &[Sample]) -> Line<'static> {
    let Some((_, row)) = app.selected() else {
        let text = match samples.is_empty() {
            true => "no lane is selected: select one in the table of lanes",
            false => "the lane is closed; these are its last values",
        };
        return Line::raw(text);
    };
    let text = |column: Column| format!("{} {}", column.title(), column.text(row));
    let columns = [Column::Job, Column::Group, Column::Lane, Column::Peer, Column::Process];
    let mut parts: Vec<String> = columns.into_iter().map(text).collect();
    let group = &row.lane.group;
    parts.push(format!(
        "{} of {} delivered, MSR {}",
        format::count(group.delivered.into()),
        format::count(group.messages.into()),
        format::percent(group.msr)
    ));
    Line::styled(parts.join("  "), style::strong())
}

struct Curve<'a> {
    name: &'static str,
    points: &'a [(f64, f64)],
}

struct Panel<'a> {
    title: &'static str,
    start_s: f64,
    top: f64,
    label: &'a dyn Fn(f64) -> String,
    color: bool,
}

impl Panel<'_> {
    /// The first curve is a line, the second one dots: without color they differ as well.
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, first: Curve<'_>, second: Option<Curve<'_>>) {
        // Curves of fewer rows say nothing.
        if area.height < 4 || area.width < 24 {
            return;
        }
        let [head, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        let mut legend = vec![Span::raw(format!("{}: ", self.title))];
        let mut datasets = Vec::new();
        if let Some(second) = second {
            legend.push(Span::styled(format!("• {}  ", second.name), style::second(self.color)));
            datasets.push(
                Dataset::default()
                    .marker(Marker::Dot)
                    .graph_type(GraphType::Scatter)
                    .style(style::second(self.color))
                    .data(second.points),
            );
        }
        legend.push(Span::styled(format!("─ {}", first.name), style::first(self.color)));
        datasets.push(
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(style::first(self.color))
                .data(first.points),
        );
        let seconds = format!("{:.0} s", self.start_s);
        let labels = ["0".to_owned(), (self.label)(self.top / 2.0), (self.label)(self.top)];
        let labels = if body.height < 6 {
            vec![labels[0].clone(), labels[2].clone()]
        } else {
            labels.to_vec()
        };
        let width = labels.iter().map(String::len).max().unwrap_or(0).max(11);
        let labels = labels.into_iter().map(|label| Line::raw(format!("{label:>width$}")));
        let chart = Chart::new(datasets)
            .x_axis(
                Axis::default()
                    .bounds([self.start_s, 0.0])
                    .labels([seconds, "now".to_owned()])
                    .style(Style::new()),
            )
            .y_axis(Axis::default().bounds([0.0, self.top]).labels(labels))
            .legend_position(None);
        frame.render_widget(Line::from(legend), head);
        frame.render_widget(chart, body);
    }
}

/// The next of 1, 2, 5, 10, 20, ... at or above a value.
fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= value * 0.999).unwrap_or(value).max(value)
}
