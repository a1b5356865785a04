//! The tables: one for each load.

use atp_output::note;

use super::super::table;
use super::cell::EXACT_LOAD;
use super::chart::{Mark, Panel};
use super::programs::{PARTITIONS, RECORD_BYTES};
use super::row::{Cell, Outcome, Rows};
use crate::median::median;

const COLUMNS: usize = 11;
/// Values that a median needs at least, and that a 99th percentile does: of fewer, it would be the
/// largest one.
const VALUES_MIN: (usize, usize) = (20, 100);

/// One line about an outcome.
pub fn describe(outcome: &Outcome) -> String {
    if let Some(sentence) = &outcome.failed {
        return format!("failed: {sentence}");
    }
    if outcome.windows == 0 {
        return format!("{} exact requests", outcome.exact_ms.len());
    }
    let summary = Summary::new(&[outcome]);
    let latency = match (summary.keeps_up, summary.latency_ms.0) {
        (true, Some(p50)) => format!("answers after {p50:.0} ms"),
        (true, None) => "few answers".to_owned(),
        (false, _) => summary.remarks.clone(),
    };
    let exact =
        summary.exact_ms.1.map_or_else(String::new, |p99| format!(", exact p99 {p99:.1} ms"));
    format!("{latency}, {:.1} % of the records{exact}", 100.0 * summary.arrived)
}

/// Prints a table for each load.
pub fn print(cells: &[Cell], rows: &Rows) {
    for group in groups(cells, rows) {
        note!("\n{}\n{}", group.title(), group.table());
    }
    note!(
        "\nRecords of {RECORD_BYTES} bytes in {PARTITIONS} partitions, windows of 1 s of event \
         time. The load is a share of what the receiver's port can carry beside exact traffic, \
         which uses {:.0} % of it. Latency: from the end of a window to its answer at the \
         receiver; +0.1 s/s: it grows by 0.1 s each second. Records/CPU s: records that arrived per second of processor time of the bridge, \
         the receiver and the daemons.",
        100.0 * EXACT_LOAD
    );
}

/// A panel of the picture for each load.
pub fn panels(cells: &[Cell], rows: &Rows) -> Vec<Panel> {
    groups(cells, rows).iter().map(Group::panel).collect()
}

/// The cells of a table.
struct Group<'a> {
    load: f64,
    rate_bits_per_s: u64,
    /// The cells of the first round, each with the outcomes of all rounds.
    rows: Vec<(&'a Cell, Vec<&'a Outcome>)>,
    alone: Vec<&'a Outcome>,
}

fn groups<'a>(cells: &'a [Cell], rows: &'a Rows) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let outcomes = |is_wanted: &dyn Fn(&Cell) -> bool| {
        cells.iter().filter(|cell| is_wanted(cell)).filter_map(|cell| rows.get(cell)).collect()
    };
    for cell in cells.iter().filter(|cell| cell.scheme.is_some()) {
        let at = groups.iter().position(|group| group.load == cell.load);
        let at = at.unwrap_or_else(|| {
            let alone = outcomes(&|cell| cell.scheme.is_none());
            let (load, rate_bits_per_s) = (cell.load, cell.rate_bits_per_s);
            groups.push(Group { load, rate_bits_per_s, rows: Vec::new(), alone });
            groups.len() - 1
        });
        let is_new = !groups[at].rows.iter().any(|(known, _)| known.is_alike(cell));
        let alike: Vec<&Outcome> = outcomes(&|other| cell.is_alike(other));
        if is_new && !alike.is_empty() {
            groups[at].rows.push((cell, alike));
        }
    }
    groups
}

