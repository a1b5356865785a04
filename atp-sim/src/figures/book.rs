//! Draws the pictures of the book from its numbers, `docs/src/results/figures/figures.csv`.
//!
//! The numbers stay those of the version that the file names: drawing runs no simulation.

use super::{
    Cell, Extent, Measured, Metric, Series,
    draw::{Quantity, chart, entry, interval_note},
    figure,
    legend::{Area, Entry, Failure, legend, style},
};
use crate::statistics::Estimate;
use plotters::{prelude::*, style::text_anchor::HPos};
use std::collections::BTreeMap;

/// The head of the CSV file. `figure` writes the same columns and `least` and `most`, without the
/// first two.
const COLUMNS: &str = "figure,version,seeds,scheme,x,jobs,jobs_complete,quantity,mean,\
                       half_width_95,ratio,ratio_half_width_95";

/// The figures with a picture, and the charts in it. Figure 14 would be four equal lines.
const PICTURES: [(u32, &[Quantity]); 8] = {
    use Metric::{
        CompletionUs, DroppedShare, ExactP99Us, ExactUs, QueueBytes, SlowestUs, WorstQueueBytes,
    };
    const QUEUES: &[Quantity] = &[Quantity::value(QueueBytes), Quantity::value(WorstQueueBytes)];
    const COMPLETION: &[Quantity] = &[
        Quantity::value(CompletionUs),
        Quantity::ratio(CompletionUs),
        Quantity::ratio(SlowestUs),
        Quantity::value(DroppedShare),
    ];
    [
        (5, COMPLETION),
        (
            6,
            &[
                Quantity::value(CompletionUs),
                Quantity::ratio(CompletionUs),
                Quantity::value(DroppedShare),
            ],
        ),
        (7, QUEUES),
        (8, QUEUES),
        (9, COMPLETION),
        (11, &[Quantity::value(CompletionUs), Quantity::ratio(CompletionUs)]),
        (12, &[Quantity::value(CompletionUs), Quantity::value(DroppedShare)]),
        (
            13,
            &[Quantity::value(ExactUs), Quantity::value(ExactP99Us), Quantity::ratio(CompletionUs)],
        ),
    ]
};

/// The size of a chart, pixels. A picture has two charts beside each other.
const CHART: (i32, i32) = (450, 290);
const TITLE: i32 = 16;
const HEAD: i32 = 36;
/// The size of an entry of the legend, pixels. The legend is above the charts.
const ENTRY: (i32, i32) = (300, 22);
const ENTRIES_PER_ROW: usize = 3;

/// Draws every picture of the book: the figure's number, and the SVG.
///
/// # Errors
/// If a line of the CSV file isn't as `figure` writes it, or a figure can't be drawn.
pub fn book_pictures(csv: &str) -> Result<Vec<(u32, String)>, String> {
    let figures = parse(csv)?;
    let picture = |(number, quantities): &(u32, &[Quantity])| {
        let series = figures.get(number).ok_or(format!("figure {number} has no numbers"))?;
        let series = common(series, quantities);
        let svg = svg(*number, quantities, &series)
            .map_err(|error| format!("can't draw figure {number}: {error}"))?;
        Ok((*number, svg))
    };
    PICTURES.iter().map(picture).collect()
}

/// The series to draw: those in one chart only, which are many, are left to the CSV file.
fn common(series: &[Series], quantities: &[Quantity]) -> Vec<Series> {
    let is_in = |series: &Series, quantity: &Quantity| {
        series.cells.iter().any(|cell| quantity.of(cell).is_some())
    };
    let charts = |series: &Series| quantities.iter().filter(|of| is_in(series, of)).count();
    let is_common = |series: &&Series| charts(series) >= quantities.len().min(2);
    series.iter().filter(is_common).cloned().collect()
}

/// The series of each figure. Of several versions of a figure it has the first.
fn parse(csv: &str) -> Result<BTreeMap<u32, Vec<Series>>, String> {
    let mut lines = csv.lines();
    if lines.next() != Some(COLUMNS) {
        return Err(format!("line 1: must be {COLUMNS}"));
    }
    let mut versions = BTreeMap::new();
    let mut figures: BTreeMap<u32, Vec<Series>> = BTreeMap::new();
    for (line, number) in lines.zip(2..) {
        let row = Row::parse(line).ok_or(format!("line {number}: can't read {line:?}"))?;
        if *versions.entry(row.figure).or_insert(row.version) == row.version {
            let figure = figures.entry(row.figure).or_default();
            row.add_to(figure);
        }
    }
    Ok(figures)
}

