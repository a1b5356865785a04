//! A figure as JSON, CSV and SVG.

use super::{Cell, Figure, Series};
use plotters::prelude::*;
use serde::Serialize;
use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

/// Why a figure could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file.
    #[error("can't write {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The drawing.
    #[error("can't draw figure {0}: {1}")]
    Drawing(u32, String),
    /// The drawing of a map.
    #[error("can't draw the map {0}: {1}")]
    Map(&'static str, String),
}

/// All of a figure, for the JSON file.
#[derive(Serialize)]
struct Document<'a> {
    figure: u32,
    title: &'a str,
    claim: &'a str,
    axis: &'a str,
    metric: &'a str,
    series: &'a [Series],
}

/// Writes `figure-N.json`, `figure-N.csv` and `figure-N.svg` into `folder`.
///
/// # Errors
/// What couldn't be written, or drawn.
pub fn write(figure: &Figure, series: &[Series], folder: &Path) -> Result<(), WriteError> {
    let files = Files::new(figure.number, folder);
    files.save_json(&Document {
        figure: figure.number,
        title: &figure.title,
        claim: figure.claim,
        axis: figure.axis,
        metric: figure.metric.label(),
        series,
    })?;
    files.save("csv", &csv(series))?;
    files.save_drawing(svg(figure, series))
}

/// The files of one figure.
pub(super) struct Files<'a> {
    number: u32,
    folder: &'a Path,
}

impl<'a> Files<'a> {
    /// Of figure `number`, in a folder that there is.
    pub const fn new(number: u32, folder: &'a Path) -> Self {
        Self { number, folder }
    }

    /// One of them.
    pub fn save(&self, extension: &str, text: &str) -> Result<(), WriteError> {
        let path = self.folder.join(format!("figure-{}.{extension}", self.number));
        std::fs::write(&path, text).map_err(|source| WriteError::File { path, source })
    }

    /// The JSON file.
    pub fn save_json(&self, document: &impl Serialize) -> Result<(), WriteError> {
        let json = serde_json::to_string_pretty(document)
            .map_err(|error| WriteError::Drawing(self.number, error.to_string()))?;
        self.save("json", &(json + "\n"))
    }

    /// The drawing, if it came to one.
    pub fn save_drawing(&self, drawing: Result<String, String>) -> Result<(), WriteError> {
        self.save("svg", &drawing.map_err(|error| WriteError::Drawing(self.number, error))?)
    }
}

fn csv(series: &[Series]) -> String {
    let mut text = "scheme,x,mean,least,most,seeds,jobs,jobs_complete,messages_undelivered,\
                    packets_dropped,queue_mean_bytes\n"
        .to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    for cell in series.iter().flat_map(|series| &series.cells) {
        let Cell { scheme, x, mean, least, most, seeds, jobs, jobs_complete, .. } = cell;
        let (lost, dropped) = (cell.messages_undelivered, cell.packets_dropped);
        // Writing to a string doesn't fail.
        let _ = writeln!(
            text,
            "{scheme},{x},{},{},{},{seeds},{jobs},{jobs_complete},{lost:.5},{dropped:.5},{:.0}",
            number(*mean),
            number(*least),
            number(*most),
            cell.queue_mean_bytes
        );
    }
    text
}

fn svg(figure: &Figure, series: &[Series]) -> Result<String, String> {
    let cells = || series.iter().flat_map(|series| &series.cells);
    let bounds = |values: Vec<f64>| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if least < most { Some((least, most)) } else { None }
    };
    let (from, to) = bounds(cells().map(|cell| cell.x).collect()).ok_or("a single place")?;
    let most = cells().filter_map(|cell| cell.most).fold(0.0, f64::max);
    let mut text = String::new();
    let area = SVGBackend::with_string(&mut text, (720, 440)).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("Figure {}: {}", figure.number, figure.title), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(from..to, 0.0..(most * 1.05).max(1e-9))
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(figure.axis)
        .y_desc(figure.metric.label())
        .draw()
        .map_err(|error| failed(&error))?;
    for (number, series) in series.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let line = series.cells.iter().filter_map(|cell| Some((cell.x, cell.mean?)));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))
            .map_err(|error| failed(&error))?
            .label(&series.scheme)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.4))
        .draw()
        .map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))?;
    drop(chart);
    drop(area);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Extent, figure};

    fn cell(x: f64, mean: Option<f64>) -> Cell {
        Cell {
            scheme: "udp".to_owned(),
            x,
            mean,
            least: mean,
            most: mean,
            seeds: 1,
            jobs: 9,
            jobs_complete: 8,
            messages_undelivered: 0.25,
            packets_dropped: 0.125,
            queue_mean_bytes: 77.0,
        }
    }

    #[test]
    fn write__three_files_that_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let cells = vec![cell(0.5, Some(10.0)), cell(0.9, Some(20.5)), cell(0.95, None)];
        let series = [Series { scheme: "udp".to_owned(), cells }];
        write(&figure(5, Extent::Quick).unwrap(), &series, folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(
            read("figure-5.csv")
                .contains("udp,0.9,20.500,20.500,20.500,1,9,8,0.25000,0.12500,77\n")
        );
        assert!(read("figure-5.csv").contains("udp,0.95,,,,1,9,8,"));
        let json: serde_json::Value = serde_json::from_str(&read("figure-5.json")).unwrap();
        assert_eq!(json["series"][0]["cells"][1]["mean"], 20.5);
        let svg = read("figure-5.svg");
        assert!(svg.starts_with("<svg") && svg.contains("Figure 5") && svg.contains("polyline"));
    }

    #[test]
    fn write__a_folder_that_is_not_there_is_named() {
        let series =
            [Series { scheme: "udp".to_owned(), cells: vec![cell(0.5, None), cell(0.6, None)] }];
        let error =
            write(&figure(5, Extent::Quick).unwrap(), &series, Path::new("/no/such")).unwrap_err();
        assert!(error.to_string().contains("/no/such/figure-5.json"), "{error}");
    }
}
