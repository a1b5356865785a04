//! Writes a figure as JSON, CSV and SVG, and redraws the SVG from the JSON.

use super::{
    Cell, Extent, Figure, Measured, Run, Series, draw,
    settings::{self, CellDocument, Settings},
};
use crate::files;
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

/// The reason why a figure or map could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be written.
    #[error("cannot write {path}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of an earlier run cannot be read.
    #[error("cannot read {path}")]
    Reading {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system, or of the parser.
        source: io::Error,
    },
    /// A figure cannot be drawn.
    #[error("cannot draw figure {0}: {1}")]
    Drawing(u32, String),
    /// A map cannot be drawn.
    #[error("cannot draw the map {0}: {1}")]
    Map(&'static str, String),
}

impl WriteError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Reading { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The JSON document of a figure.
#[derive(Serialize)]
struct Document<'a> {
    figure: u32,
    title: &'a str,
    claim: &'a str,
    axis: &'a str,
    metric: &'a str,
    version: &'a str,
    extent: Extent,
    seeds: Vec<u64>,
    /// The series that the ratios are relative to.
    reference: Option<&'a str>,
    /// The settings that all runs share.
    settings: &'a Settings,
    series: Vec<SeriesDocument<'a>>,
}

#[derive(Serialize)]
struct SeriesDocument<'a> {
    scheme: &'a str,
    cells: Vec<CellDocument<'a, Cell>>,
}

/// Writes `figure-N.json`, `figure-N.csv` and `figure-N.svg` into `folder`.
///
/// # Errors
/// If a file cannot be written, or the drawing fails.
pub fn write(
    figure: &Figure,
    extent: Extent,
    seeds: u64,
    series: &[Series],
    folder: &Path,
) -> Result<(), WriteError> {
    let files = Files::new(figure.number, folder);
    let failed = |error: serde_json::Error| WriteError::Drawing(figure.number, error.to_string());
    let points = figure.runs.iter().map(|run| &run.point);
    let mut common = settings::common(points).map_err(failed)?;
    common.remove("seed");
    files.save_json(&Document {
        figure: figure.number,
        title: &figure.title,
        claim: figure.claim,
        axis: figure.axis,
        metric: figure.metric.label(),
        version: env!("CARGO_PKG_VERSION"),
        extent,
        seeds: (1..=seeds).collect(),
        reference: figure.reference(),
        settings: &common,
        series: documents(figure, series, &common).map_err(failed)?,
    })?;
    files.save("csv", &csv(series))?;
    files.save_drawing(draw::svg(figure, extent, series))
}

fn documents<'a>(
    figure: &Figure,
    series: &'a [Series],
    common: &Settings,
) -> Result<Vec<SeriesDocument<'a>>, serde_json::Error> {
    let of_cell = |cell: &'a Cell| {
        let is_run_of_cell = |run: &&Run| run.series == cell.scheme && run.x == cell.x;
        let settings = match figure.runs.iter().find(is_run_of_cell) {
            Some(run) => settings::beside(&run.point, common, &["seed"])?,
            None => Settings::new(),
        };
        Ok(CellDocument { cell, settings })
    };
    let of_series = |series: &'a Series| {
        let cells = series.cells.iter().map(of_cell).collect::<Result<_, serde_json::Error>>()?;
        Ok(SeriesDocument { scheme: &series.scheme, cells })
    };
    series.iter().map(of_series).collect()
}

/// The parts of a figure's JSON that redrawing needs.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    extent: Extent,
    series: Vec<Series>,
}

/// Redraws `figure-N.svg` in `folder` from `figure-N.json`. `of` returns the figure's titles.
///
/// # Errors
/// If a file cannot be read or written, or the drawing fails.
pub fn redraw(
    number: u32,
    of: impl Fn(Extent) -> Option<Figure>,
    folder: &Path,
) -> Result<(), WriteError> {
    let path = folder.join(format!("figure-{number}.json"));
    let failed = |source| WriteError::Reading { path: path.clone(), source };
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let Written { extent, series } =
        serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    let drawing = match of(extent) {
        Some(figure) => draw::svg(&figure, extent, &series),
        None => Err("it cannot be redrawn from its file".to_owned()),
    };
    Files::new(number, folder).save_drawing(drawing)
}

/// The files of one figure.
pub(super) struct Files<'a> {
    number: u32,
    folder: &'a Path,
}

impl<'a> Files<'a> {
    /// The files of figure `number` in an existing folder.
    pub const fn new(number: u32, folder: &'a Path) -> Self {
        Self { number, folder }
    }

    /// Writes one file.
    pub fn save(&self, extension: &str, text: &str) -> Result<(), WriteError> {
        let path = self.folder.join(format!("figure-{}.{extension}", self.number));
        files::replace(&path, text).map_err(|source| WriteError::File { path, source })
    }

