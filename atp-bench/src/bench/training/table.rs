//! The tables: one for each scenario, model and number of ranks.

use super::super::table;
use super::chart::{Curve, Panel};
use super::row::{Cell, Evaluation, Outcome, Rows};
use super::scenario::Scenario;
use super::scheme::{Model, NO_EXCHANGE};
use crate::median::{median, percentile};
use atp_output::note;

/// Steps that percentiles leave out: connections open, PyTorch lays out its buckets, and PowerSGD
/// hasn't begun.
const FIRST_STEPS: usize = 10;

const COLUMNS: usize = 12;
/// Exact requests that a median needs at least, and that a 99th percentile does: of fewer, it would
/// be the longest one.
const REQUESTS_MIN: (usize, usize) = (20, 100);
/// The scheme whose time the others' are compared with.
const BASELINE: &str = "gloo";
const NOTES: &str = "Medians over the seeds; percentiles are those of all seeds together. 95 % after: \
    training time until the first evaluation from which on all have 95 %. Of gloo: that time over \
    gloo's. Step percentiles leave out the first 10 steps. Published elsewhere: NetApprox trained \
    VGG19 to 90 % in 46 instead of 75 minutes, 0.61 of the time; OptiReduce up to 70 % faster, \
    0.3 of the time.";

/// One line about an outcome.
pub fn describe(outcome: &Outcome) -> String {
    if let Some(sentence) = &outcome.failed {
        return format!("failed: {sentence}");
    }
    let Some(accuracy) = outcome.final_accuracy() else {
        return format!("{} exact requests", outcome.exact_ms.len());
    };
    let early = match outcome.ended_early {
        true => format!(", ended early after {} steps", outcome.step_ms.len()),
        false => String::new(),
    };
    let target = outcome.time_to_target_s();
    let target = target.map_or("never".to_owned(), |seconds| format!("after {seconds:.2} s"));
    format!("{:.2} s, accuracy {:.1} %, 95 % {target}{early}", outcome.seconds, 100.0 * accuracy)
}

/// Prints a table for each group of cells.
pub fn print(cells: &[Cell], rows: &Rows) {
    for group in groups(cells, rows) {
        note!("\n{}\n{}", group.title(), group.table());
    }
    note!("\n{NOTES}");
}

/// A panel of the picture for each group of cells.
pub fn panels(cells: &[Cell], rows: &Rows) -> Vec<Panel> {
    groups(cells, rows).iter().map(Group::panel).collect()
}

/// The cells of a table.
struct Group<'a> {
    scenario: Scenario,
    model: Model,
    ranks: usize,
    /// Each scheme with the outcomes of its seeds.
    schemes: Vec<(&'a str, Vec<&'a Outcome>)>,
    alone: Option<&'a Outcome>,
}

fn groups<'a>(cells: &'a [Cell], rows: &'a Rows) -> Vec<Group<'a>> {
    let alone = |scenario: Scenario| {
        let cell = cells.iter().find(|cell| cell.scenario == scenario && cell.model.is_none());
        cell.and_then(|cell| rows.get(cell))
    };
    let mut groups: Vec<Group<'a>> = Vec::new();
    for cell in cells {
        let (Some(model), Some(outcome)) = (cell.model, rows.get(cell)) else { continue };
        let &Cell { scenario, ranks, ref scheme, .. } = cell;
        let is_inside = |group: &Group<'_>| {
            (group.scenario, group.model, group.ranks) == (scenario, model, ranks)
        };
        let at = groups.iter().position(is_inside).unwrap_or(groups.len());
        if at == groups.len() {
            let schemes = Vec::new();
            groups.push(Group { scenario, model, ranks, schemes, alone: alone(scenario) });
        }
        let schemes = &mut groups[at].schemes;
        match schemes.iter_mut().find(|(name, _)| name == scheme) {
            Some((_, outcomes)) => outcomes.push(outcome),
            None => schemes.push((scheme, vec![outcome])),
        }
    }
    groups
}

impl Group<'_> {
    fn title(&self) -> String {
        format!("{}, {} ranks, {}", self.model.name(), self.ranks, self.scenario.title())
    }

    fn table(&self) -> comfy_table::Table {
        let summaries: Vec<(&str, Summary)> =
            self.schemes.iter().map(|(name, outcomes)| (*name, Summary::new(outcomes))).collect();
        let baseline = summaries.iter().find(|(name, _)| *name == BASELINE);
        let baseline_s = baseline.and_then(|(_, summary)| summary.to_target_s);
        let lines = summaries.iter().map(|(name, summary)| summary.line(name, baseline_s));
        let alone = self.alone.map(|outcome| Summary::new(&[outcome]).line_alone());
        let header = [
            "scheme",
            "95 % after",
            "of gloo",
            "accuracy",
            "steps/s",
            "step p50",
            "step p99",
            "p99/p50",
            "MB/step",
            "exact p50",
            "exact p99",
            "remarks",
        ];
        table(header, 1, lines.chain(alone))
    }

    fn panel(&self) -> Panel {
        // Ranks that exchange nothing end before the others have begun.
        let schemes = self.schemes.iter().filter(|(name, _)| *name != NO_EXCHANGE);
        let curve = |(name, outcomes): &(&str, Vec<&Outcome>)| Curve {
            scheme: (*name).to_owned(),
            points: mean_curve(outcomes),
            to_target_s: Summary::new(outcomes).to_target_s.filter(|seconds| seconds.is_finite()),
        };
        Panel { title: self.title(), curves: schemes.map(curve).collect() }
    }
}

