//! The tables of `atp-sim figure`: a row per series, and a column per position.

use atp_sim::figures::{Cell, Figure, Metric, Series};
use comfy_table::{CellAlignment, Table, presets};

/// The tables of a figure with their captions: its quantity, the quantities beside it, and the
/// ratios of its quantity to the reference.
pub fn all(figure: &Figure, series: &[Series]) -> Vec<(String, Table)> {
    let mut metrics = vec![figure.metric];
    metrics.extend(figure.metric.beside());
    let value = |metric: Metric| {
        let table = table(figure.axis, series, |cell| value_text(cell, metric));
        (metric.label().to_owned(), table)
    };
    let mut tables: Vec<(String, Table)> = metrics.into_iter().map(value).collect();
    if let Some(reference) = figure.reference() {
        let caption = format!("{}, ratio to {reference}", figure.metric.label());
        tables.push((caption, table(figure.axis, series, |cell| ratio_text(cell, figure.metric))));
    }
    tables
}

fn value_text(cell: &Cell, metric: Metric) -> String {
    let never = cell.jobs - cell.jobs_complete;
    match (cell.measured(metric).value, never) {
        (Some(value), 1..) if metric == Metric::CompletionP99Us => {
            format!("{} ({never} never)", metric.text(&value))
        }
        (Some(value), _) => metric.text(&value),
        (None, 1..) if metric.counts_all_jobs() => format!("{never} of {} never", cell.jobs),
        (None, _) => "-".to_owned(),
    }
}

fn ratio_text(cell: &Cell, metric: Metric) -> String {
    cell.measured(metric).ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn table(axis: &str, series: &[Series], text: impl Fn(&Cell) -> String) -> Table {
    let mut table = Table::new();
    let cells = series.first().map_or(&[][..], |series| &series.cells[..]);
    let header = [format!("scheme \\ {axis}")].into_iter();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(header.chain(cells.iter().map(|cell| cell.x.to_string())));
    for series in series {
        table.add_row([series.scheme.clone()].into_iter().chain(series.cells.iter().map(&text)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_sim::{figures::Measured, statistics::Estimate};

    fn cell(jobs_complete: usize, mean: Option<f64>) -> Cell {
        let value = |mean| Estimate { mean, half_width_95: Some(1.25), least: mean, most: mean };
        let measured = Measured { value: mean.map(value), ratio: mean.map(value) };
        let metrics = [Metric::CompletionUs, Metric::CompletionP99Us, Metric::ExactUs];
        Cell {
            scheme: "udp".to_owned(),
            x: 0.5,
            seeds: 3,
            jobs: 9,
            jobs_complete,
            measured: metrics.map(|metric| (metric, measured)).into(),
        }
    }

    #[test]
    fn value_text__says_how_many_jobs_never_completed() {
        let text = |complete, mean, metric| value_text(&cell(complete, mean), metric);
        assert_eq!(text(9, Some(2.0), Metric::CompletionUs), "2.0 ±1.2");
        assert_eq!(text(7, None, Metric::CompletionUs), "2 of 9 never");
        assert_eq!(text(7, Some(2.0), Metric::CompletionP99Us), "2.0 ±1.2 (2 never)");
        assert_eq!(text(7, None, Metric::ExactUs), "-");
        assert_eq!(ratio_text(&cell(7, None), Metric::CompletionUs), "-");
        assert_eq!(ratio_text(&cell(9, Some(0.5)), Metric::CompletionUs), "0.50 ±1.25");
    }
}
