//! Draws a map as SVG: a panel per measure, with a colored field per cell.

use super::{Cell, Comparison, MapResult, Measure};
use crate::figures::{
    Extent,
    legend::{Area, Failure, style, wrapped},
};
use plotters::{prelude::*, style::text_anchor::HPos};

/// The size of a field, pixels.
const FIELD: (i32, i32) = (62, 34);
const MARGIN_LEFT: i32 = 96;
const MARGIN_RIGHT: i32 = 16;
const MARGIN_TOP: i32 = 34;
const MARGIN_BOTTOM: i32 = 44;
const TITLE: i32 = 17;
const SMALL: i32 = 12;
/// The space between lines.
const LEADING: i32 = 8;
const PANELS_ACROSS: usize = 3;

/// Draws the map.
///
/// # Errors
/// If the backend fails.
pub(super) fn svg(
    drawn: &MapResult,
    pair: Comparison,
    extent: Extent,
    seeds: u64,
) -> Result<String, String> {
    let grid = Grid::of(drawn);
    let (width, height) = grid.panel();
    let rows = Measure::ALL.len().div_ceil(PANELS_ACROSS);
    let width = width * PANELS_ACROSS as i32;
    let head = Head::new(drawn, pair, extent, seeds, width);
    let size = (width as u32, (head.height() + height * rows as i32) as u32);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&area, &head, &grid, drawn, pair).map_err(|error| error.to_string())?;
    area.present().map_err(|error| error.to_string())?;
    drop(area);
    Ok(text)
}

/// The title and caption above the panels.
struct Head {
    title: Vec<String>,
    rest: Vec<String>,
}

impl Head {
    fn new(drawn: &MapResult, pair: Comparison, extent: Extent, seeds: u64, width: i32) -> Self {
        let Comparison { scheme, against } = pair;
        let (across, up) = (drawn.map.x_axis.label(), drawn.map.y_axis.label());
        let title = format!("{scheme} against {against}: {across} and {up}{}", extent.note());
        let base = &drawn.base;
        let seeds = match seeds {
            1 => "One seed.".to_owned(),
            _ => format!("Means of {seeds} seeds; below a ratio, ± half of its 95 % interval."),
        };
        let rest = format!(
            "Blue: {scheme} is faster; orange: {against} is. {seeds} Parameters that are not varied: load {}, \
             {} senders per receiver, {}, MSR {}, share of exact hosts {}, buffer {} kB.",
            base.load,
            base.fan_in,
            base.messages(),
            base.msr,
            base.exact_share,
            base.buffer_bytes / 1_000
        );
        let width = width - 32;
        Self { title: wrapped(&title, width, TITLE), rest: wrapped(&rest, width, SMALL) }
    }

    fn height(&self) -> i32 {
        self.lines().map(|(_, size)| size + LEADING).sum::<i32>() + 20
    }

    fn lines(&self) -> impl Iterator<Item = (&String, i32)> {
        let title = self.title.iter().map(|line| (line, TITLE));
        title.chain(self.rest.iter().map(|line| (line, SMALL)))
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let mut y = 14;
        for (line, size) in self.lines() {
            area.draw(&Text::new(line.clone(), (16, y), style(size, HPos::Left)))?;
            y += size + LEADING;
        }
        Ok(())
    }
}

fn draw(
    area: &Area<'_>,
    head: &Head,
    grid: &Grid,
    drawn: &MapResult,
    pair: Comparison,
) -> Result<(), Failure> {
    area.fill(&WHITE)?;
    head.draw(area)?;
    let (width, height) = grid.panel();
    for (number, measure) in Measure::ALL.into_iter().enumerate() {
        let (row, column) = (number / PANELS_ACROSS, number % PANELS_ACROSS);
        let corner = (column as i32 * width, head.height() + row as i32 * height);
        panel(area, corner, grid, drawn, measure, &title_of(measure, pair))?;
    }
    Ok(())
}

fn title_of(measure: Measure, Comparison { scheme, against }: Comparison) -> String {
    match measure {
        Measure::Completion => "mean completion, ratio".to_owned(),
        Measure::Slowest => "slowest job's completion, ratio".to_owned(),
        Measure::ExactP99 => "exact messages' p99, ratio".to_owned(),
        Measure::Wasted => format!("wasted by {scheme} [%]"),
        Measure::WastedAgainst => format!("wasted by {against} [%]"),
        Measure::DroppedUpstream => format!("{scheme}: dropped after a link between switches [%]"),
    }
}

/// The positions of a map's cells.
struct Grid {
    xs: Vec<f64>,
    ys: Vec<f64>,
}

impl Grid {
    fn of(drawn: &MapResult) -> Self {
        let positions = |of: fn(&Cell) -> f64| {
            let mut positions: Vec<f64> = drawn.cells.iter().map(of).collect();
            positions.sort_by(f64::total_cmp);
            positions.dedup();
            positions
        };
        Self { xs: positions(|cell| cell.x), ys: positions(|cell| cell.y) }
    }

    /// The size of a panel.
    fn panel(&self) -> (i32, i32) {
        // Three fields would be narrower than the titles.
        let fields = self.xs.len().max(4) as i32;
        (
            MARGIN_LEFT + fields * FIELD.0 + MARGIN_RIGHT,
            MARGIN_TOP + self.ys.len() as i32 * FIELD.1 + MARGIN_BOTTOM,
        )
    }