/// The mean time and accuracy of each evaluation that all seeds have.
fn mean_curve(outcomes: &[&Outcome]) -> Vec<(f64, f64)> {
    let good: Vec<_> = outcomes.iter().filter(|outcome| outcome.failed.is_none()).collect();
    let shortest = good.iter().map(|outcome| outcome.evaluations.len()).min().unwrap_or(0);
    let mean = |at: usize, value: fn(&Evaluation) -> f64| {
        let sum: f64 = good.iter().map(|outcome| value(&outcome.evaluations[at])).sum();
        sum / good.len() as f64
    };
    (0..shortest).map(|at| (mean(at, |e| e.seconds), mean(at, |e| e.accuracy))).collect()
}

/// The results of a scheme over its seeds.
struct Summary {
    /// Infinite, unless more than half of the seeds reached the target.
    to_target_s: Option<f64>,
    accuracy: Option<f64>,
    steps_per_s: Option<f64>,
    step_ms: Option<(f64, f64)>,
    megabytes_per_step: Option<f64>,
    exact_p50_ms: Option<f64>,
    exact_p99_ms: Option<f64>,
    remarks: String,
}

impl Summary {
    fn new(outcomes: &[&Outcome]) -> Summary {
        let good: Vec<&Outcome> =
            outcomes.iter().copied().filter(|outcome| outcome.failed.is_none()).collect();
        let over = |value: &dyn Fn(&Outcome) -> Option<f64>| {
            median(good.iter().filter_map(|outcome| value(outcome)))
        };
        let exact: Vec<f64> =
            good.iter().flat_map(|outcome| outcome.exact_ms.iter().copied()).collect();
        let requests = exact.len();
        let exact_ms = percentiles(exact);
        Summary {
            to_target_s: over(&|outcome| Some(outcome.time_to_target_s().unwrap_or(f64::INFINITY))),
            accuracy: over(&Outcome::final_accuracy),
            steps_per_s: over(&|outcome| {
                Some(outcome.step_ms.len() as f64 / outcome.seconds.max(1e-9))
            }),
            step_ms: percentiles(
                good.iter()
                    .flat_map(|outcome| outcome.step_ms.iter().skip(FIRST_STEPS).copied())
                    .collect(),
            ),
            megabytes_per_step: over(&|outcome| {
                Some(outcome.sent_bytes / 1e6 / outcome.step_ms.len().max(1) as f64)
            }),
            exact_p50_ms: exact_ms.filter(|_| requests >= REQUESTS_MIN.0).map(|(p50, _)| p50),
            exact_p99_ms: exact_ms.filter(|_| requests >= REQUESTS_MIN.1).map(|(_, p99)| p99),
            remarks: remarks(outcomes),
        }
    }

    fn line(&self, scheme: &str, baseline_s: Option<f64>) -> [String; COLUMNS] {
        let show =
            |value: Option<f64>, text: &dyn Fn(f64) -> String| value.map_or_else(String::new, text);
        let seconds = |seconds: f64| match seconds.is_finite() {
            true => format!("{seconds:.2} s"),
            false => "never".to_owned(),
        };
        let ms = |ms: f64| format!("{ms:.1} ms");
        let baseline_s = baseline_s.filter(|seconds| seconds.is_finite());
        let of_baseline = self.to_target_s.zip(baseline_s).map(|(own, gloo)| own / gloo);
        let ratio = self.step_ms.map(|(p50, p99)| p99 / p50);
        [
            scheme.to_owned(),
            show(self.to_target_s, &seconds),
            show(of_baseline.filter(|ratio| ratio.is_finite()), &|ratio| format!("{ratio:.2}")),
            show(self.accuracy, &|share| format!("{:.1} %", 100.0 * share)),
            show(self.steps_per_s, &|steps| format!("{steps:.1}")),
            show(self.step_ms.map(|step| step.0), &ms),
            show(self.step_ms.map(|step| step.1), &ms),
            show(ratio, &|ratio| format!("{ratio:.1}")),
            show(self.megabytes_per_step, &|megabytes| format!("{megabytes:.3}")),
            show(self.exact_p50_ms, &ms),
            show(self.exact_p99_ms, &ms),
            self.remarks.clone(),
        ]
    }

