//! How long each part of a run took: printed at its end, and kept beside the logs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Rung;

/// Names a file with the steps of the script that runs this command, and the seconds of each. They
/// are listed with this run's own.
const STEPS_VARIABLE: &str = "ATP_STEP_TIMES";
/// The most binaries, and the most tests, that are listed.
const ROWS_MAX: usize = 20;
const SECOND: Duration = Duration::from_secs(1);

type Row = (String, Duration);

/// The builds and rungs of this run.
#[derive(Default)]
pub struct Times {
    rows: Vec<Row>,
    /// The file with the earlier steps.
    earlier: Option<PathBuf>,
}

impl Times {
    /// Runs `step`, and adds the time that it took to that of earlier rounds.
    pub fn measure<T>(&mut self, what: &str, step: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let outcome = step();
        self.add(what, started.elapsed());
        outcome
    }

    /// Adds the time of a step that was measured elsewhere.
    pub fn add(&mut self, what: &str, took: Duration) {
        match self.rows.iter_mut().find(|(name, _)| name == what) {
            Some((_, before)) => *before += took,
            None => self.rows.push((what.to_owned(), took)),
        }
    }

    pub fn take(&mut self, beside: Times) {
        beside.rows.into_iter().for_each(|(what, took)| self.add(&what, took));
    }

    /// The steps of the script that runs this command, if it names their file.
    pub fn of_earlier_steps() -> Times {
        std::env::var_os(STEPS_VARIABLE)
            .map_or_else(Times::default, |file| Times::after(file.into()))
    }

    fn after(file: PathBuf) -> Times {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Times { rows: earlier(&text), earlier: Some(file) }
    }

    /// Prints everything that took a second or more, the longest first, and keeps it in `file`.
    /// Removes the file of the earlier steps, which tells the script that they are printed.
    pub fn report(self, rungs: &[Rung], file: &Path) {
        let (mut binaries, mut tests) = (Vec::new(), Vec::new());
        for Rung { place, tally } in rungs {
            let named = |name: String| format!("{name} ({})", place.describe());
            binaries.extend(tally.binaries.iter().map(|(name, t)| (named(name.clone()), *t)));
            tests.extend(tally.times.iter().map(|(name, t)| (named(name.to_string()), *t)));
        }
        let text = table("steps", self.rows, usize::MAX)
            + &table("test binaries", binaries, ROWS_MAX)
            + &table("tests", tests, ROWS_MAX);
        atp_output::note(format!("\n{text}"));
        if let Err(error) = std::fs::write(file, text) {
            atp_output::note!("can't write {}: {error}", file.display());
        }
        // The file may be gone.
        drop(self.earlier.map(std::fs::remove_file));
    }
}

/// Lines of seconds and a name.
fn earlier(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let (seconds, name) = line.trim().split_once(' ')?;
        Some((name.to_owned(), Duration::from_secs(seconds.parse().ok()?)))
    };
    text.lines().filter_map(row).collect()
}

fn table(title: &str, mut rows: Vec<Row>, rows_max: usize) -> String {
    rows.retain(|(_, took)| *took >= SECOND);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    let rows = rows.iter().take(rows_max);
    let lines = rows.map(|(name, took)| format!("{:7.0} s  {name}\n", took.as_secs_f64()));
    format!("time of the {title}, longest first\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_report::{Tally, TestName};

    #[test]
    fn report__lists_steps_binaries_and_tests_and_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("times.txt");
        let long = TestName::new("netns", "long");
        let tally = Tally {
            binaries: vec![("prog_run".into(), 2 * SECOND), ("netns".into(), 90 * SECOND)],
            times: vec![(TestName::new("netns", "short"), SECOND / 2), (long, 80 * SECOND)],
            ..Tally::default()
        };
        let steps = folder.path().join("steps");
        std::fs::write(&steps, "92 kernel tests\n1 a build\n").unwrap();
        let times = Times::after(steps.clone());
        times.report(&[Rung::here(tally)], &file);
        assert!(!steps.exists());
        let expected = "time of the steps, longest first\n     \
                        92 s  kernel tests\n      \
                        1 s  a build\n\
                        time of the test binaries, longest first\n     \
                        90 s  netns (this machine)\n      \
                        2 s  prog_run (this machine)\n\
                        time of the tests, longest first\n     \
                        80 s  netns::long (this machine)\n";
        assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    }

    #[test]
    fn measure__has_one_row_for_all_rounds() {
        let mut times = Times::default();
        ["a", "b", "a"].into_iter().for_each(|step| times.measure(step, || ()));
        assert_eq!(times.rows.len(), 2);
    }

    #[test]
    fn earlier__reads_what_ci_wrote() {
        let rows = earlier("12 the main job\n0 formatting\nnonsense\n");
        assert_eq!(
            rows,
            [("the main job".into(), 12 * SECOND), ("formatting".into(), Duration::ZERO)]
        );
    }
}
