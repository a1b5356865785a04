//! Writes a timeline as JSON, CSV and SVG. The drawing stacks its panels over one time axis.

use super::{
    Timeline,
    legend::{Entry, LEGEND, legend},
    settings::{Settings, common},
    write::{Files, WriteError},
};
use crate::{engine::US, experiment::Sample};
use plotters::{coord::Shift, prelude::*};
use serde::Serialize;
use std::{fmt::Write as _, path::Path};

/// The JSON document of a timeline.
#[derive(Serialize)]
struct Document<'a> {
    figure: u32,
    title: String,
    claim: &'a str,
    axis: &'a str,
    version: &'a str,
    settings: Settings,
    adaptive_background_after_us: u64,
    samples: Vec<Row>,
}

/// A sample in readable units.
#[derive(Serialize)]
struct Row {
    at_us: f64,
    target_loss_rate: f64,
    loss: f64,
    rate_gbit_per_s: f64,
    sent_gbit_per_s: f64,
    queue: u8,
    background_queue: Option<u8>,
    delivered: u32,
}

impl Row {
    fn of(sample: &Sample) -> Self {
        Self {
            at_us: sample.at_ps as f64 / US as f64,
            target_loss_rate: sample.tlr(),
            loss: sample.loss(),
            rate_gbit_per_s: sample.rate_gbit_per_s(),
            sent_gbit_per_s: sample.sent_gbit_per_s(),
            queue: sample.queue,
            background_queue: sample.background_queue,
            delivered: sample.delivered,
        }
    }
}

/// Writes `figure-N.json`, `figure-N.csv` and `figure-N.svg` into `folder`.
///
/// # Errors
/// If a file cannot be written, or the drawing fails.
pub fn write_timeline(
    timeline: &Timeline,
    samples: &[Sample],
    folder: &Path,
) -> Result<(), WriteError> {
    let files = Files::new(timeline.number, folder);
    let rows: Vec<Row> = samples.iter().map(Row::of).collect();
    let drawn = svg(timeline, &rows);
    let settings = common(std::iter::once(&timeline.point))
        .map_err(|error| WriteError::Drawing(timeline.number, error.to_string()))?;
    files.save("csv", &csv(&rows))?;
    files.save_json(&Document {
        figure: timeline.number,
        title: timeline.title(),
        claim: timeline.claim,
        axis: "time [us]",
        version: env!("CARGO_PKG_VERSION"),
        settings,
        adaptive_background_after_us: timeline.adaptive_background.after_ps / US,
        samples: rows,
    })?;
    files.save_drawing(drawn)
}

fn csv(rows: &[Row]) -> String {
    let mut text = "at_us,target_loss_rate,loss,rate_gbit_per_s,sent_gbit_per_s,queue,\
                    background_queue,delivered\n"
        .to_owned();
    for row in rows {
        let Row { at_us, target_loss_rate, loss, queue, delivered, .. } = row;
        let background = row.background_queue.map_or(String::new(), |queue| queue.to_string());
        // Writing to a string doesn't fail.
        let _ = writeln!(
            text,
            "{at_us},{target_loss_rate:.5},{loss:.5},{:.4},{:.4},{queue},{background},{delivered}",
            row.rate_gbit_per_s, row.sent_gbit_per_s
        );
    }
    text
}

/// A line of a panel: its name, and its value for a row.
type Line = (&'static str, fn(&Row) -> Option<f64>);

const PANELS: [(&str, [Line; 2]); 3] = [
    (
        "share of packets",
        [
            ("measured loss", |row| Some(row.loss)),
            ("target loss rate", |row| Some(row.target_loss_rate)),
        ],
    ),
    (
        "Gbit/s",
        [
            ("allowed rate", |row| Some(row.rate_gbit_per_s)),
            ("sent", |row| Some(row.sent_gbit_per_s)),
        ],
    ),
    (
        "queue",
        [
            ("the job's", |row| Some(row.queue.into())),
            ("background traffic's", |row| row.background_queue.map(f64::from)),
        ],
    ),
];

/// The size of the drawing, pixels.
const SIZE: (u32, u32) = (900, 660);
/// The colors of a panel's two lines.
const COLORS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];

fn svg(timeline: &Timeline, rows: &[Row]) -> Result<String, String> {
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    let title = format!("Figure {}: {}", timeline.number, timeline.title());
    let below = area.titled(&title, ("sans-serif", 16)).map_err(|error| error.to_string())?;
    let panels = below.split_evenly((PANELS.len(), 1));
    for (panel, (unit, lines)) in panels.iter().zip(&PANELS) {
        draw(panel, unit, lines, rows)?;
    }
    area.present().map_err(|error| error.to_string())?;
    drop((panels, below, area));
    Ok(text)
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    unit: &str,
    lines: &[Line],
    rows: &[Row],
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Err("there are no samples".to_owned());
    };
    let values = lines.iter().flat_map(|(_, of)| rows.iter().filter_map(of));
    let most = values.fold(0.0, f64::max).max(1e-9);
    let (chart, beside) = area.split_horizontally(SIZE.0 as i32 - LEGEND);
    let mut chart = ChartBuilder::on(&chart)
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(first.at_us..last.at_us.max(first.at_us + 1.0), 0.0..1.1 * most)
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc("time [us]")
        .y_desc(unit)
        .x_label_formatter(&f64::to_string)
        .max_light_lines(1)
        .draw()
        .map_err(|error| failed(&error))?;
    for ((_, of), color) in lines.iter().zip(COLORS) {
        let line = rows.iter().filter_map(|row| Some((row.at_us, of(row)?)));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(1)))
            .map_err(|error| failed(&error))?;
    }
    let entry = |(line, color): (&Line, RGBColor)| Entry {
        name: line.0.to_owned(),
        color,
        is_dashed: false,
    };
    let entries: Vec<Entry> = lines.iter().zip(COLORS).map(entry).collect();
    legend(&beside, 20, &entries).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_timeline__writes_three_files_with_the_same_values() {
        let folder = tempfile::tempdir().unwrap();
        let timeline = Timeline::figure_10();
        let sample = |at_us: u64, queue, loss_q16| Sample {
            at_ps: at_us * US,
            tlr_q16: 1 << 15,
            loss_q16,
            rate_bytes_per_s: 1_250_000_000,
            lasts_ps: 50 * US,
            sent_bytes: 12_500,
            queue,
            background_queue: Some(queue.max(2)),
            delivered: 7,
        };
        let samples = [sample(50, 4, 1 << 14), sample(12_600, 1, 0)];
        write_timeline(&timeline, &samples, folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let csv = read("figure-10.csv");
        assert!(csv.contains("\n50,0.50000,0.25000,10.0000,2.0000,4,4,7\n"), "{csv}");
        assert!(csv.contains("\n12600,0.50000,0.00000,10.0000,2.0000,1,2,7\n"), "{csv}");
        let json: serde_json::Value = serde_json::from_str(&read("figure-10.json")).unwrap();
        assert_eq!(json["samples"][0]["loss"], 0.25);
        assert_eq!(json["samples"][1]["background_queue"], 2);
        let svg = read("figure-10.svg");
        assert!(svg.starts_with("<svg") && svg.matches("time [us]").count() == 3);
    }
}
