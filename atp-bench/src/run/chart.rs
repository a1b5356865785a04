//! The picture of the main job, as SVG. The left half shows each scheme's completion time and the
//! ideal; the right half shows the distribution of exact request times, by scheme and alone.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::chart::{
    self, Area, BLUE, Failure, GRAY, GREEN, LIGHT, ORANGE, PURPLE, SKY, TEXT, VERMILION, style,
    write, write_title,
};
use crate::job::scheme_name::SchemeName;

/// The height in pixels.
const HEIGHT: u32 = 490;
const LEFT: i32 = 450;
/// The height of a row of the legend. The legend stands above the plot, so that it hides no curve.
const LEGEND_ROW: i32 = 22;
/// The number of points of a distribution's line.
const STEPS: usize = 400;
const DARK: RGBColor = RGBColor(80, 80, 80);

/// The content of the picture.
pub struct Chart {
    /// One line about the job.
    pub title: String,
    pub ideal_s: f64,
    pub schemes: Vec<SchemeResult>,
    /// The times of exact requests without a job, sorted.
    pub alone_ms: Vec<f64>,
}

/// The results of one scheme.
pub struct SchemeResult {
    pub scheme: SchemeName,
    pub completion_s: f64,
    /// The share of the messages that was delivered.
    pub delivered: f64,
    /// Whether `delivered` is less than the MSR.
    pub falls_short: bool,
    /// The times of exact requests, sorted.
    pub exact_ms: Vec<f64>,
}

impl Chart {
    /// Draws the picture.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn svg(&self) -> Result<String> {
        chart::svg(HEIGHT, |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        area.draw(&Text::new(self.title.clone(), (16, 14), style(TEXT, &DARK, HPos::Left)))?;
        let (_, below) = area.split_vertically(44);
        let (left, right) = below.split_horizontally(LEFT);
        self.draw_completion(&left)?;
        self.draw_times(&right)
    }

    /// Draws a bar for each scheme, and a line for the ideal.
    fn draw_completion(&self, area: &Area<'_>) -> Result<(), Failure> {
        const TOP: i32 = 78;
        const BAR: i32 = 22;
        const FROM: i32 = 16;
        const TO: i32 = LEFT - 110;
        let (_, height) = area.dim_in_pixel();
        write_title(area, "Completion of the job", (FROM, 8))?;
        let longest = self.schemes.iter().map(|scheme| scheme.completion_s);
        let longest = longest.fold(self.ideal_s, f64::max).max(1e-9);
        let x = |seconds: f64| FROM + (f64::from(TO - FROM) * seconds / longest) as i32;
        let room = (height as i32 - TOP) / self.schemes.len().max(1) as i32;
        let room = room.min(78);
        let bottom = TOP + room * self.schemes.len() as i32 - 14;
        for (result, y) in self.schemes.iter().zip((TOP..).step_by(room as usize)) {
            let color = color(result.scheme);
            write(area, label(result), (FROM, y), HPos::Left)?;
            let bar = [(FROM, y + 22), (x(result.completion_s), y + 22 + BAR)];
            let fill = if result.falls_short { color.mix(0.35).filled() } else { color.filled() };
            area.draw(&Rectangle::new(bar, fill))?;
            let seconds = format!("{:.2} s", result.completion_s);
            let end = x(result.completion_s).max(x(self.ideal_s)) + 8;
            write(area, seconds, (end, y + 25), HPos::Left)?;
        }
        // Draw the line beside the bars only, so that it crosses no text.
        let at = x(self.ideal_s);
        for top in (TOP..bottom).step_by(room as usize).map(|y| y + 18) {
            for dash in (top..top + 29).step_by(7) {
                let line = vec![(at, dash), (at, dash + 4)];
                area.draw(&PathElement::new(line, BLACK.stroke_width(2)))?;
            }
        }
        // Keep the text inside this half of the picture.
        let (ideal, side) = match at > LEFT / 2 {
            true => (format!("ideal: {:.2} s ¦", self.ideal_s), HPos::Right),
            false => (format!("¦ ideal: {:.2} s", self.ideal_s), HPos::Left),
        };
        write(area, ideal, (at, TOP - 32), side)
    }

