//! Draws a figure as SVG.

use super::{
    Cell, Extent, Figure, Measured, Metric, Series,
    legend::{Area, DASHES, Entry, Failure, LEGEND, legend, style, wrapped},
    palette::look,
    sweep::USUAL_REFERENCE,
};
use crate::statistics::Estimate;
use plotters::{
    coord::{
        ranged1d::{Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::HPos,
};

/// The size of the drawing, pixels.
const SIZE: (u32, u32) = (900, 470);
const TITLE: i32 = 16;
/// The axis is logarithmic if the greatest value exceeds the least by more than this factor.
const LINEAR_MAX: f64 = 50.0;
/// The width of an error bar's ends, pixels.
const ERROR_BAR_WIDTH: u32 = 6;

/// Draws the figure.
///
/// # Errors
/// If the figure cannot be drawn.
pub(super) fn svg(figure: &Figure, extent: Extent, series: &[Series]) -> Result<String, String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    draw(&area, figure, extent, series).map_err(|error| error.to_string())?;
    area.present().map_err(|error| error.to_string())?;
    drop(area);
    Ok(text)
}

fn draw(
    area: &Area<'_>,
    figure: &Figure,
    extent: Extent,
    series: &[Series],
) -> Result<(), Failure> {
    area.fill(&WHITE)?;
    let (number, title) = (figure.number, &figure.title);
    let title = format!("Figure {number}: {title}{}{}", extent.note(), interval_note(series));
    let lines = wrapped(&title, SIZE.0 as i32 - 24, TITLE);
    let head = 12 + 22 * lines.len() as i32;
    for (line, y) in lines.into_iter().zip((18..).step_by(22)) {
        area.draw(&Text::new(line, (12, y), style(TITLE, HPos::Left)))?;
    }
    let (_, below) = area.split_vertically(head);
    let (left, right) = below.split_horizontally(SIZE.0 as i32 - LEGEND);
    let entries: Vec<Entry> = series.iter().map(|series| entry(series, figure.metric)).collect();
    legend(&right, 20, &entries)?;
    chart(&left, figure.axis, Quantity::value(figure.metric), series)
}

/// The quantity of a cell that a chart shows.
#[derive(Clone, Copy)]
pub(super) struct Quantity {
    metric: Metric,
    /// Whether the chart shows the ratio to the figure's reference.
    is_ratio: bool,
}

impl Quantity {
    pub(super) const fn value(metric: Metric) -> Self {
        Self { metric, is_ratio: false }
    }

    pub(super) const fn ratio(metric: Metric) -> Self {
        Self { metric, is_ratio: true }
    }

    /// Shares are in percent.
    pub(super) fn of(self, cell: &Cell) -> Option<Estimate> {
        let Measured { value, ratio } = cell.measured(self.metric);
        match self.is_ratio {
            true => ratio,
            false => value.map(|value| self.metric.shown(&value)),
        }
    }

    /// The label of the vertical axis.
    fn label(self) -> String {
        let label = self.metric.label();
        if !self.is_ratio {
            return label.to_owned();
        }
        let quantity = label.split_once(" [").map_or(label, |(quantity, _)| quantity);
        format!("{quantity} / {USUAL_REFERENCE}'s")
    }
}

/// Draws one quantity of all series. The vertical axis of ratios doesn't begin at 0, because most
/// ratios are near 1.
pub(super) fn chart(
    area: &Area<'_>,
    axis: &str,
    quantity: Quantity,
    series: &[Series],
) -> Result<(), Failure> {
    let cells = || series.iter().flat_map(|series| &series.cells);
    let (from, to) = bounds(cells().map(|cell| cell.x))
        .ok_or("all cells have the same position on the horizontal axis")?;
    let values = || cells().filter_map(|cell| quantity.of(cell));
    let (least, most) = bounds(values().map(|value| value.mean)).unwrap_or((0.0, 1.0));
    let lowest = values().map(|value| value.low()).fold(least, f64::min);
    let most = values().map(|value| value.high()).fold(most, f64::max);
    let label = quantity.label();
    let mut chart = ChartBuilder::on(area);
    chart.margin(12).x_label_area_size(36).y_label_area_size(72);
    if least > 0.0 && most / least > LINEAR_MAX {
        let range = (least / 1.3..most * 1.3).log_scale();
        let y_label = format!("{label} (logarithmic)");
        let chart = chart.build_cartesian_2d(from..to, range)?;
        lines_of(chart, [axis, &y_label], quantity, least / 1.3, series)
    } else {
        let bottom = if quantity.is_ratio { 0.95 * lowest } else { 0.0 };
        let range = bottom..(most * 1.05).max(1e-9);
        let chart = chart.build_cartesian_2d(from..to, range)?;
        lines_of(chart, [axis, &label], quantity, bottom, series)
    }
}

fn lines_of<Y: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    mut chart: ChartContext<'_, SVGBackend<'_>, Cartesian2d<RangedCoordf64, Y>>,
    [x_label, y_label]: [&str; 2],
    quantity: Quantity,
    bottom: f64,
    series: &[Series],
) -> Result<(), Failure> {
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .y_label_formatter(&thousands)
        .max_light_lines(1)
        .draw()?;
    for series in series {
        let look = look(&series.scheme);
        let values: Vec<(f64, Estimate)> =
            series.cells.iter().filter_map(|cell| Some((cell.x, quantity.of(cell)?))).collect();
        let points: Vec<(f64, f64)> = values.iter().map(|(x, value)| (*x, value.mean)).collect();
        let bar = |(x, value): &(f64, Estimate)| {
            let (low, high) = (value.low().max(bottom), value.high());
            let style = look.color.stroke_width(1);
            value
                .half_width_95
                .map(|_| ErrorBar::new_vertical(*x, low, value.mean, high, style, ERROR_BAR_WIDTH))
        };
        chart.draw_series(values.iter().filter_map(bar))?;
        let stroke = look.color.stroke_width(2);
        if look.is_dashed {
            let line = points.iter().copied();
            chart.draw_series(DashedLineSeries::new(line, DASHES.0, DASHES.1, stroke))?;
        } else {
            chart.draw_series(LineSeries::new(points.iter().copied(), stroke))?;
        }
        let of_point =
            if look.is_dashed { look.color.stroke_width(1) } else { look.color.filled() };
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, of_point)))?;
    }
    Ok(())
}

