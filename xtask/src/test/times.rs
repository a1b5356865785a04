//! How long each part of a run took: printed at its end, and kept beside the logs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

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
pub struct Times(Vec<Row>);

impl Times {
    /// Runs `step`, and notes how long it took.
    pub fn measure<T>(&mut self, what: &str, step: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let outcome = step();
        self.0.push((what.to_owned(), started.elapsed()));
        outcome
    }

    /// The steps of the script that runs this command, if it names their file.
    pub fn of_earlier_steps() -> Times {
        let file = std::env::var_os(STEPS_VARIABLE);
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        Times(earlier(&text.unwrap_or_default()))
    }

    /// Prints everything that took a second or more, the longest first, and keeps it in `file`.
    pub fn report(self, rungs: &[Rung], file: &Path) -> Result<()> {
        let (mut binaries, mut tests) = (Vec::new(), Vec::new());
        for Rung { place, tally } in rungs {
            let named = |name: String| format!("{name} ({})", place.describe());
            binaries.extend(tally.binaries.iter().map(|(name, t)| (named(name.clone()), *t)));
            tests.extend(tally.times.iter().map(|(name, t)| (named(name.to_string()), *t)));
        }
        let text = table("steps", self.0, usize::MAX)
            + &table("test binaries", binaries, ROWS_MAX)
            + &table("tests", tests, ROWS_MAX);
        atp_output::note(format!("\n{text}"));
        std::fs::write(file, text).with_context(|| format!("can't write {}", file.display()))
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
    use crate::test::capability::Place;
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
        let times = Times(vec![("kernel tests".into(), 92 * SECOND), ("a build".into(), SECOND)]);
        times.report(&[Rung { place: Place::host(), tally }], &file).unwrap();
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
    fn earlier__reads_what_ci_wrote() {
        let rows = earlier("12 the main job\n0 formatting\nnonsense\n");
        assert_eq!(
            rows,
            [("the main job".into(), 12 * SECOND), ("formatting".into(), Duration::ZERO)]
        );
    }
}