    /// The line of exact traffic without a training.
    fn line_alone(&self) -> [String; COLUMNS] {
        let mut line = self.line("exact traffic alone", None);
        line[1..9].fill(String::new());
        line
    }
}

/// Failures, and trainings that ended early.
fn remarks(outcomes: &[&Outcome]) -> String {
    let mut remarks = Vec::new();
    for outcome in outcomes {
        if let Some(sentence) = &outcome.failed {
            remarks.push(format!("failed: {sentence}"));
        } else if outcome.ended_early {
            remarks.push(format!("ended early after {} steps", outcome.step_ms.len()));
        }
    }
    remarks.dedup();
    remarks.join("; ")
}

/// The 50th and the 99th percentile.
fn percentiles(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5).zip(percentile(&values, 0.99))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{cell, outcome};
    use super::*;

    fn rows(cells: &[(Cell, Outcome)]) -> (Vec<Cell>, Rows) {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        for (cell, outcome) in cells {
            rows.add(cell.clone(), outcome.clone()).unwrap();
        }
        (cells.iter().map(|(cell, _)| cell.clone()).collect(), rows)
    }

    /// The words of each line of the only table.
    fn printed(cells: &[(Cell, Outcome)]) -> Vec<Vec<String>> {
        let (cells, rows) = rows(cells);
        let groups = groups(&cells, &rows);
        assert_eq!(groups.len(), 1);
        let text = groups[0].table().to_string();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().map(words).collect()
    }

    #[test]
    fn table__medians_over_the_seeds() {
        let gloo = |seed, accuracies: &[f64]| (cell("gloo", seed), outcome(accuracies));
        let lines = printed(&[
            gloo(1, &[0.9, 0.96]),
            gloo(2, &[0.9, 0.9, 0.9, 0.97]),
            gloo(3, &[0.9, 0.94]),
            (cell("atp", 1), outcome(&[0.95, 0.98])),
        ]);
        // Two of three seeds reached it, after 2 and 4 s.
        assert_eq!(lines[3][1..9].join(" "), "gloo 4.00 s 1.00 96.0 % 10.0 100.0");
        assert_eq!(lines[4][1..9].join(" "), "atp 1.00 s 0.25 98.0 % 10.0 100.0");
    }

    #[test]
    fn table__never_and_failed() {
        let early = Outcome { ended_early: true, ..outcome(&[0.5, 0.6]) };
        let lines = printed(&[
            (cell("gloo", 1), early),
            (cell("atp", 1), Outcome::failure("rank 1: it fell".to_owned())),
            (cell("gloo-fp16", 1), outcome(&[0.96])),
        ]);
        let line = lines[3].join(" ");
        assert!(line.contains("gloo never 60.0 %"), "{line}");
        assert!(line.contains("ended early after 20 steps"), "{line}");
        assert!(lines[4].join(" ").contains("atp failed: rank 1: it fell"), "{:?}", lines[4]);
        let line = lines[5].join(" ");
        assert!(line.contains("gloo-fp16 1.00 s 96.0 %"), "{line}: never has no ratio");
    }

    #[test]
    fn table__exact_traffic_alone_has_times_of_requests_only() {
        let alone = Cell::alone(cell("gloo", 1).scenario);
        let times = Outcome { exact_ms: vec![1.0; 100], ..Outcome::default() };
        let lines = printed(&[(alone, times), (cell("gloo", 1), outcome(&[0.96]))]);
        assert_eq!(lines[4].join(" "), "│ exact traffic alone 1.0 ms 1.0 ms │");
    }

    #[test]
    fn table__few_requests_have_no_percentiles() {
        for (count, shown) in [(19, 0), (99, 1), (100, 2)] {
            let some = Outcome { exact_ms: vec![7.0; count], ..outcome(&[0.96]) };
            let lines = printed(&[(cell("noop", 1), some)]);
            let times = lines[3].iter().filter(|word| *word == "7.0").count();
            assert_eq!(times, shown, "{:?}", lines[3]);
        }
    }

    #[test]
    fn percentiles__nearest_ranks() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentiles(values), Some((100.0, 198.0)));
        assert_eq!(percentiles(vec![7.0]), Some((7.0, 7.0)));
        assert_eq!(percentiles(Vec::new()), None);
    }

    #[test]
    fn panels__the_mean_of_the_seeds() {
        let (cells, rows) = rows(&[
            (cell("gloo", 1), outcome(&[0.5, 0.9])),
            (cell("gloo", 2), outcome(&[0.7, 0.8, 0.9])),
            (cell(NO_EXCHANGE, 1), outcome(&[0.5])),
        ]);
        let panels = panels(&cells, &rows);
        assert_eq!(panels[0].curves.len(), 1);
        assert_eq!(panels[0].curves[0].points, [(1.0, 0.6), (2.0, 0.8500000000000001)]);
    }
}
