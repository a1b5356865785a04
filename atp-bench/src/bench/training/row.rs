//! A measured cell, and the file of all of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::rows;
use super::scenario::Scenario;
use super::scheme::{Model, Scheme};

/// The version of the benchmark. Raise it when models, networks or the script change: rows of older
/// versions are then measured again.
const DEFINITION: u32 = 2;

/// The accuracy whose time is reported.
pub const TARGET_ACCURACY: f64 = 0.95;

/// One training, or the exact traffic without any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    pub scenario: Scenario,
    /// None without a training.
    pub model: Option<Model>,
    /// 0 without a training.
    pub ranks: usize,
    pub scheme: String,
    pub seed: u64,
    /// Steps of the training, if it isn't ended early; 0 without one.
    pub steps: usize,
}

/// The results of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why there are no results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The cell's definition when it was measured.
    #[serde(default)]
    pub definition: String,
    /// The training time after which it would end early.
    pub limit_s: f64,
    /// Whether the limit came before the last step.
    pub ended_early: bool,
    pub seconds: f64,
    /// Rank 0's evaluations.
    pub evaluations: Vec<Evaluation>,
    /// Rank 0's steps, in their order.
    pub step_ms: Vec<f64>,
    /// Bytes that all ranks' interfaces sent for the training.
    pub sent_bytes: f64,
    /// Times of the light exact requests that were due while ranks trained.
    pub exact_ms: Vec<f64>,
    /// Exact requests without an answer. Their times are among the others.
    pub exact_unanswered: usize,
    /// Counters of ATP's hook at rank 0.
    pub counters: BTreeMap<String, f64>,
    /// The machine's load average over the minute before the cell.
    pub machine_load: f64,
    /// The time that the cell took, with its preparation.
    pub took_s: f64,
}

/// The model's accuracy after some steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub step: usize,
    /// Training time so far.
    pub seconds: f64,
    pub accuracy: f64,
}

/// The file of all rows.
pub type Rows = rows::Rows<Cell>;

impl Cell {
    /// Exact traffic without a training.
    pub fn alone(scenario: Scenario) -> Cell {
        Cell { scenario, model: None, ranks: 0, scheme: "alone".to_owned(), seed: 0, steps: 0 }
    }

    /// The version of the benchmark, and the scheme's options. Rows with another definition can't
    /// be compared.
    pub fn definition(&self) -> String {
        let told = Scheme::named(&self.scheme).map(|scheme| scheme.told().to_string());
        format!("{DEFINITION} {}", told.unwrap_or_default())
    }

    /// The cell's name in messages.
    pub fn name(&self) -> String {
        let scenario = self.scenario.name();
        match self.model {
            None => format!("{scenario}, exact traffic alone"),
            Some(model) => format!(
                "{scenario}, {}, {} ranks, {}, seed {}",
                model.name(),
                self.ranks,
                self.scheme,
                self.seed
            ),
        }
    }
}

impl Outcome {
    pub fn failure(sentence: String) -> Outcome {
        Outcome { failed: Some(sentence), ..Outcome::default() }
    }

    /// Training time until the first evaluation from which on all reach the target.
    pub fn time_to_target_s(&self) -> Option<f64> {
        let below = self.evaluations.iter().rposition(|at| at.accuracy < TARGET_ACCURACY);
        let first = below.map_or(0, |last| last + 1);
        self.evaluations.get(first).map(|at| at.seconds)
    }

    pub fn final_accuracy(&self) -> Option<f64> {
        self.evaluations.last().map(|at| at.accuracy)
    }
}

impl rows::Cell for Cell {
    type Outcome = Outcome;

    const ROW_BEGIN: &'static str = "{\"scenario\":";

    /// A failure replaces no results.
    fn replaces(&self, outcome: &Outcome, before: &Outcome) -> bool {
        outcome.failed.is_none()
            || before.failed.is_some()
            || before.definition != self.definition()
    }
}

impl Rows {
    /// Whether the cell has results, and a limit of `limit_s` wouldn't let it train longer.
    pub fn has(&self, cell: &Cell, limit_s: f64) -> bool {
        self.get(cell).is_some_and(|outcome| {
            outcome.failed.is_none()
                && outcome.definition == cell.definition()
                && !(outcome.ended_early && outcome.limit_s < limit_s)
        })
    }