/// The number of seeds and the meaning of the error bars, for the title.
pub(super) fn interval_note(series: &[Series]) -> String {
    match series.iter().flat_map(|series| &series.cells).map(|cell| cell.seeds).max() {
        None | Some(0 | 1) => "; one seed".to_owned(),
        Some(seeds) => format!("; means of {seeds} seeds with 95 % intervals"),
    }
}

/// The legend's entry of a series. It counts the cells without a mean, because the line does not
/// show them.
pub(super) fn entry(series: &Series, metric: Metric) -> Entry {
    let look = look(&series.scheme);
    let missing = series.cells.iter().filter(|cell| cell.measured(metric).value.is_none()).count();
    let name = match missing {
        0 => series.scheme.clone(),
        _ => format!("{} ({missing} of {} missing)", series.scheme, series.cells.len()),
    };
    Entry { name, color: look.color, is_dashed: look.is_dashed }
}

fn bounds(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    (least < most).then_some((least, most))
}

/// Formats a label without trailing zeros.
fn thousands(value: &f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded >= 10_000.0 { format!("{} k", rounded / 1e3) } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figure;

    fn series(scheme: &str, means: [Option<f64>; 3]) -> Series {
        let cell = |(x, mean): (f64, Option<f64>)| {
            let value = mean.map(|mean| Estimate {
                mean,
                half_width_95: Some(mean / 10.0),
                least: mean,
                most: mean,
            });
            Cell {
                scheme: scheme.to_owned(),
                x,
                seeds: 3,
                jobs: 9,
                jobs_complete: 9,
                measured: [(Metric::QueueBytes, Measured { value, ratio: None })].into(),
            }
        };
        let cells = [0.5, 0.7, 0.9].into_iter().zip(means).map(cell).collect();
        Series { scheme: scheme.to_owned(), cells }
    }

    fn drawn(series: &[Series]) -> String {
        svg(&figure(7, Extent::Quick).unwrap(), Extent::Quick, series).unwrap()
    }

    #[test]
    fn svg__uses_a_logarithmic_axis_for_a_wide_range() {
        let near = series("dctcp-es", [Some(10.0), Some(20.0), Some(30.0)]);
        let far = series("udp", [Some(9e4), Some(9e4), Some(9e4)]);
        assert!(!drawn(std::slice::from_ref(&near)).contains("logarithmic"));
        assert!(drawn(&[near, far]).contains("logarithmic"));
        let with_zero = series("udp", [Some(0.0), Some(9e4), None]);
        let text = drawn(&[with_zero]);
        assert!(!text.contains("logarithmic") && text.contains("1 of 3"));
    }

    #[test]
    fn svg__draws_a_figure_without_means() {
        let text = drawn(&[series("udp", [None, None, None])]);
        assert!(text.contains("3 of 3") && text.contains("quick"));
    }

    /// A bar has three lines in the color of its series: the interval and its two ends.
    #[test]
    fn svg__draws_the_intervals() {
        let colored = |means| {
            let text = drawn(&[series("dctcp-es", means)]);
            assert!(text.contains("3 seeds with 95 % intervals"), "{text}");
            let is_bar = |line: &&str| line.starts_with("<line") && line.contains("#D55E00");
            text.lines().filter(is_bar).count()
        };
        assert_eq!(colored([Some(9.0), Some(9.5), None]), 6);
        assert_eq!(colored([Some(9.0), Some(9.5), Some(9.9)]), 9);
    }

    /// The legend is to the right of all plotted points.
    #[test]
    fn svg__the_legend_is_beside_the_data() {
        let text = drawn(&[series("aeolus-ss", [Some(1.0), Some(2.0), Some(3.0)])]);
        let x_of = |line: &str| {
            let from = line.split("cx=\"").nth(1)?;
            from.split('"').next()?.parse::<i32>().ok()
        };
        let rightmost = text.lines().filter_map(x_of).max().unwrap();
        assert!(rightmost < SIZE.0 as i32 - LEGEND, "{rightmost}");
    }
}
