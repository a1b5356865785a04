//! A figure as JSON, CSV and SVG.

use super::{
    Cell, Extent, Figure, Run, Series, draw,
    settings::{self, CellDocument, Settings},
};
use crate::files;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

/// Why a figure could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file.
    #[error("can't write {path}")]
    File {
        /// Which one.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// A figure that was written before.
    #[error("can't read {path}")]
    Reading {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The drawing.
    #[error("can't draw figure {0}: {1}")]
    Drawing(u32, String),
    /// The drawing of a map.
    #[error("can't draw the map {0}: {1}")]
    Map(&'static str, String),
}

impl WriteError {
    /// Nothing is wrong but that a figure was never written there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Reading { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// All of a figure, for the JSON file.
#[derive(Serialize)]
struct Document<'a> {
    figure: u32,
    title: &'a str,
    claim: &'a str,
    axis: &'a str,
    metric: &'a str,
    version: &'a str,
    extent: Extent,
    seeds: BTreeSet<u64>,
    /// Of all runs.
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
/// What couldn't be written, or drawn.
pub fn write(
    figure: &Figure,
    extent: Extent,
    series: &[Series],
    folder: &Path,
) -> Result<(), WriteError> {
    let files = Files::new(figure.number, folder);
    let failed = |error: serde_json::Error| WriteError::Drawing(figure.number, error.to_string());
    let points = || figure.runs.iter().map(|run| &run.point);
    let common = settings::common(points()).map_err(failed)?;
    files.save_json(&Document {
        figure: figure.number,
        title: &figure.title,
        claim: figure.claim,
        axis: figure.axis,
        metric: figure.metric.label(),
        version: env!("CARGO_PKG_VERSION"),
        extent,
        seeds: settings::seeds(points()),
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
        let is_its = |run: &&Run| run.series == cell.scheme && run.x == cell.x;
        let settings = match figure.runs.iter().find(is_its) {
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

/// What is needed of a figure's JSON to draw it again.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    extent: Extent,
    series: Vec<Series>,
}

/// Draws `figure-N.svg` in `folder` from the `figure-N.json` that is there, without running anything.
/// `of` makes the figure's titles.
///
/// # Errors
/// What couldn't be read, written, or drawn.
pub fn draw_again(
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
        None => Err("it can't be drawn from its file".to_owned()),
    };
    Files::new(number, folder).save_drawing(drawing)
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
        files::replace(&path, text).map_err(|source| WriteError::File { path, source })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::figure;

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
        let of = |extent| figure(5, extent);
        write(&of(Extent::Quick).unwrap(), Extent::Quick, &series, folder.path()).unwrap();
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
        // How it was made.
        assert_eq!((&json["extent"], &json["seeds"]), (&"quick".into(), &vec![1].into()));
        let settings = &json["settings"];
        assert_eq!((&settings["hosts"], &settings["duration_us"]), (&12.into(), &100.0.into()));
        let cell = &json["series"][0]["cells"][0];
        assert_eq!(cell["settings"], serde_json::json!({"scheme": "udp", "msr": 0.5}));
        // From the file it is drawn the same.
        std::fs::remove_file(folder.path().join("figure-5.svg")).unwrap();
        draw_again(5, of, folder.path()).unwrap();
        assert_eq!(read("figure-5.svg"), svg);
        let error = draw_again(6, of, folder.path()).unwrap_err().to_string();
        assert!(error.contains("figure-6.json"), "{error}");
    }

    #[test]
    fn write__a_folder_that_is_not_there_is_named() {
        let series =
            [Series { scheme: "udp".to_owned(), cells: vec![cell(0.5, None), cell(0.6, None)] }];
        let error = write(
            &figure(5, Extent::Quick).unwrap(),
            Extent::Quick,
            &series,
            Path::new("/no/such"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("/no/such/figure-5.json"), "{error}");
    }
}