    /// Writes the JSON file.
    pub fn save_json(&self, document: &impl Serialize) -> Result<(), WriteError> {
        let json = serde_json::to_string_pretty(document)
            .map_err(|error| WriteError::Drawing(self.number, error.to_string()))?;
        self.save("json", &(json + "\n"))
    }

    /// Writes the drawing, or returns its error.
    pub fn save_drawing(&self, drawing: Result<String, String>) -> Result<(), WriteError> {
        self.save("svg", &drawing.map_err(|error| WriteError::Drawing(self.number, error))?)
    }
}

/// The CSV text: a line per cell and quantity. Ratios are relative to the figure's reference.
fn csv(series: &[Series]) -> String {
    let mut text =
        "scheme,x,seeds,jobs,jobs_complete,quantity,mean,half_width_95,least,most,ratio,\
                    ratio_half_width_95\n"
            .to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.5}"));
    for cell in series.iter().flat_map(|series| &series.cells) {
        let Cell { scheme, x, seeds, jobs, jobs_complete, measured } = cell;
        for (metric, Measured { value, ratio }) in measured {
            // Neither writing to a string nor a unit variant's name fails.
            let quantity = serde_json::to_value(metric).unwrap_or_default();
            let quantity = quantity.as_str().unwrap_or_default();
            let _ = writeln!(
                text,
                "{scheme},{x},{seeds},{jobs},{jobs_complete},{quantity},{},{},{},{},{},{}",
                number(value.map(|value| value.mean)),
                number(value.and_then(|value| value.half_width_95)),
                number(value.map(|value| value.least)),
                number(value.map(|value| value.most)),
                number(ratio.map(|ratio| ratio.mean)),
                number(ratio.and_then(|ratio| ratio.half_width_95)),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figures::{Metric, figure},
        statistics::Estimate,
    };

    fn cell(x: f64, mean: Option<f64>) -> Cell {
        let estimate = |mean| Estimate { mean, half_width_95: Some(2.5), least: 9.0, most: 21.0 };
        let ratio = Estimate { mean: 0.75, half_width_95: None, least: 0.75, most: 0.75 };
        let measured = Measured { value: mean.map(estimate), ratio: Some(ratio) };
        Cell {
            scheme: "udp".to_owned(),
            x,
            seeds: 2,
            jobs: 9,
            jobs_complete: 8,
            measured: [(Metric::CompletionUs, measured)].into(),
        }
    }

    #[test]
    fn write__writes_three_files_with_the_same_values() {
        let folder = tempfile::tempdir().unwrap();
        let cells = vec![cell(0.5, Some(10.0)), cell(0.9, Some(20.5)), cell(0.95, None)];
        let series = [Series { scheme: "udp".to_owned(), cells }];
        let of = |extent| figure(5, extent);
        write(&of(Extent::Quick).unwrap(), Extent::Quick, 2, &series, folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let csv = read("figure-5.csv");
        let values = "20.50000,2.50000,9.00000,21.00000,0.75000,";
        assert!(csv.contains(&format!("\nudp,0.9,2,9,8,completion_us,{values}\n")), "{csv}");
        assert!(csv.contains("\nudp,0.95,2,9,8,completion_us,,,,,0.75000,\n"), "{csv}");
        let json: serde_json::Value = serde_json::from_str(&read("figure-5.json")).unwrap();
        let measured = &json["series"][0]["cells"][1]["measured"]["completion_us"];
        assert_eq!(
            (&measured["value"]["mean"], &measured["ratio"]["mean"]),
            (&20.5.into(), &0.75.into())
        );
        let svg = read("figure-5.svg");
        assert!(svg.starts_with("<svg") && svg.contains("Figure 5") && svg.contains("polyline"));
        // The document contains the settings of the runs.
        assert_eq!((&json["extent"], &json["seeds"]), (&"quick".into(), &vec![1, 2].into()));
        let settings = &json["settings"];
        assert_eq!((&settings["hosts"], &settings["duration_us"]), (&12.into(), &100.0.into()));
        let cell = &json["series"][0]["cells"][0];
        assert_eq!(cell["settings"], serde_json::json!({"scheme": "udp", "msr": 0.5}));
        // Redrawing gives the same file.
        std::fs::remove_file(folder.path().join("figure-5.svg")).unwrap();
        redraw(5, of, folder.path()).unwrap();
        assert_eq!(read("figure-5.svg"), svg);
        let error = redraw(6, of, folder.path()).unwrap_err().to_string();
        assert!(error.contains("figure-6.json"), "{error}");
    }

    #[test]
    fn write__names_a_missing_folder() {
        let series =
            [Series { scheme: "udp".to_owned(), cells: vec![cell(0.5, None), cell(0.6, None)] }];
        let error = write(
            &figure(5, Extent::Quick).unwrap(),
            Extent::Quick,
            2,
            &series,
            Path::new("/no/such"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("/no/such/figure-5.json"), "{error}");
    }
}