/// A line of the CSV file.
struct Row<'a> {
    figure: u32,
    version: &'a str,
    seeds: usize,
    scheme: &'a str,
    x: f64,
    metric: Metric,
    measured: Measured,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let cells: [&str; 12] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let [figure, version, seeds, scheme, x, _, _, metric, numbers @ ..] = cells;
        let [mean, half_width, ratio, ratio_half_width] = numbers;
        let value = estimate(mean, half_width)?;
        let ratio = estimate(ratio, ratio_half_width)?;
        Some(Self {
            figure: figure.parse().ok()?,
            version,
            seeds: seeds.parse().ok()?,
            scheme,
            x: x.parse().ok()?,
            metric: serde_json::from_value(metric.into()).ok()?,
            measured: Measured { value, ratio },
        })
    }

    fn add_to(self, figure: &mut Vec<Series>) {
        let Self { seeds, scheme, x, metric, measured, .. } = self;
        let series = match figure.iter().position(|series| series.scheme == scheme) {
            Some(at) => &mut figure[at],
            None => {
                figure.push(Series { scheme: scheme.to_owned(), cells: Vec::new() });
                figure.last_mut().expect("a series was added")
            }
        };
        match series.cells.iter_mut().find(|cell| cell.x == x) {
            Some(cell) => drop(cell.measured.insert(metric, measured)),
            None => series.cells.push(Cell {
                scheme: scheme.to_owned(),
                x,
                seeds,
                jobs: 0,
                jobs_complete: 0,
                measured: [(metric, measured)].into(),
            }),
        }
    }
}

/// An estimate from its two columns; `Some(None)` if they are empty, `None` if they are no numbers.
fn estimate(mean: &str, half_width: &str) -> Option<Option<Estimate>> {
    let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
    match (mean, half_width) {
        ("", "") => Some(None),
        (mean, half_width) => {
            let mean = number(mean)?;
            let half_width_95 =
                if half_width.is_empty() { None } else { Some(number(half_width)?) };
            Some(Some(Estimate { mean, half_width_95, least: mean, most: mean }))
        }
    }
}

fn svg(number: u32, quantities: &[Quantity], series: &[Series]) -> Result<String, Failure> {
    let figure = figure(number, Extent::Full).ok_or("there is no such figure")?;
    let legend_rows = series.len().div_ceil(ENTRIES_PER_ROW) as i32;
    let head = HEAD + ENTRY.1 * legend_rows;
    let columns = quantities.len().min(2) as i32;
    let height = head + CHART.1 * quantities.len().div_ceil(columns as usize) as i32;
    let mut text = String::new();
    let size = ((2 * CHART.0) as u32, height as u32);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    area.fill(&WHITE)?;
    let title = format!("Figure {number}: {}{}", figure.title, interval_note(series));
    area.draw(&Text::new(title, (12, 18), style(TITLE, HPos::Left)))?;
    let (above, below) = area.split_vertically(head);
    for (at, series) in series.iter().enumerate() {
        let (row, column) = ((at / ENTRIES_PER_ROW) as i32, (at % ENTRIES_PER_ROW) as i32);
        let at = (column * ENTRY.0, HEAD + row * ENTRY.1);
        let entry: Entry = entry(series, figure.metric);
        let part: Area<'_> = above.clone().shrink((at.0, at.1), (ENTRY.0 as u32, ENTRY.1 as u32));
        legend(&part, ENTRY.1 / 2, &[entry])?;
    }
    for (at, quantity) in quantities.iter().enumerate() {
        let part = ((at as i32 % columns) * CHART.0, (at as i32 / columns) * CHART.1);
        let part = below.clone().shrink(part, (CHART.0 as u32, CHART.1 as u32));
        chart(&part, figure.axis, *quantity, series)?;
    }
    area.present()?;
    drop((above, below, area));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(lines: &str) -> Result<BTreeMap<u32, Vec<Series>>, String> {
        parse(&format!("{COLUMNS}\n{lines}"))
    }

    #[test]
    fn parse__joins_the_quantities_of_a_cell() {
        let figures = parsed(
            "5,a,20,udp,0.5,,,completion_us,321,2,0.94,0.01\n\
             5,a,20,udp,0.5,,,dropped_share,0.133,,,\n\
             5,a,20,udp,0.9,9,8,completion_us,,,,\n\
             5,b,3,ndp-es,0.5,,,completion_us,1,,,\n",
        )
        .unwrap();
        let [series] = &figures[&5][..] else { panic!("{figures:?}") };
        let [cell, incomplete] = &series.cells[..] else { panic!("{series:?}") };
        let completion = cell.measured(Metric::CompletionUs);
        let value = completion.value.unwrap();
        assert_eq!((value.mean, value.half_width_95), (321.0, Some(2.0)));
        assert_eq!(completion.ratio.unwrap().mean, 0.94);
        assert_eq!(cell.measured(Metric::DroppedShare).value.unwrap().half_width_95, None);
        assert_eq!(incomplete.measured(Metric::CompletionUs), Measured::default());
    }

    #[test]
    fn parse__names_a_faulty_line() {
        for line in [
            "5,a,20,udp,0.5,,,completion_us,321,2,0.94",
            "5,a,20,udp,0.5,,,length,321,2,,",
            "5,a,20,udp,0.5,,,completion_us,NaN,,,",
            "5,a,20,udp,0.5,,,completion_us,,2,,",
        ] {
            assert!(parsed(line).unwrap_err().starts_with("line 2: can't read"), "{line}");
        }
        assert!(parse("scheme,x").unwrap_err().starts_with("line 1: must be"));
        assert_eq!(book_pictures(COLUMNS).unwrap_err(), "figure 5 has no numbers");
    }
}
