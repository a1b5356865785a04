//! The tables: one for each load.

use atp_output::note;

use super::super::table;
use super::cell::EXACT_LOAD;
use super::chart::{Mark, Panel};
use super::figure::Figure;
use super::rounds::Rounds;
use super::row::{Cell, Outcome, PARTITIONS, Rows};

const COLUMNS: usize = 14;

/// One line about an outcome.
pub fn describe(cell: &Cell, outcome: &Outcome) -> String {
    if let Some(sentence) = &outcome.failed {
        return format!("failed: {sentence}");
    }
    if outcome.windows == 0 {
        return format!("{} exact requests", outcome.exact_ms.len());
    }
    let rounds = Rounds::new(cell, &[outcome]);
    let latency = match (rounds.keeps_up, rounds.latency_ms.0) {
        (true, Some(p50)) => format!("answers after {:.0} ms", p50.median),
        (true, None) => "few answers".to_owned(),
        (false, _) => rounds.remarks.clone(),
    };
    let exact = rounds
        .exact_ms
        .1
        .map_or_else(String::new, |p99| format!(", exact p99 {:.1} ms", p99.median));
    let idle = rounds.idle.map_or_else(String::new, |idle| {
        format!(", processors idle for {:.0} %", 100.0 * idle.median)
    });
    format!("{latency}, {:.1} % of the records{exact}{idle}", 100.0 * rounds.arrived)
}

/// Prints a table for each load.
pub fn print(cells: &[Cell], rows: &Rows) {
    for group in groups(cells, rows) {
        note!("\n{}\n{}", group.title(), group.table());
    }
    note!(
        "\n{PARTITIONS} partitions, windows of 1 s of event time. Of several rounds, the medians, \
         with their ranges below. The load is a share of what the receiver's port can carry beside \
         exact traffic, which uses {:.0} % of it. Latency: from the end of a window to its answer \
         at the receiver; +0.1 s/s: it grows by 0.1 s each second. Goodput: bytes of the values that \
         answers are about, at the pace of answers. Records/CPU s: records that \
         arrived per second of processor time of the bridge, the receiver and the daemons. Port: \
         the share of its rate that it sent. Idle: the share of the processors' time without work; \
         near 0 %, they were the limit.",
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
    value_bytes: u32,
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
            let &Cell { load, rate_bits_per_s, value_bytes, .. } = cell;
            groups.push(Group { load, rate_bits_per_s, value_bytes, rows: Vec::new(), alone });
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
        let Group { load, value_bytes, .. } = self;
        format!(
            "load {load}: {thousands:.1} k records/s of {value_bytes} bytes, port of {rate} Mbit/s"
        )
    }

    fn table(&self) -> comfy_table::Table {
        let line = |(cell, outcomes): &(&Cell, Vec<&Outcome>)| {
            let name = cell.scheme.map_or("", super::scheme::Scheme::name);
            let sampling = cell.sampling().unwrap_or_default();
            self.line(name, sampling, &Rounds::new(cell, outcomes))
        };
        let alone = self.alone_rounds().map(|rounds| {
            let mut line = self.line("exact traffic alone", String::new(), &rounds);
            line[1..9].fill(String::new());
            line
        });
        let header = [
            "scheme",
            "sampling",
            "latency p50",
            "latency p99",
            "arrived",
            "goodput",
            "count off by",
            "mean off by",
            "records/CPU s",
            "port",
            "idle",
            "exact p50",
            "exact p99",
            "remarks",
        ];
        table(header, 1, self.rows.iter().map(line).chain(alone))
    }

    fn line(&self, name: &str, sampling: String, rounds: &Rounds) -> [String; COLUMNS] {
        let latency = |figure: Option<Figure>| ms(figure.filter(|_| rounds.keeps_up));
        let port_bytes_per_s = self.rate_bits_per_s as f64 / 8.0;
        let thousands = |value: f64| format!("{:.0}", value / 1e3);
        [
            name.to_owned(),
            sampling,
            latency(rounds.latency_ms.0),
            latency(rounds.latency_ms.1),
            format!("{:.1} %", 100.0 * rounds.arrived),
            text(rounds.goodput_bytes_per_s, |bytes| format!("{:.1}", megabits(bytes)), " Mbit/s"),
            percent(rounds.count_error, 1.0, 2),
            percent(rounds.mean_error, 1.0, 2),
            text(rounds.records_per_processor_s, thousands, " k"),
            percent(rounds.port_bytes_per_s, port_bytes_per_s, 0),
            percent(rounds.idle, 1.0, 0),
            ms(rounds.exact_ms.0),
            ms(rounds.exact_ms.1),
            rounds.remarks.clone(),
        ]
    }

    /// The rounds of exact traffic alone.
    fn alone_rounds(&self) -> Option<Rounds> {
        let (cell, _) = self.rows.first().filter(|_| !self.alone.is_empty())?;
        Some(Rounds::new(cell, &self.alone))
    }

    fn panel(&self) -> Panel {
        let mark = |(cell, outcomes): &(&Cell, Vec<&Outcome>)| {
            let rounds = Rounds::new(cell, outcomes);
            let latency = rounds.latency_ms.0.filter(|_| rounds.keeps_up);
            Some(Mark {
                scheme: cell.scheme?,
                sampling: cell.sampling(),
                latency_ms: latency.map(|latency| latency.median),
                keeps_up: rounds.keeps_up,
                exact_ms: rounds.exact_ms.1.map(|exact| exact.median),
                goodput_mbit_per_s: rounds.goodput_bytes_per_s.map(|g| megabits(g.median)),
            })
        };
        let alone_ms = self.alone_rounds().and_then(|rounds| rounds.exact_ms.1);
        let alone_ms = alone_ms.map(|alone| alone.median);
        Panel { title: self.title(), marks: self.rows.iter().filter_map(mark).collect(), alone_ms }
    }
}