impl Group<'_> {
    fn title(&self) -> String {
        let rate = self.rate_bits_per_s as f64 / 1e6;
        let records = self.rows.iter().flat_map(|(_, outcomes)| outcomes).map(|o| o.records_per_s);
        let thousands = records.fold(0.0, f64::max) / 1e3;
        format!("load {}: {thousands:.1} k records/s, port of {rate} Mbit/s", self.load)
    }

    fn table(&self) -> comfy_table::Table {
        let line = |(cell, outcomes): &(&Cell, Vec<&Outcome>)| Summary::new(outcomes).line(cell);
        let alone = Summary::new(&self.alone);
        let exact = (!self.alone.is_empty()).then(|| {
            let mut line = [const { String::new() }; COLUMNS];
            line[0] = "exact traffic alone".to_owned();
            [line[8], line[9]] = [alone.exact_ms.0, alone.exact_ms.1].map(ms);
            line
        });
        let header = [
            "scheme",
            "MSR",
            "latency p50",
            "latency p99",
            "arrived",
            "count off by",
            "mean off by",
            "records/CPU s",
            "exact p50",
            "exact p99",
            "remarks",
        ];
        table(header, 1, self.rows.iter().map(line).chain(exact))
    }

    fn panel(&self) -> Panel {
        let mark = |(cell, outcomes): &(&Cell, Vec<&Outcome>)| {
            let summary = Summary::new(outcomes);
            Some(Mark {
                scheme: cell.scheme?,
                msr: cell.msr,
                latency_ms: summary.latency_ms.0.filter(|_| summary.keeps_up),
                keeps_up: summary.keeps_up,
                exact_ms: summary.exact_ms.1,
            })
        };
        let alone_ms = Summary::new(&self.alone).exact_ms.1;
        Panel { title: self.title(), marks: self.rows.iter().filter_map(mark).collect(), alone_ms }
    }
}

/// The results of a scheme over its rounds.
struct Summary {
    keeps_up: bool,
    latency_ms: (Option<f64>, Option<f64>),
    /// The share of the records that arrived.
    arrived: f64,
    count_error: Option<f64>,
    mean_error: Option<f64>,
    records_per_processor_s: Option<f64>,
    exact_ms: (Option<f64>, Option<f64>),
    remarks: String,
}

impl Summary {
    fn new(outcomes: &[&Outcome]) -> Summary {
        let good: Vec<&Outcome> =
            outcomes.iter().copied().filter(|outcome| outcome.failed.is_none()).collect();
        let over = |value: &dyn Fn(&Outcome) -> Option<f64>| {
            median(good.iter().filter_map(|outcome| value(outcome)))
        };
        let all = |values: fn(&Outcome) -> &Vec<f64>| {
            percentiles(good.iter().flat_map(|outcome| values(outcome)).copied().collect())
        };
        let sum = |value: fn(&Outcome) -> u64| good.iter().map(|o| value(o)).sum::<u64>() as f64;
        let answered = |outcome: &Outcome, error: f64| (outcome.answered > 0).then_some(error);
        Summary {
            keeps_up: good.iter().all(|outcome| outcome.keeps_up()),
            latency_ms: all(|outcome| &outcome.latency_ms),
            arrived: sum(|outcome| outcome.received) / sum(|outcome| outcome.records).max(1.0),
            count_error: over(&|outcome| answered(outcome, outcome.count_error)),
            mean_error: over(&|outcome| answered(outcome, outcome.mean_error)),
            records_per_processor_s: over(&Outcome::records_per_processor_s),
            exact_ms: all(|outcome| &outcome.exact_ms),
            remarks: remarks(outcomes),
        }
    }

    fn line(&self, cell: &Cell) -> [String; COLUMNS] {
        let percent = |share: Option<f64>| {
            share.map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share))
        };
        let latency = |value: Option<f64>| ms(value.filter(|_| self.keeps_up));
        let per_s = self.records_per_processor_s;
        [
            cell.scheme.map_or("", super::scheme::Scheme::name).to_owned(),
            cell.msr.map_or_else(String::new, |msr| msr.to_string()),
            latency(self.latency_ms.0),
            latency(self.latency_ms.1),
            format!("{:.1} %", 100.0 * self.arrived),
            percent(self.count_error),
            percent(self.mean_error),
            per_s.map_or_else(String::new, |per_s| format!("{:.0} k", per_s / 1e3)),
            ms(self.exact_ms.0),
            ms(self.exact_ms.1),
            self.remarks.clone(),
        ]
    }
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(String::new, |ms| match ms < 100.0 {
        true => format!("{ms:.1} ms"),
        false => format!("{ms:.0} ms"),
    })
}

