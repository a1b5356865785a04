//! The picture of trainings, as SVG: accuracy over training time, a panel for each table. A flag
//! above a panel names a scheme, and stands at the time when it reached the target.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::row::TARGET_ACCURACY;
use super::scheme::SCHEMES;
use crate::chart::{
    Area, BLUE, Failure, GRAY, GREEN, LIGHT, ORANGE, PURPLE, SKY, TEXT, VERMILION, WIDTH, style,
    svg_of_bands, write, write_title,
};

const COLUMNS: usize = 2;
const PLOT_HEIGHT: u32 = 280;
/// The height of a row of flags.
const ROW: i32 = 20;
const TITLE_HEIGHT: i32 = 34;
/// Room for the labels of the axes.
const LEFT: i32 = 84;
const BELOW: i32 = 52;
const RIGHT: i32 = 20;
/// The width of a letter of this size, generously.
const LETTER: f64 = 7.6;
const ACCURACY_MIN: f64 = 70.0;
/// In the order of the schemes.
const COLORS: [RGBColor; SCHEMES.len()] = [
    GRAY,
    BLACK,
    ORANGE,
    VERMILION,
    BLUE,
    SKY,
    GREEN,
    PURPLE,
    RGBColor(120, 80, 40),
    RGBColor(110, 60, 160),
];

/// A panel: the schemes of one table.
pub struct Panel {
    pub title: String,
    pub curves: Vec<Curve>,
}

/// A scheme's accuracy.
pub struct Curve {
    pub scheme: String,
    /// Training time in seconds, accuracy from 0 to 1.
    pub points: Vec<(f64, f64)>,
    pub to_target_s: Option<f64>,
}

/// A scheme's name above a panel.
struct Flag {
    /// The place of its pole, pixels.
    x: i32,
    text: String,
    color: RGBColor,
    has_reached: bool,
    /// 0 is next to the plot.
    row: i32,
    /// Whether the text stands to the left of the pole.
    is_left: bool,
}

/// Draws the panels.
///
/// # Errors
/// The drawing library failed.
pub fn svg(panels: &[Panel]) -> Result<String> {
    let columns = COLUMNS.min(panels.len()).max(1);
    let width = WIDTH / columns as u32;
    let rows: Vec<_> = panels.chunks(columns).map(|panels| row(panels, width)).collect();
    svg_of_bands(&rows, |area, flagged| {
        let parts = area.split_evenly((1, columns));
        flagged.iter().zip(parts).try_for_each(|((panel, flags), part)| panel.draw(&part, flags))
    })
}

/// A row of panels with their flags, and its height.
fn row(panels: &[Panel], width: u32) -> (u32, Vec<(&Panel, Vec<Flag>)>) {
    let flagged: Vec<_> = panels.iter().map(|panel| (panel, panel.flags(width))).collect();
    let flags = flagged.iter().flat_map(|(_, flags)| flags);
    let flag_rows = flags.map(|flag| flag.row + 1).max().unwrap_or(0);
    (PLOT_HEIGHT + (TITLE_HEIGHT + ROW * flag_rows) as u32, flagged)
}

impl Panel {
    fn seconds_max(&self) -> f64 {
        let ends = self.curves.iter().filter_map(|curve| curve.points.last());
        ends.map(|point| point.0).fold(0.0, f64::max).max(0.1) * 1.02
    }

    /// The flags, each in a row in which it hides no other one and no pole.
    fn flags(&self, width: u32) -> Vec<Flag> {
        let plot = f64::from(width as i32 - LEFT - RIGHT);
        let place = |seconds: f64| LEFT + (plot * seconds / self.seconds_max()) as i32;
        let mut flags: Vec<Flag> = Vec::new();
        for curve in &self.curves {
            let Some(&(end, _)) = curve.points.last() else { continue };
            let (seconds, text) = match curve.to_target_s {
                Some(seconds) => (seconds, format!("{} {seconds:.1} s", curve.scheme)),
                None => (end, format!("{} never", curve.scheme)),
            };
            let (x, text_width) = (place(seconds), text_width(&text));
            flags.push(Flag {
                x,
                is_left: x + text_width > width as i32,
                text,
                color: color(&curve.scheme),
                has_reached: curve.to_target_s.is_some(),
                row: 0,
            });
        }
        // From the right: a pole to the left of a text then passes beside it.
        flags.sort_by_key(|flag| -flag.x);
        for at in 0..flags.len() {
            let (placed, rest) = flags.split_at_mut(at);
            let flag = &mut rest[0];
            let (from, to) = flag.range();
            let hidden = placed.iter().filter(|other| {
                let (other_from, other_to) = other.range();
                from.min(flag.x) < other_to.max(other.x) && other_from.min(other.x) < to.max(flag.x)
            });
            flag.row = hidden.map(|other| other.row + 1).max().unwrap_or(0);
        }
        flags
    }

