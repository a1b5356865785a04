//! The table of `atp-sim run`: one row per scheme, at most 120 columns wide.

use super::rows::Row;
use atp_sim::experiment::{Point, Times, fraction_from_msr};
use comfy_table::{CellAlignment, Table, presets};

/// A column: its header, which may have several lines, and its text for a row.
struct Column {
    header: &'static str,
    of: fn(&Row) -> String,
}

const COLUMNS: [Column; 12] = [
    Column { header: "scheme", of: |row| row.scheme.clone() },
    Column { header: "jobs\ndone", of: |row| done(&row.summary.completion) },
    Column { header: "JCT us\nmean", of: |row| mean(&row.summary.completion) },
    Column {
        header: "\nmedian",
        of: |row| ended(&row.summary.completion, |times| times.median_us),
    },
    Column { header: "\np99", of: |row| ended(&row.summary.completion, |times| times.p99_us) },
    Column { header: "\nall", of: |row| row.summary.all_done_us.map_or("never".to_owned(), us) },
    Column {
        header: "undeli-\nvered %",
        of: |row| percent(row.summary.messages_undelivered_share),
    },
    Column { header: "dropped\n%", of: |row| percent(row.summary.packets_dropped_share) },
    Column { header: "wasted\n%", of: |row| percent(row.summary.wasted_share) },
    Column { header: "queue B\nmean", of: |row| row.outcome.queue_mean_bytes.to_string() },
    Column { header: "\nworst", of: |row| row.outcome.queue_worst_bytes.to_string() },
    Column { header: "\nmax", of: |row| row.outcome.queue_max_bytes.to_string() },
];

/// The main table, one row per scheme.
pub fn table(rows: &[Row]) -> Table {
    of_columns(&COLUMNS, rows)
}

/// The caption of the main table: the settings of the run, and the meaning of the columns.
pub fn caption(point: &Point, traffic: &str) -> String {
    format!(
        "{} ({} hosts), {traffic}, MSR {}, seed {}\n\
         JCT, all, undelivered and wasted count approximate jobs only.\n\
         JCT: job completion time, from a job's first message until it has the messages it needs.\n\
         all: from the first message of any job until the last job is complete.\n\
         undelivered: share of messages; most of them were not needed any more.\n\
         wasted: share of the data bytes sent that were dropped, late, repeated or of unfinished messages.\n\
         dropped: share of all packets that switches dropped.\n\
         queue: bytes at a switch port while messages arrive: the mean over time and ports, the mean over\n\
         time at the port where it is the longest, and the maximum.",
        point.network_spec,
        point.network_spec.hosts(),
        fraction_from_msr(point.msr),
        point.seed
    )
}

/// The table of exact jobs' message times; `None` if there is no exact message.
pub fn exact_table(rows: &[Row]) -> Option<Table> {
    let columns = [
        Column { header: "scheme", of: |row| row.scheme.clone() },
        Column {
            header: "exact messages us\nmean",
            of: |row| row.summary.exact_mean_us.map_or("-".to_owned(), us),
        },
        Column { header: "\np99", of: |row| row.summary.exact_p99_us.map_or("-".to_owned(), us) },
    ];
    let has_any = |row: &Row| row.summary.exact_mean_us.is_some();
    rows.iter().any(has_any).then(|| of_columns(&columns, rows))
}

/// The table of coflows; `None` if there is no coflow.
pub fn coflow_table(rows: &[Row]) -> Option<Table> {
    fn times(row: &Row) -> Times {
        row.summary.coflow_completion.unwrap_or(Times::of_ps(std::iter::empty()))
    }
    let columns = [
        Column { header: "scheme", of: |row| row.scheme.clone() },
        Column { header: "coflows\ndone", of: |row| done(&times(row)) },
        Column { header: "CCT us\nmean", of: |row| mean(&times(row)) },
        Column { header: "\nmedian", of: |row| ended(&times(row), |times| times.median_us) },
        Column { header: "\np99", of: |row| ended(&times(row), |times| times.p99_us) },
    ];
    let has_any = |row: &Row| row.summary.coflow_completion.is_some();
    rows.iter().any(has_any).then(|| of_columns(&columns, rows))
}

fn of_columns(columns: &[Column], rows: &[Row]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(columns.iter().map(|column| column.header));
    for row in rows {
        table.add_row(columns.iter().map(|column| (column.of)(row)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn done(times: &Times) -> String {
    format!("{}/{}", times.number - times.never, times.number)
}

/// The mean as text. A mean exists only if every job ends.
fn mean(times: &Times) -> String {
    match (times.mean_us, times.never) {
        (Some(mean_us), _) => us(mean_us),
        (None, 0) => "-".to_owned(),
        (None, never) => format!("{never} never"),
    }
}

fn ended(times: &Times, of: fn(&Times) -> Option<f64>) -> String {
    match of(times) {
        Some(time_us) => us(time_us),
        None if times.number == 0 => "-".to_owned(),
        None => "never".to_owned(),
    }
}

/// Formats microseconds, with one decimal place below 10 ms.
fn us(us: f64) -> String {
    if us < 10_000.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_sim::experiment::{NetworkSpec, Point, Scheme};

    fn rows(schemes: &[&str], point: &Point) -> Vec<Row> {
        let schemes: Vec<Scheme> = schemes.iter().map(|name| name.parse().unwrap()).collect();
        crate::cli::rows::run_all(std::slice::from_ref(point), &schemes)
    }

    fn star(hosts: u32, trace: &str) -> Point {
        let network_spec: NetworkSpec = format!("star:{hosts}").parse().unwrap();
        let trace: atp_sim::workload::Trace = trace.parse().unwrap();
        let traffic = atp_sim::experiment::Traffic::Trace(trace.into());
        Point { network_spec, traffic, ..Point::default() }
    }

    /// A UDP job that loses too much has no completion time. A mean over the other jobs would
    /// mislead.
    #[test]
    fn table__has_no_mean_if_a_job_never_ends() {
        // Three hosts send 20 MB each to one host through a buffer of 1.5 MB, and all data is
        // needed.
        let long = |from| format!("0 {from} 0 20000000\n");
        let point = Point {
            msr: atp_common::units::Msr::EXACT,
            ..star(5, &format!("{}{}{}0 4 1 100\n", long(1), long(2), long(3)))
        };
        let rows = rows(&["udp", "dctcp-es"], &point);
        let text = table(&rows).to_string();
        let line = |name| text.lines().find(|line| line.contains(name)).unwrap();
        assert!(!line("udp").contains("4/4") && line("udp").contains(" never"), "{text}");
        assert!(line("dctcp").contains("4/4") && !line("dctcp").contains("never"), "{text}");
    }

    #[test]
    fn table__fits_a_terminal() {
        let point = star(3, "0 0 1 100\n5 1 2 64000000\n");
        let rows = rows(&["atp:fix-prio:frugal", "aeolus-es", "udp"], &point);
        let text = table(&rows).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(exact_table(&rows).is_none() && coflow_table(&rows).is_none());
    }

    #[test]
    fn coflow_table__exists_if_jobs_belong_to_coflows() {
        let rows = rows(&["udp"], &star(4, "0 0 1 100 7\n90 2 1 100 7\n90 2 3 100 8\n"));
        let text = coflow_table(&rows).unwrap().to_string();
        assert!(text.contains("2/2"), "{text}");
        let mean_us = rows[0].summary.coflow_completion.unwrap().mean_us.unwrap();
        // One coflow lasts from 0 until shortly after 90 us; the other one is very short.
        assert!((45.0..50.0).contains(&mean_us), "{mean_us}");
    }
}