fn megabits(bytes_per_s: f64) -> f64 {
    8.0 * bytes_per_s / 1e6
}

fn text(figure: Option<Figure>, number: impl Fn(f64) -> String, unit: &str) -> String {
    figure.map_or_else(String::new, |figure| figure.text(number, unit))
}

fn ms(figure: Option<Figure>) -> String {
    let digits = usize::from(figure.is_some_and(|figure| figure.median < 100.0));
    text(figure, |ms| format!("{ms:.digits$}"), " ms")
}

fn percent(figure: Option<Figure>, whole: f64, digits: usize) -> String {
    text(figure, |part| format!("{:.digits$}", 100.0 * part / whole), " %")
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
    fn table__medians_of_rounds_with_their_ranges() {
        let atp = |round| cell(Scheme::Atp, Some(0.8), round);
        let lines = printed(&[(atp(1), outcome(1.0)), (atp(2), outcome(101.0))]);
        let line = "│ atp MSR 0.8 100 ms 149 ms 80.0 % 0.0 Mbit/s 0.00 % 0.00 % 1 k 80 % 25 % 2.0 ms 2.0 ms │";
        assert_eq!(lines[3], line);
        let ranges = "│ 50-150 99-199 │";
        assert_eq!(lines[4], ranges);
    }

    #[test]
    fn table__no_latency_of_a_scheme_that_falls_behind() {
        let behind = Outcome { lag_growth: 0.25, answered: 90, ..outcome(1.0) };
        let lines = printed(&[(cell(Scheme::TcpFull, None, 1), behind)]);
        let figures = "│ tcp-full 80.0 % 0.0 Mbit/s 0.00 % 0.00 % 1 k 80 % 25 % 2.0 ms 2.0 ms ";
        let remark = "doesn't keep up: +0.25 s/s, 90 of 100 answers │";
        assert_eq!(lines[3], format!("{figures}{remark}"));
    }

    #[test]
    fn table__exact_traffic_alone_has_no_answers() {
        let measured = cell(Scheme::Atp, Some(0.8), 1);
        let alone = Cell { scheme: None, msr: None, load: 0.0, seconds: 0, ..measured.clone() };
        let times = Outcome { exact_ms: vec![1.0; 100], idle: Some(0.9), ..Outcome::new() };
        let lines = printed(&[(alone, times), (measured, outcome(1.0))]);
        assert_eq!(lines[4], "│ exact traffic alone 0 % 90 % 1.0 ms 1.0 ms │");
    }
}