    /// Draws the share of exact requests that were answered within a time.
    fn draw_times(&self, area: &Area<'_>) -> Result<(), Failure> {
        write_title(area, "Exact requests answered within a time", (16, 8))?;
        let lines: Vec<(String, RGBColor, &[f64])> = self
            .schemes
            .iter()
            .map(|result| {
                let name = format!("beside {}", result.scheme.name());
                (name, color(result.scheme), &result.exact_ms[..])
            })
            .chain([("alone".to_owned(), BLACK, &self.alone_ms[..])])
            .filter(|(.., times)| !times.is_empty())
            .collect();
        let all = || lines.iter().flat_map(|(.., times)| times.iter().copied());
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if lines.is_empty() || least >= most {
            let text = "no exact traffic ran beside the job";
            area.draw(&Text::new(text, (16, 56), style(TEXT, &GRAY, HPos::Left)))?;
            return Ok(());
        }
        let (above, area) = area.split_vertically(40 + LEGEND_ROW * lines.len().div_ceil(2) as i32);
        for (number, (name, color, _)) in lines.iter().enumerate() {
            let (column, row) = ((number % 2) as i32, (number / 2) as i32);
            let (x, y) = (80 + 210 * column, 38 + LEGEND_ROW * row);
            let line = vec![(x, y + 8), (x + 18, y + 8)];
            above.draw(&PathElement::new(line, color.stroke_width(3)))?;
            let at = (x + 26, y);
            above.draw(&Text::new(name.clone(), at, style(TEXT - 1, &BLACK, HPos::Left)))?;
        }
        let mut chart = ChartBuilder::on(&area)
            .margin_right(20)
            .margin_bottom(8)
            .margin_top(6)
            .x_label_area_size(54)
            .y_label_area_size(80)
            .build_cartesian_2d((least * 0.8..most * 1.2).log_scale(), 0.0..100.0)?;
        chart
            .configure_mesh()
            .x_desc("time of a request, ms (logarithmic)")
            .y_desc("share of the requests")
            .x_label_formatter(&|ms| format!("{ms}"))
            .y_label_formatter(&|percent| format!("{percent:.0} %"))
            .y_labels(6)
            .max_light_lines(0)
            .bold_line_style(LIGHT)
            .axis_style(GRAY)
            .label_style(style(TEXT - 1, &BLACK, HPos::Left))
            .axis_desc_style(style(TEXT - 1, &BLACK, HPos::Left))
            .draw()?;
        for (_, color, times) in &lines {
            chart.draw_series(LineSeries::new(distribution(times), color.stroke_width(3)))?;
        }
        Ok(())
    }
}

fn label(result: &SchemeResult) -> String {
    let name = result.scheme.name();
    let short = if result.falls_short { ", short of the MSR" } else { "" };
    format!("{name}: {:.0} % of the messages{short}", 100.0 * result.delivered)
}

const fn color(scheme: SchemeName) -> RGBColor {
    match scheme {
        SchemeName::Atp => BLUE,
        SchemeName::AtpReceiverAlone => PURPLE,
        SchemeName::AtpPaper => SKY,
        SchemeName::TcpEarlySend => VERMILION,
        SchemeName::TcpSampleSend => ORANGE,
        SchemeName::Udp => GREEN,
    }
}

/// Points of the distribution function of sorted times: (milliseconds, percent).
fn distribution(times: &[f64]) -> Vec<(f64, f64)> {
    let last = times.len().saturating_sub(1);
    let point = |step: usize| {
        let index = last * step / STEPS;
        (times[index], 100.0 * (index + 1) as f64 / times.len() as f64)
    };
    (0..=STEPS).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(exact_ms: Vec<f64>) -> Chart {
        let result = SchemeResult {
            scheme: SchemeName::Udp,
            completion_s: 0.5,
            delivered: 0.3,
            falls_short: true,
            exact_ms,
        };
        Chart {
            title: "a job".to_owned(),
            ideal_s: 1.0,
            schemes: vec![result],
            alone_ms: Vec::new(),
        }
    }

    #[test]
    fn distribution__ends_at_the_longest_time() {
        let times: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let points = distribution(&times);
        assert_eq!(points.last(), Some(&(1_000.0, 100.0)));
        assert!(points.is_sorted_by(|a, b| a.1 <= b.1));
        assert_eq!(distribution(&[7.0])[0], (7.0, 100.0));
    }

    #[test]
    fn svg__says_what_fell_short() {
        let svg = chart(vec![1.0, 2.0, 30.0]).svg().unwrap();
        assert!(svg.contains("short of the MSR") && svg.contains("beside udp"), "{svg}");
    }

    #[test]
    fn svg__without_exact_traffic() {
        assert!(chart(Vec::new()).svg().unwrap().contains("no exact traffic"));
    }
}
