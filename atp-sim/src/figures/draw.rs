//! Draws a figure as SVG.

use super::{
    Extent, Figure, Series,
    legend::{Area, DASHES, Entry, Failure, LEGEND, legend, style, wrapped},
    palette::look,
};
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
    let title = format!("Figure {}: {}{}", figure.number, figure.title, extent.note());
    let lines = wrapped(&title, SIZE.0 as i32 - 24, TITLE);
    let head = 12 + 22 * lines.len() as i32;
    for (line, y) in lines.into_iter().zip((18..).step_by(22)) {
        area.draw(&Text::new(line, (12, y), style(TITLE, HPos::Left)))?;
    }
    let (_, below) = area.split_vertically(head);
    let (left, right) = below.split_horizontally(SIZE.0 as i32 - LEGEND);
    let entries: Vec<Entry> = series.iter().map(entry).collect();
    legend(&right, 20, &entries)?;
    let cells = || series.iter().flat_map(|series| &series.cells);
    let (from, to) = bounds(cells().map(|cell| cell.x))
        .ok_or("all cells have the same position on the horizontal axis")?;
    let means = || cells().filter_map(|cell| cell.mean);
    let (least, most) = bounds(means()).unwrap_or((0.0, 1.0));
    let mut chart = ChartBuilder::on(&left);
    chart.margin(12).x_label_area_size(36).y_label_area_size(72);
    if least > 0.0 && most / least > LINEAR_MAX {
        let range = (least / 1.3..most * 1.3).log_scale();
        let y_label = format!("{} (logarithmic)", figure.metric.label());
        lines_of(chart.build_cartesian_2d(from..to, range)?, figure.axis, &y_label, series)
    } else {
        let range = 0.0..(most * 1.05).max(1e-9);
        let chart = chart.build_cartesian_2d(from..to, range)?;
        lines_of(chart, figure.axis, figure.metric.label(), series)
    }
}

fn lines_of<Y: Ranged<ValueType = f64> + ValueFormatter<f64>>(
    mut chart: ChartContext<'_, SVGBackend<'_>, Cartesian2d<RangedCoordf64, Y>>,
    x_label: &str,
    y_label: &str,
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
        let points: Vec<(f64, f64)> =
            series.cells.iter().filter_map(|cell| Some((cell.x, cell.mean?))).collect();
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

/// The legend's entry of a series. It counts the cells without a mean, because the line does not
/// show them.
fn entry(series: &Series) -> Entry {
    let look = look(&series.scheme);
    let missing = series.cells.iter().filter(|cell| cell.mean.is_none()).count();
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
    use crate::figures::{Cell, figure};

    fn series(scheme: &str, means: [Option<f64>; 3]) -> Series {
        let cell = |(x, mean)| Cell {
            scheme: scheme.to_owned(),
            x,
            mean,
            least: mean,
            most: mean,
            seeds: 1,
            jobs: 9,
            jobs_complete: 9,
            messages_undelivered: 0.0,
            packets_dropped: 0.0,
            queue_mean_bytes: 0.0,
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
