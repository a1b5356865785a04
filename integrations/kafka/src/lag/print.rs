//! The table.

use super::{Lag, row::Row};
use anyhow::Result;
use chrono::{DateTime, SecondsFormat};
use comfy_table::{CellAlignment, Table, presets};
use std::time::Duration;

/// Prints the table, and the notes below it.
///
/// # Errors
/// Standard output is closed.
pub fn table(lag: &Lag<'_>) -> Result<()> {
    atp_output::say!("cluster {}, group {}, rule {}", lag.cluster, lag.group, lag.rule);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "partition",
        "start",
        "end",
        "committed",
        "lag",
        "next window",
        "epoch",
        "confirmed until",
        "age of commit",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in &lag.partitions {
        table.add_row(cells(row, lag.at_ms));
    }
    atp_output::say!("{table}");
    for Row { topic, partition, notes, .. } in &lag.partitions {
        for note in notes {
            atp_output::say!("{topic} [{partition}]: {note}");
        }
    }
    Ok(())
}

fn cells(row: &Row, now_ms: u64) -> [String; 9] {
    let window = row.window.map(|window| match row.part {
        None | Some(0) => window.to_string(),
        Some(part) => format!("{window}, part {part}"),
    });
    let age = row.committed_at_ms.map(|at_ms| {
        let age = Duration::from_millis(now_ms.saturating_sub(at_ms));
        format!("{:.0} s", age.as_secs_f64())
    });
    [
        format!("{} [{}]", row.topic, row.partition),
        row.start.to_string(),
        row.end.to_string(),
        or_dash(row.committed),
        or_dash(row.lag),
        or_dash(window),
        or_dash(row.epoch),
        or_dash(row.confirmed_until_ms.map(time)),
        or_dash(age),
    ]
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A time in UTC. Event times may be beyond all calendars.
fn time(time_ms: i64) -> String {
    let time = DateTime::from_timestamp_millis(time_ms);
    let text = |time: DateTime<_>| time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    time.map_or_else(|| format!("{time_ms} ms"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time__is_in_utc() {
        for (time_ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_700_000_000_250, "2023-11-14T22:13:20.250Z"),
            (i64::MAX, "9223372036854775807 ms"),
        ] {
            assert_eq!(time(time_ms), expected);
        }
    }
}