    /// Why the cell has no results, if it has none.
    pub fn failure(&self, cell: &Cell) -> Option<&str> {
        self.get(cell).map_or(Some("not measured"), |outcome| outcome.failed.as_deref())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs;

    pub fn cell(scheme: &str, seed: u64) -> Cell {
        let scenario = Scenario::Even;
        let scheme = scheme.to_owned();
        Cell { scenario, model: Some(Model::Mlp), ranks: 2, scheme, seed, steps: 100 }
    }

    /// An outcome with an evaluation each second.
    pub fn outcome(accuracies: &[f64]) -> Outcome {
        let at = |(number, &accuracy): (usize, &f64)| Evaluation {
            step: 10 * (number + 1),
            seconds: (number + 1) as f64,
            accuracy,
        };
        let evaluations: Vec<_> = accuracies.iter().enumerate().map(at).collect();
        let seconds = evaluations.len() as f64;
        Outcome {
            definition: cell("gloo", 1).definition(),
            seconds,
            step_ms: vec![100.0; 10 * accuracies.len()],
            evaluations,
            ..Outcome::default()
        }
    }

    #[test]
    fn time_to_target_s__from_which_on_all_reach_it() {
        let time = |accuracies: &[f64]| outcome(accuracies).time_to_target_s();
        assert_eq!(time(&[0.9, 0.95, 0.97]), Some(2.0));
        assert_eq!(time(&[0.9, 0.96, 0.94, 0.97]), Some(4.0), "it fell again");
        assert_eq!(time(&[0.96]), Some(1.0));
        assert_eq!(time(&[0.96, 0.94]), None);
        assert_eq!(time(&[]), None);
    }

    #[test]
    fn rows__are_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/rows.jsonl");
        let (first, second) = (cell("gloo", 1), cell("gloo", 2));
        let mut rows = Rows::open(&path).unwrap();
        rows.add(first.clone(), outcome(&[0.5])).unwrap();
        rows.add(second.clone(), Outcome::failure("rank 1 fell".to_owned())).unwrap();
        let rows = Rows::open(&path).unwrap();
        assert!(rows.has(&first, 60.0));
        assert_eq!(rows.get(&first), Some(&outcome(&[0.5])));
        assert!(!rows.has(&second, 60.0), "it is measured again");
        assert_eq!(rows.failure(&second), Some("rank 1 fell"));
        assert!(!rows.has(&cell("atp", 1), 60.0));
        assert!(!rows.has(&Cell { steps: 10, ..first }, 60.0), "a try is another cell");
    }

    #[test]
    fn rows__a_higher_limit_matters_to_what_ended_early() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        let early = Outcome { ended_early: true, limit_s: 60.0, ..outcome(&[0.5]) };
        rows.add(cell("gloo", 1), early.clone()).unwrap();
        let definition = cell("atp", 1).definition();
        rows.add(cell("atp", 1), Outcome { ended_early: false, definition, ..early }).unwrap();
        assert!(rows.has(&cell("gloo", 1), 60.0) && !rows.has(&cell("gloo", 1), 90.0));
        assert!(rows.has(&cell("atp", 1), 90.0));
    }

    #[test]
    fn rows__the_last_line_of_a_cell_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let mut rows = Rows::open(&path).unwrap();
        rows.add(cell("gloo", 1), Outcome::failure("rank 1 fell".to_owned())).unwrap();
        rows.add(cell("gloo", 1), outcome(&[0.7])).unwrap();
        assert_eq!(Rows::open(&path).unwrap().get(&cell("gloo", 1)), Some(&outcome(&[0.7])));
    }

    #[test]
    fn rows__a_failure_replaces_no_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let mut rows = Rows::open(&path).unwrap();
        rows.add(cell("gloo", 1), outcome(&[0.7])).unwrap();
        rows.add(cell("gloo", 1), Outcome::failure("rank 1 fell".to_owned())).unwrap();
        for rows in [rows, Rows::open(&path).unwrap()] {
            assert_eq!(rows.get(&cell("gloo", 1)), Some(&outcome(&[0.7])));
        }
    }

    #[test]
    fn rows__of_another_definition_are_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut rows = Rows::open(&folder.path().join("rows.jsonl")).unwrap();
        let other = Outcome { definition: "1 {}".to_owned(), ..outcome(&[0.5]) };
        rows.add(cell("gloo", 1), other).unwrap();
        assert!(!rows.has(&cell("gloo", 1), 60.0));
        assert_ne!(cell("atp-fp16-largest-0.1", 1).definition(), cell("atp", 1).definition());
    }

    #[test]
    fn rows__a_foreign_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        for text in ["milk", "bread\nmilk", "{\"a\": 1}"] {
            fs::write(&path, text).unwrap();
            let refusal = format!("{:#}", Rows::open(&path).err().unwrap());
            assert!(refusal.contains("line 1") && refusal.contains("no result"), "{refusal}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn rows__without_the_line_of_a_killed_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        Rows::open(&path).unwrap().add(cell("gloo", 1), outcome(&[0.7])).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"scenario\":\"ev")).unwrap();
        let rows = Rows::open(&path).unwrap();
        assert!(rows.has(&cell("gloo", 1), 60.0));
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
        fs::write(&path, "{}\n").unwrap();
        let refusal = format!("{:#}", Rows::open(&path).err().unwrap());
        assert!(refusal.contains("line 1") && refusal.contains("no result"), "{refusal}");
    }
}