/// Failures, schemes that don't keep up, and producers that were late.
fn remarks(outcomes: &[&Outcome]) -> String {
    let mut remarks = Vec::new();
    for outcome in outcomes {
        if let Some(sentence) = &outcome.failed {
            remarks.push(format!("failed: {sentence}"));
        } else if outcome.windows > 0 && !outcome.keeps_up() {
            let Outcome { answered, windows, lag_growth, .. } = outcome;
            remarks.push(match answered {
                0 => "doesn't keep up: no answer in time".to_owned(),
                _ if answered == windows => format!("doesn't keep up: +{lag_growth:.2} s/s"),
                _ => format!(
                    "doesn't keep up: +{lag_growth:.2} s/s, {answered} of {windows} answers"
                ),
            });
        }
        if outcome.is_catching_up() {
            remarks.push("still catching up with its start".to_owned());
        }
        if outcome.is_late() {
            remarks.push(format!("the producer was {:.0} ms late", outcome.behind_ms_max));
        }
    }
    remarks.dedup();
    remarks.join("; ")
}

/// The 50th and the 99th percentile, of enough values.
fn percentiles(mut values: Vec<f64>) -> (Option<f64>, Option<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64, values_min: usize| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().filter(|_| values.len() >= values_min)
    };
    (at(0.5, VALUES_MIN.0), at(0.99, VALUES_MIN.1))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{cell, outcome};
    use super::super::scheme::Scheme;
    use super::*;

    /// The words of each line of the only table.
    fn printed(cells: &[(Cell, Outcome)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        for (cell, outcome) in cells {
            rows.add(cell.clone(), outcome.clone()).unwrap();
        }
        let cells: Vec<Cell> = cells.iter().map(|(cell, _)| cell.clone()).collect();
        let groups = groups(&cells, &rows);
        assert_eq!(groups.len(), 1);
        let text = groups[0].table().to_string();
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn table__percentiles_of_all_rounds_together() {
        let atp = |round| cell(Scheme::Atp, Some(0.8), round);
        let lines = printed(&[(atp(1), outcome(1.0)), (atp(2), outcome(101.0))]);
        let line = "│ atp 0.8 100 ms 198 ms 80.0 % 0.00 % 0.00 % 1 k 2.0 ms 2.0 ms │";
        assert_eq!(lines[3], line);
    }

    #[test]
    fn table__no_latency_of_a_scheme_that_falls_behind() {
        let behind = Outcome { lag_growth: 0.25, answered: 90, ..outcome(1.0) };
        let lines = printed(&[(cell(Scheme::TcpFull, None, 1), behind)]);
        let figures = "│ tcp-full 80.0 % 0.00 % 0.00 % 1 k 2.0 ms 2.0 ms ";
        let remark = "doesn't keep up: +0.25 s/s, 90 of 100 answers │";
        assert_eq!(lines[3], format!("{figures}{remark}"));
    }

    #[test]
    fn table__exact_traffic_alone_has_times_of_requests_only() {
        let measured = cell(Scheme::Atp, Some(0.8), 1);
        let alone = Cell { scheme: None, msr: None, load: 0.0, seconds: 0, ..measured.clone() };
        let times = Outcome { exact_ms: vec![1.0; 100], ..Outcome::new() };
        let lines = printed(&[(alone, times), (measured, outcome(1.0))]);
        assert_eq!(lines[4], "│ exact traffic alone 1.0 ms 1.0 ms │");
    }

    #[test]
    fn remarks__of_failures_and_late_producers() {
        let failed = Outcome::failure("it fell".to_owned());
        let late = Outcome { behind_ms_max: 900.0, ..outcome(1.0) };
        assert_eq!(remarks(&[&failed, &late]), "failed: it fell; the producer was 900 ms late");
    }

    #[test]
    fn percentiles__of_enough_values() {
        let some = |number: u32| percentiles((1..=number).map(f64::from).collect());
        assert_eq!(some(200), (Some(100.0), Some(198.0)));
        assert_eq!(some(99), (Some(50.0), None));
        assert_eq!(some(19), (None, None));
    }
}