    fn draw(&self, area: &Area<'_>, flags: &[Flag]) -> Result<(), Failure> {
        let (_, height) = area.dim_in_pixel();
        let bottom = height as i32 - BELOW;
        let top = height as i32 - PLOT_HEIGHT as i32 + 8;
        write_title(area, &self.title, (16, 8))?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(top)
            .margin_right(RIGHT)
            .x_label_area_size(BELOW)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.0..self.seconds_max(), ACCURACY_MIN..100.0)?;
        chart
            .configure_mesh()
            .x_desc("training time, s")
            .y_desc("accuracy")
            .x_label_formatter(&|seconds| format!("{seconds}"))
            .y_label_formatter(&|percent| format!("{percent:.0} %"))
            .x_labels(8)
            .y_labels(6)
            .max_light_lines(0)
            .bold_line_style(LIGHT)
            .axis_style(GRAY)
            .label_style(style(TEXT, &BLACK, HPos::Left))
            .axis_desc_style(style(TEXT, &BLACK, HPos::Left))
            .draw()?;
        let target = 100.0 * TARGET_ACCURACY;
        let dashes = [(0.0, target), (self.seconds_max(), target)];
        chart.draw_series(DashedLineSeries::new(dashes, 5, 4, GRAY.stroke_width(1)))?;
        for curve in &self.curves {
            let points = curve.points.iter().map(|&(s, share)| (s, 100.0 * share));
            let inside = points.filter(|point| point.1 >= ACCURACY_MIN);
            chart.draw_series(LineSeries::new(inside, color(&curve.scheme).stroke_width(2)))?;
        }
        let plot = f64::from(bottom - top);
        let at_target = top + (plot * (100.0 - target) / (100.0 - ACCURACY_MIN)) as i32;
        let y = |flag: &Flag| top - 4 - ROW * (flag.row + 1);
        for flag in flags {
            let y = y(flag);
            let pole = vec![(flag.x, y + 3), (flag.x, at_target)];
            area.draw(&PathElement::new(pole, flag.color.stroke_width(1)))?;
            if flag.has_reached {
                area.draw(&Circle::new((flag.x, at_target), 4, flag.color.filled()))?;
            }
        }
        for flag in flags {
            let (y, (from, to)) = (y(flag), flag.range());
            // A pole of another flag may pass behind.
            area.draw(&Rectangle::new([(from + 1, y), (to - 1, y + ROW - 2)], WHITE.filled()))?;
            let (side, x) = if flag.is_left { (HPos::Right, -5) } else { (HPos::Left, 5) };
            write(area, &flag.text, (flag.x + x, y), side)?;
        }
        Ok(())
    }
}

impl Flag {
    /// The horizontal range of the text.
    fn range(&self) -> (i32, i32) {
        let width = text_width(&self.text);
        if self.is_left { (self.x - width, self.x) } else { (self.x, self.x + width) }
    }
}

fn text_width(text: &str) -> i32 {
    (LETTER * text.len() as f64) as i32 + 8
}

fn color(scheme: &str) -> RGBColor {
    let at = SCHEMES.iter().position(|known| known.name == scheme).unwrap_or(0);
    COLORS[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(scheme: &str, seconds: f64, to_target_s: Option<f64>) -> Curve {
        let points = vec![(seconds / 2.0, 0.5), (seconds, 0.97)];
        Curve { scheme: scheme.to_owned(), points, to_target_s }
    }

    fn panel(curves: Vec<Curve>) -> Panel {
        Panel { title: "a training".to_owned(), curves }
    }

    #[test]
    fn flags__hide_no_other_one() {
        let near = |at: f64| curve("atp-fp16-magnitude", 30.0, Some(at));
        let panel = panel(vec![near(9.0), near(10.0), near(12.0), near(28.0)]);
        let flags = panel.flags(1_000);
        let rows: Vec<i32> = flags.iter().map(|flag| flag.row).collect();
        assert_eq!(rows, [0, 0, 1, 2], "from the right");
        assert!(flags[0].is_left && !flags[1].is_left);
    }

    #[test]
    fn svg__names_every_scheme_with_its_time() {
        let svg = svg(&[
            panel(vec![curve("gloo", 9.0, Some(4.25)), curve("atp", 3.0, None)]),
            panel(Vec::new()),
            panel(vec![curve("gloo", 9.0, Some(5.0))]),
        ])
        .unwrap();
        for text in ["gloo 4.2 s", "atp never", "gloo 5.0 s", "a training"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