    /// The upper left corner of a field.
    fn corner(&self, column: usize, row_from_below: usize) -> (i32, i32) {
        let row = self.ys.len() - 1 - row_from_below;
        (MARGIN_LEFT + column as i32 * FIELD.0, MARGIN_TOP + row as i32 * FIELD.1)
    }
}

fn panel(
    area: &Area<'_>,
    (left, top): (i32, i32),
    grid: &Grid,
    drawn: &MapResult,
    measure: Measure,
    title: &str,
) -> Result<(), Failure> {
    let at = |(x, y): (i32, i32)| (left + x, top + y);
    let lines = wrapped(title, grid.panel().0 - MARGIN_LEFT, 13);
    // Stack the lines upwards from the fields.
    for (line, above) in lines.iter().rev().zip((0..).step_by(14)) {
        let corner = at((MARGIN_LEFT, MARGIN_TOP - 12 - above));
        area.draw(&Text::new(line.clone(), corner, style(13, HPos::Left)))?;
    }
    for cell in &drawn.cells {
        let column = grid.xs.iter().position(|x| *x == cell.x).unwrap_or(0);
        let row = grid.ys.iter().position(|y| *y == cell.y).unwrap_or(0);
        let (x, y) = at(grid.corner(column, row));
        let value = measure.of(cell);
        let field = [(x, y), (x + FIELD.0 - 2, y + FIELD.1 - 2)];
        area.draw(&Rectangle::new(field, color(measure, value).filled()))?;
        let middle = |below| (x + FIELD.0 / 2, y + FIELD.1 / 2 + below);
        let half_width = measure.ratio(cell).and_then(|ratio| ratio.half_width_95);
        let (above, below) = if half_width.is_some() { (-8, 8) } else { (0, 0) };
        area.draw(&Text::new(text(measure, value), middle(above), style(13, HPos::Center)))?;
        if let Some(half_width) = half_width {
            let text = format!("±{half_width:.2}");
            area.draw(&Text::new(text, middle(below), style(10, HPos::Center)))?;
        }
    }
    let bottom = MARGIN_TOP + grid.ys.len() as i32 * FIELD.1;
    for (column, x) in grid.xs.iter().enumerate() {
        let middle = at((MARGIN_LEFT + column as i32 * FIELD.0 + FIELD.0 / 2, bottom + 8));
        area.draw(&Text::new(drawn.map.x_axis.text(*x), middle, style(12, HPos::Center)))?;
    }
    for (row, y) in grid.ys.iter().enumerate() {
        let (_, field_top) = grid.corner(0, row);
        let middle = at((MARGIN_LEFT - 6, field_top + FIELD.1 / 2));
        area.draw(&Text::new(drawn.map.y_axis.text(*y), middle, style(12, HPos::Right)))?;
    }
    let below = at((MARGIN_LEFT + grid.xs.len() as i32 * FIELD.0 / 2, bottom + 26));
    area.draw(&Text::new(drawn.map.x_axis.label(), below, style(12, HPos::Center)))?;
    let beside = at((20, MARGIN_TOP + grid.ys.len() as i32 * FIELD.1 / 2));
    let rotated = style(12, HPos::Center).transform(FontTransform::Rotate270);
    area.draw(&Text::new(drawn.map.y_axis.label(), beside, rotated))?;
    Ok(())
}

/// The text of a field.
pub(super) fn text(measure: Measure, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if measure.is_ratio() => format!("{value:.2}"),
        Some(value) => format!("{:.1}", value * 100.0),
    }
}

/// The color of a value. Ratios are logarithmic: 0.5 and below is blue, 1 white, 2 and above
/// orange. Shares go from white at 0 to gray at 0.5 and above.
fn color(measure: Measure, value: Option<f64>) -> RGBColor {
    const BLUE: RGBColor = RGBColor(86, 140, 214);
    const ORANGE: RGBColor = RGBColor(240, 150, 60);
    const GRAY: RGBColor = RGBColor(150, 150, 150);
    let Some(value) = value else { return RGBColor(230, 230, 230) };
    let (full, depth) = match measure.is_ratio() {
        false => (GRAY, value * 2.0),
        true if value < 1.0 => (BLUE, -libm::log2(value)),
        true => (ORANGE, libm::log2(value)),
    };
    let depth = depth.clamp(0.0, 1.0);
    let mixed = |part: u8| (255.0 + (f64::from(part) - 255.0) * depth).round() as u8;
    RGBColor(mixed(full.0), mixed(full.1), mixed(full.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color__is_white_at_1_and_symmetric_in_the_logarithm() {
        assert_eq!(color(Measure::Completion, Some(1.0)), WHITE);
        assert_eq!(color(Measure::Wasted, Some(0.0)), WHITE);
        let full = |value| color(Measure::Completion, Some(value));
        assert_eq!((full(0.5), full(2.0)), (full(0.1), full(9.0)));
        assert_ne!(full(0.9), full(1.0 / 0.9));
        assert!(full(0.8).0 < full(0.9).0 && full(1.2).2 > full(1.4).2);
    }
}
